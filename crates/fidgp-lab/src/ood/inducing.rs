//! A Bayesian layer as scores see it.

use fidgp::layer::Conv2dConfig;
use fidgp::ood::{log_unexplained, mean_patch};
use fidgp::prior::PriorFactors;
use tch::{Device, Kind, Tensor};

use crate::error::Result;

/// A Bayesian layer at the U that is used for every set.
#[derive(Debug)]
pub struct Inducing {
    /// The layer's name.
    pub name: String,
    /// U. `[R, C]`
    pub u: Tensor,
    pub(super) conv: Option<Conv2dConfig>,
    pub(super) factors: PriorFactors,
    pub(super) t_row: Tensor,
}

impl Inducing {
    pub(super) fn unexplained(&self, input: &Tensor) -> Result<Tensor> {
        Ok(log_unexplained(&self.factors, &self.patch(input)?))
    }

    /// The mean patch, a bias's 1 at the end. `[N, d_in]`, in f64
    pub(super) fn patch(&self, input: &Tensor) -> Result<Tensor> {
        let x = match &self.conv {
            Some(conv) => mean_patch(&input.detach(), conv)?,
            None => input.detach().to_kind(Kind::Double),
        };
        let bias = x.size()[1] + 1 == self.factors.a_col.size()[1];
        Ok(if bias { Tensor::cat(&[&x, &x.narrow(1, 0, 1).ones_like()], 1) } else { x })
    }
}

/// In f64 on the CPU, without history.
pub(super) fn plain(tensor: &Tensor) -> Tensor {
    tensor.detach().to_device(Device::Cpu).to_kind(Kind::Double)
}
