//! One layer by both orders of evaluation: W built and applied, or factor by factor.

use fidgp::layer::{Conv2d, Linear, Mode, Pass, SlotConfig};
use fidgp::linalg::Check;
use fidgp::weight::MeanWeight;
use fidgp::{Key, conditional};
use fidgp_zoo::{LayerGeometry, Operation};
use tch::nn::VarStore;
use tch::{Kind, Tensor};

use super::{Bench, Measured};
use crate::error::Result;

type Apply<'a> = Box<dyn Fn(&MeanWeight) -> fidgp::Result<Tensor> + 'a>;

impl Bench<'_> {
    /// The Bayesian layer of most multiplications (the last of several): its mean weight made from U and applied to a batch,
    /// without noise.
    pub(super) fn layer(&self) -> Result<Vec<Measured>> {
        let weights = self.model.network.inducing();
        let layers = weights.iter().filter_map(|weight| {
            let geometry = self.model.geometry.iter().find(|layer| layer.name == weight.name)?;
            Some((weight, geometry))
        });
        let heaviest = layers.max_by_key(|(_, geometry)| geometry.macs());
        let Some((weight, geometry)) = heaviest else { return Ok(Vec::new()) };
        let Some(apply) = self.apply(geometry)? else { return Ok(Vec::new()) };
        let prior = tch::no_grad(|| weight.factors(Check::Now))?;
        let sizes = weight.sizes();
        let v = Key::new(4).normal(&[sizes.rows, sizes.cols], Kind::Float, self.options.device);
        let built = || MeanWeight::Matrix(conditional::mean(&prior, &v));
        let factored = || {
            let (left, right) = (conditional::left_factor(&prior, &v), prior.a_col.shallow_clone());
            MeanWeight::Factors { left, right }
        };
        let orders: [(&str, &dyn Fn() -> MeanWeight); 2] = [("W built", &built), ("factored", &factored)];
        let measured = orders.iter().map(|(name, mean)| {
            let work = || Ok(tch::no_grad(|| apply(&mean()).map(|_| ()))?);
            self.replayed(&format!("{}, {name}", weight.name), work)
        });
        measured.collect()
    }

    /// A layer of this geometry on random inputs.
    fn apply(&self, geometry: &LayerGeometry) -> Result<Option<Apply<'_>>> {
        let (store, device) = (VarStore::new(self.options.device), self.options.device);
        let (root, key, n) = (store.root(), Key::new(5), self.options.batch as i64);
        let normal = |shape: &[i64]| key.fold("x").normal(shape, Kind::Float, device);
        let pass = Pass::plain(Mode::Eval).computing_in(self.model.compute);
        Ok(match geometry.operation {
            Operation::Conv(conv) => {
                let layer = Conv2d::init(&root, conv, &SlotConfig::Dense, key)?;
                let [h, w] = [0, 1].map(|side| geometry.output[side] * conv.stride[side]);
                let x = normal(&[n, conv.in_channels, h, w]);
                Some(Box::new(move |mean| layer.apply_mean(&x, mean, &pass)))
            }
            Operation::Linear { inputs, outputs, bias } => {
                let layer = Linear::init(&root, inputs, outputs, bias, &SlotConfig::Dense, key)?;
                let x = normal(&[n, inputs]);
                Some(Box::new(move |mean| layer.apply_mean(&x, mean, &pass)))
            }
            _ => None,
        })
    }
}
