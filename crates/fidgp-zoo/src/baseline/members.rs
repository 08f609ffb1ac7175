//! Networks of several members, whose outputs go out as blocks of rows: `[K·N, outputs]`, member 0's first.

use fidgp::layer::{Network, Pass, Slot};
use tch::Tensor;

/// One network that takes its batch K times: BatchEnsemble.
#[derive(Debug)]
pub struct Tiled {
    /// The network, with layers that know their members' rows.
    pub network: Box<dyn Network>,
    /// K.
    pub members: i64,
}

impl Network for Tiled {
    /// # Shapes
    /// `[N, ..]` → `[K·N, outputs]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let mut times = vec![1; x.dim()];
        if let Some(first) = times.first_mut() {
            *first = self.members;
        }
        self.network.forward(&x.f_repeat(times)?, pass)
    }

    fn slots(&self) -> Vec<&Slot> {
        self.network.slots()
    }

    fn members(&self) -> i64 {
        self.members
    }
}

/// Networks of their own: a deep ensemble (Lakshminarayanan et al. 2017).
#[derive(Debug)]
pub struct Ensemble {
    /// The members.
    pub networks: Vec<Box<dyn Network>>,
}

impl Network for Ensemble {
    /// # Shapes
    /// `[N, ..]` → `[K·N, outputs]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let outputs =
            self.networks.iter().map(|network| network.forward(x, pass)).collect::<fidgp::Result<Vec<_>>>()?;
        Ok(Tensor::f_cat(&outputs, 0)?)
    }

    fn slots(&self) -> Vec<&Slot> {
        self.networks.iter().flat_map(|network| network.slots()).collect()
    }

    fn members(&self) -> i64 {
        self.networks.len() as i64
    }
}
