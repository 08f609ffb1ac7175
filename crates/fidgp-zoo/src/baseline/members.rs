//! Networks of several members, whose outputs go out as blocks of rows: `[K·N, outputs]`, member 0's first.

use fidgp::layer::{Network, Pass};
use tch::Tensor;

/// One network that takes its batch K times: BatchEnsemble.
#[derive(Debug)]
pub struct Tiled {
    /// The network, with layers that know their members' rows.
    pub network: Box<dyn Network>,
    /// K.
    pub members: i64,
}

fidgp::layers!(Tiled: network);

impl Network for Tiled {
    /// # Shapes
    /// `[N, ..]` → `[K·N, outputs]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        // `repeat` would lay the channels of a picture out as planes again, and every layer after it
        let tiles = vec![x; self.members.max(0) as usize];
        self.network.forward(&Tensor::f_cat(&tiles, 0)?, pass)
    }

    fn head(&self) -> Option<&str> {
        self.network.head()
    }

    fn takes_empty_batches(&self) -> bool {
        self.network.takes_empty_batches()
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

fidgp::layers!(Ensemble: networks);

impl Network for Ensemble {
    /// # Shapes
    /// `[N, ..]` → `[K·N, outputs]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let outputs =
            self.networks.iter().map(|network| network.forward(x, pass)).collect::<fidgp::Result<Vec<_>>>()?;
        Ok(Tensor::f_cat(&outputs, 0)?)
    }

    fn takes_empty_batches(&self) -> bool {
        self.networks.iter().all(fidgp::layer::Network::takes_empty_batches)
    }

    fn members(&self) -> i64 {
        self.networks.len() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    /// Gives back what it is given.
    #[derive(Debug)]
    struct Same;

    fidgp::layers!(Same:);

    impl Network for Same {
        fn forward(&self, x: &Tensor, _: &mut Pass) -> fidgp::Result<Tensor> {
            Ok(x.shallow_clone())
        }
    }

    #[test]
    fn tiles_keep_the_order_in_memory() {
        let planes = Tensor::arange(2 * 3 * 4 * 5, (Kind::Float, Device::Cpu)).view([2, 3, 4, 5]);
        let pixels = planes.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2]);
        let tiled = Tiled { network: Box::new(Same), members: 3 };
        for x in [planes, pixels] {
            let y = tiled.forward(&x, &mut Pass::plain(fidgp::layer::Mode::Eval)).unwrap();
            assert_eq!(y.stride(), x.stride());
            assert_eq!(y, x.repeat([3, 1, 1, 1]));
        }
    }
}
