//! A Bayesian layer as scores see it.

use fidgp::layer::Conv2dConfig;
use fidgp::ood::{Tap, log_unexplained, mean_patch};
use fidgp::prior::PriorFactors;
use tch::{Device, Kind, Tensor};

use crate::error::{LabError, Result};

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
    /// The variance score of an input. `[N]`
    pub(super) fn unexplained(&self, input: &Tensor, images: i64) -> Result<Tensor> {
        Ok(log_unexplained(&self.factors, &self.patch(input, images)?))
    }

    /// What the layer gave and the gradient there, positions last. `[N, channels, ..]`
    pub(super) fn tap(&self, feature: &Tensor, gradient: &Tensor, images: i64) -> Result<Tap> {
        let own = |tensor: &Tensor| match &self.conv {
            Some(_) => Ok(tensor.shallow_clone()),
            None => positions_last(&self.name, tensor, images),
        };
        Ok(Tap { feature: own(&feature.detach())?, gradient: own(gradient)? })
    }

    /// The mean patch, for a linear layer the mean token, a bias's 1 at the end. `[N, d_in]`, in f64
    pub(super) fn patch(&self, input: &Tensor, images: i64) -> Result<Tensor> {
        let x = match &self.conv {
            Some(conv) => mean_patch(&input.detach(), conv)?,
            None => match positions_last(&self.name, &input.detach().to_kind(Kind::Double), images)? {
                tokens if tokens.dim() > 2 => tokens.mean_dim([-1_i64].as_slice(), false, Kind::Double),
                vectors => vectors,
            },
        };
        let bias = x.size()[1] + 1 == self.factors.a_col.size()[1];
        Ok(if bias { Tensor::cat(&[&x, &x.narrow(1, 0, 1).ones_like()], 1) } else { x })
    }
}

/// What a linear layer sees or gives: tokens are positions of an image, as the pixels of a convolution are; networks that lay the
/// tokens of all images one after another have them too. `[N, .., d]` or `[N·tokens, d]` → `[N, d, tokens]`, vectors stay.
fn positions_last(layer: &str, tensor: &Tensor, images: i64) -> Result<Tensor> {
    let size = tensor.size();
    let (rows, width) = (size.first().copied().unwrap_or(0), size.last().copied().unwrap_or(0));
    if size.len() == 2 && rows == images {
        return Ok(tensor.shallow_clone());
    }
    if size.len() < 2 || images < 1 || rows % images != 0 {
        let why = format!("sees {size:?} for {images} images; scores of a layer need as many tokens of each image");
        return Err(LabError::config(layer, why));
    }
    Ok(tensor.reshape([images, -1, width]).transpose(1, 2))
}

/// In f64 on the CPU, without history.
pub(super) fn plain(tensor: &Tensor) -> Tensor {
    tensor.detach().to_device(Device::Cpu).to_kind(Kind::Double)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_positions_wherever_they_stand() {
        let numbers = Tensor::arange(24, (Kind::Double, Device::Cpu));
        let tokens = numbers.reshape([2, 3, 4]);
        let positions = positions_last("fc", &tokens, 2).unwrap();
        assert_eq!(positions.size(), [2, 4, 3]);
        assert_eq!(positions, tokens.transpose(1, 2));
        assert_eq!(positions, positions_last("fc", &numbers.reshape([6, 4]), 2).unwrap());
        assert_eq!(positions_last("fc", &numbers.reshape([6, 4]), 6).unwrap().size(), [6, 4], "vectors");
        let refused = positions_last("fc", &numbers.reshape([6, 4]), 4).unwrap_err().to_string();
        assert!(refused.contains("fc") && refused.contains("[6, 4] for 4 images"), "{refused}");
    }
}
