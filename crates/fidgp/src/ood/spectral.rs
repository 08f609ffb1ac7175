//! The size of the noise E around a layer's mean weight, `W = σ_p E[W|U] + E`: what the paper's lemma compares a residual with.

use tch::{Kind, Tensor};

use crate::conditional;
use crate::prior::PriorFactors;
use crate::spectral::{PowerState, spectral_norm};
use crate::weight::{ConditionalNoise, InducingWeight};
use crate::{Key, Result};

/// Most steps of the power iteration.
const STEPS: usize = 2000;

/// One draw of the noise around a layer's mean weight, and its size.
#[derive(Debug)]
pub struct WeightSpread {
    /// E, one draw. `[d_out, d_in]`, in f64
    pub noise: Tensor,
    /// `‖E‖` of that draw, by power iteration.
    pub measured: f64,
    /// `σ_p λ (√d_in + √d_out)`: the mean of ‖E‖ over draws is at most this. With σ_p = 1/√d_in it is `λ(1 + √(d_out/d_in))`.
    ///
    /// It is Gordon's bound for independent entries; Matheron noise has a smaller covariance, and adding independent noise
    /// cannot make a mean norm smaller.
    pub bound: f64,
}

impl WeightSpread {
    /// # Errors
    /// When Matheron noise meets factors without Gram factors.
    pub fn draw(weight: &InducingWeight, prior: &PriorFactors, key: Key) -> Result<Self> {
        let sizes = weight.sizes();
        let lambda = weight.conditional_scale.value();
        let centre = Tensor::zeros([sizes.rows, sizes.cols], (prior.a_row.kind(), prior.a_row.device()));
        let noise = match weight.noise(key, false).conditional {
            ConditionalNoise::Matheron(noise) => conditional::matheron(prior, &centre, &lambda, &noise)?,
            ConditionalNoise::Weights(noise) => conditional::reparam(prior, &centre, &lambda, &noise),
            ConditionalNoise::Outputs => {
                let shape = [sizes.d_out, sizes.d_in];
                key.fold(&weight.name).normal(&shape, centre.kind(), centre.device()) * &lambda
            }
        };
        let noise = (noise * weight.prior_scale()).to_kind(Kind::Double).detach();
        let state = PowerState::draw(&noise, key.fold(&weight.name).fold("power"));
        state.settle(&noise, 1e-6, STEPS);
        let widths = (sizes.d_in as f64).sqrt() + (sizes.d_out as f64).sqrt();
        Ok(Self {
            measured: spectral_norm(&noise, &state).double_value(&[]),
            bound: weight.prior_scale() * lambda.double_value(&[]) * widths,
            noise,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditional::Conditional;
    use crate::linalg::Check;
    use crate::spectral::exact_norm;
    use crate::weight::InducingConfig;
    use tch::Device;

    /// For both kinds of noise: the power iteration finds the largest singular value, and the mean over draws keeps the bound.
    #[test]
    fn the_measured_norm_is_the_largest_singular_value_and_below_the_bound() {
        for conditional in [Conditional::Matheron, Conditional::Reparam] {
            let store = tch::nn::VarStore::new(Device::Cpu);
            let config = InducingConfig {
                inducing_rows: 4.into(),
                inducing_cols: 5.into(),
                init_lamda: 0.02,
                conditional,
                ..InducingConfig::default()
            };
            let weight = InducingWeight::init(&(store.root() / "layer"), 30, 40, &config, Key::new(1)).unwrap();
            let prior = weight.factors(Check::Now).unwrap();
            let draws: Vec<_> =
                (0..20).map(|k| WeightSpread::draw(&weight, &prior, Key::new(2).at(k)).unwrap()).collect();
            for draw in &draws {
                let exact = exact_norm(&draw.noise).double_value(&[]);
                assert!((draw.measured - exact).abs() < 1e-3 * exact, "{} {exact}", draw.measured);
            }
            let expected = 0.02 * (1.0 + (30.0_f64 / 40.0).sqrt());
            assert!((draws[0].bound - expected).abs() < 1e-6, "{} {expected}", draws[0].bound);
            let mean = draws.iter().map(|draw| draw.measured).sum::<f64>() / 20.0;
            assert!(mean <= expected && mean > 0.6 * expected, "{mean} {expected}");
        }
    }
}
