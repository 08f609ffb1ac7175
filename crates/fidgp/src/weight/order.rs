//! In which order a drawn weight meets its inputs.

use serde::Serialize;

use super::InducingConfig;
use crate::conditional::{Conditional, NoiseOn};
use crate::prior::Sizes;

/// The order of evaluation, and what it follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// W is built and applied: its noise is a matrix of its size, which inputs have to meet in any case.
    BuiltForNoise,
    /// W is built and applied: factor by factor there would be more to multiply.
    BuiltForCost,
    /// `(A_rᵀ V)(A_c x)`: the mean weight is never formed, the noise is drawn on the outputs.
    Factored,
}

impl InducingConfig {
    /// How a weight of these sizes is drawn and applied. Noise on the outputs leaves the choice: then what takes fewer
    /// multiplications at each position, `C(d_in + d_out)` factor by factor against `d_in·d_out`.
    pub fn order(&self, Sizes { d_out, d_in, cols, .. }: Sizes) -> Order {
        if self.conditional != Conditional::Reparam || self.noise != NoiseOn::Outputs {
            return Order::BuiltForNoise;
        }
        if cols * (d_in + d_out) < d_in * d_out { Order::Factored } else { Order::BuiltForCost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::linalg::Check;
    use crate::weight::{Drawn, InducingWeight, MeanWeight, WhitenedDraws, draw, factors};
    use tch::Device;
    use tch::nn::VarStore;

    /// What a draw holds is what the order says, for one layer and for all layers at once.
    #[test]
    fn a_draw_comes_in_the_order_that_is_named() {
        let config = |conditional, noise, size: i64| InducingConfig {
            conditional,
            noise,
            inducing_rows: size.into(),
            inducing_cols: size.into(),
            ..InducingConfig::default()
        };
        for (config, expected) in [
            (config(Conditional::Matheron, NoiseOn::Weights, 2), Order::BuiltForNoise),
            (config(Conditional::Reparam, NoiseOn::Weights, 2), Order::BuiltForNoise),
            (config(Conditional::Reparam, NoiseOn::Outputs, 2), Order::Factored), // 2·(9 + 8) < 9·8
            (config(Conditional::Reparam, NoiseOn::Outputs, 5), Order::BuiltForCost), // 5·(9 + 8) > 9·8
        ] {
            let store = VarStore::new(Device::Cpu);
            let weight = InducingWeight::init(&store.root(), 8, 9, &config, Key::new(1)).unwrap();
            assert_eq!(config.order(weight.sizes()), expected);
            let noise = weight.noise(Key::new(2), false);
            let (alone, _) = weight.draw(&weight.factors(Check::Now).unwrap(), &noise).unwrap();
            let (weights, noise) = ([&weight], [noise]);
            let ahead = WhitenedDraws::draw(&weights, &noise, false).unwrap();
            let together = draw(&weights, &factors(&weights, Check::Now).unwrap(), &noise, ahead).unwrap();
            for drawn in [&alone, &together[0].0] {
                let found = match drawn {
                    Drawn::Weight(_) => Order::BuiltForNoise,
                    Drawn::MeanAndScale { mean: MeanWeight::Matrix(_), .. } => Order::BuiltForCost,
                    Drawn::MeanAndScale { mean: MeanWeight::Factors { .. }, .. } => Order::Factored,
                };
                assert_eq!(found, expected);
            }
        }
    }
}
