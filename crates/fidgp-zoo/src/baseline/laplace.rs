//! Last-layer Laplace (MacKay 1992; Ritter et al. 2018; Daxberger et al. 2021): the last layer's weights have a Gaussian
//! whose mean is what was trained and whose precision is the curvature of the loss there, in Kronecker factors.

use fidgp::layer::{Apply, CustomWeight, DenseWeight, Moment, Pass, Shown};
use fidgp::linalg::check_finite;
use serde::{Deserialize, Serialize};
use tch::nn::Path;
use tch::{Kind, Tensor};

use super::{expect_shape, matrix};
use crate::{Error, Result};

/// Settings of the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaplaceConfig {
    /// δ, the prior's precision; where the evidence is highest when none is given.
    pub prior_precision: Option<f64>,
}

impl LaplaceConfig {
    /// # Errors
    /// When the precision is not positive.
    pub fn check(&self) -> Result<()> {
        match self.prior_precision {
            Some(precision) if !(precision > 0.0 && precision.is_finite()) => Err(Error::setting(
                "prior_precision",
                precision,
                "must be greater than 0; leave it out to have it chosen",
            )),
            _ => Ok(()),
        }
    }
}

/// The posterior precision `A ⊗ G + δI` in its eigenbasis. A is the mean of `φφᵀ` over the data, with φ a layer's input and a
/// 1 for the bias, and G the curvature of the loss by the outputs, summed over the data. For a single output with constant
/// noise that is the exact Hessian.
#[derive(Debug)]
pub struct KroneckerPosterior {
    /// Eigenvectors of A, as columns. `[n + 1, n + 1]`
    pub input_basis: Tensor,
    /// Eigenvectors of G, as columns. `[K, K]`
    pub output_basis: Tensor,
    /// Eigenvalues of `A ⊗ G`. `[K, n + 1]`
    curvature: Tensor,
}

impl KroneckerPosterior {
    /// # Shapes
    /// inputs `[N, n]`, curvature `[K, K]`
    ///
    /// # Errors
    /// When the shapes do not fit or a number is not finite.
    pub fn fit(inputs: &Tensor, curvature: &Tensor) -> Result<Self> {
        let (rows, width) = matrix("inputs", inputs)?;
        let (outputs, _) = matrix("curvature", curvature)?;
        expect_shape("curvature", curvature, &[outputs, outputs])?;
        let mut second_moment = Tensor::zeros([width + 1, width + 1], (Kind::Double, inputs.device()));
        for part in inputs.split(ROWS_AT_ONCE, 0) {
            let phi = with_one(&part.to_kind(Kind::Double));
            second_moment += phi.mt().matmul(&phi);
        }
        let second_moment = second_moment / rows as f64;
        let curvature = curvature.to_kind(Kind::Double);
        for (what, value) in [("laplace.A", &second_moment), ("laplace.G", &curvature)] {
            check_finite(what, value, "The trained network's outputs are not finite")?;
        }
        let (a, input_basis) = second_moment.f_linalg_eigh("L")?;
        let (g, output_basis) = curvature.f_linalg_eigh("L")?;
        let curvature = g.clamp_min(0.0).unsqueeze(1) * a.clamp_min(0.0).unsqueeze(0);
        Ok(Self { input_basis, output_basis, curvature })
    }

    /// The logarithm of the evidence at the precision δ, less what does not depend on it:
    /// `½(P ln δ − δ‖θ‖² − ln det(A ⊗ G + δI))`.
    pub fn log_evidence(&self, energy: f64, precision: f64) -> f64 {
        let log_det = (&self.curvature / precision + 1.0).log().sum(Kind::Double).double_value(&[]);
        -0.5 * (precision * energy + log_det)
    }

    /// The δ with the highest evidence, for weights with `‖θ‖² = energy`.
    pub fn best_precision(&self, energy: f64) -> f64 {
        crate::minimum::least((1e-8_f64.ln(), 1e8_f64.ln()), |log| -self.log_evidence(energy, log.exp())).exp()
    }

    /// Deviations along the eigenvectors: `(A ⊗ G + δ)^−½`. `[K, n + 1]`
    pub fn deviations(&self, precision: f64) -> Tensor {
        (&self.curvature + precision).rsqrt()
    }
}

/// Rows that are held in f64 at once.
const ROWS_AT_ONCE: i64 = 10_000;

/// `[N, n]` → `[N, n + 1]`
fn with_one(x: &Tensor) -> Tensor {
    Tensor::cat(&[x.shallow_clone(), x.ones_like().narrow(1, 0, 1)], 1)
}

/// A plain linear layer that draws its weight around what was trained, once it has settled.
#[derive(Debug)]
pub struct LaplaceHead {
    dense: DenseWeight,
    config: LaplaceConfig,
    /// `[n + 1, n + 1]`
    input_basis: Tensor,
    /// `[K, K]`
    output_basis: Tensor,
    /// Zero, and with it every draw's difference from the mean, until it is settled. `[K, n + 1]`
    deviations: Tensor,
}

impl LaplaceHead {
    /// # Errors
    /// When the layer is no linear one with a bias, or a setting is out of range.
    pub fn init(path: &Path, dense: DenseWeight, config: LaplaceConfig) -> Result<Self> {
        config.check()?;
        let [outputs, inputs] = super::linear_sizes(&dense, "Laplace")?;
        let buffer =
            |name: &str, shape: [i64; 2]| path.add(name, Tensor::zeros(shape, (path.kind(), path.device())), false);
        Ok(Self {
            dense,
            config,
            input_basis: buffer("input_basis", [inputs + 1, inputs + 1]),
            output_basis: buffer("output_basis", [outputs, outputs]),
            deviations: buffer("deviations", [outputs, inputs + 1]),
        })
    }

    /// Stored numbers that are not trained.
    pub(crate) fn state([outputs, inputs]: [i64; 2]) -> i64 {
        (inputs + 1) * (inputs + 1) + outputs * outputs + outputs * (inputs + 1)
    }

    /// Weight and bias in one, bias last. `[K, n + 1]`
    fn joint(&self) -> Tensor {
        let bias = self.dense.bias.as_ref().map(|bias| bias.unsqueeze(1));
        Tensor::cat(&[Some(self.dense.weight.shallow_clone()), bias].into_iter().flatten().collect::<Vec<_>>(), 1)
    }
}

impl CustomWeight for LaplaceHead {
    fn name(&self) -> &str {
        &self.dense.name
    }

    /// The trained weight; in evaluation with noise, one draw from its posterior for all batches.
    fn forward(&self, x: &Tensor, pass: &mut Pass, apply: &Apply) -> fidgp::Result<Tensor> {
        let DenseWeight { name, weight, bias } = &self.dense;
        let noise = match pass.mode {
            fidgp::layer::Mode::Eval => pass.noise.of_weight(name, &self.deviations),
            fidgp::layer::Mode::Train => None,
        };
        let Some(noise) = noise else { return apply(x, weight, bias.as_ref(), pass) };
        let away = self.output_basis.matmul(&(noise * &self.deviations)).matmul(&self.input_basis.mt());
        let (joint, inputs) = (self.joint() + away, weight.size()[1]);
        apply(x, &joint.narrow(1, 0, inputs), Some(&joint.select(1, inputs)), pass)
    }

    fn settles(&self) -> Option<Moment> {
        Some(Moment::End)
    }

    fn settle(&self, shown: &Shown) -> fidgp::Result<()> {
        tch::no_grad(|| {
            let posterior = KroneckerPosterior::fit(&shown.inputs, &shown.curvature).map_err(Error::into_method)?;
            let energy = self.joint().to_kind(Kind::Double).square().sum(Kind::Double).double_value(&[]);
            let precision = self.config.prior_precision.unwrap_or_else(|| posterior.best_precision(energy));
            self.input_basis.shallow_clone().copy_(&posterior.input_basis);
            self.output_basis.shallow_clone().copy_(&posterior.output_basis);
            self.deviations.shallow_clone().copy_(&posterior.deviations(precision));
            Ok(())
        })
    }

    fn is_random(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidgp::Key;
    use tch::Device;

    fn normal(name: &str, shape: &[i64]) -> Tensor {
        Key::new(8).fold(name).normal(shape, Kind::Double, Device::Cpu)
    }

    /// `½ ln δ^P − …` at the weights that are best for δ is the evidence of the linear model, but for a constant.
    #[test]
    fn the_evidence_of_a_linear_gaussian_model_is_exact() {
        let (x, noise) = (normal("x", &[30, 3]), 0.4_f64);
        let phi = with_one(&x);
        let y = phi.matmul(&normal("w", &[4, 1])) + normal("e", &[30, 1]) * noise;
        let posterior = KroneckerPosterior::fit(&x, &Tensor::from(30.0 / (noise * noise)).view([1, 1])).unwrap();
        let eye = |n: i64| Tensor::eye(n, (Kind::Double, Device::Cpu));
        let sum = |t: Tensor| t.sum(Kind::Double).double_value(&[]);
        let laplace = |precision: f64| {
            let hessian = phi.mt().matmul(&phi) / (noise * noise) + eye(4) * precision;
            let best = hessian.inverse().matmul(&phi.mt().matmul(&y)) / (noise * noise);
            let misfit = sum((&y - phi.matmul(&best)).square()) / (2.0 * noise * noise);
            posterior.log_evidence(sum(best.square()), precision) - misfit
        };
        let exact = |precision: f64| {
            let covariance = phi.matmul(&phi.mt()) / precision + eye(30) * (noise * noise);
            -0.5 * (sum(y.mt().matmul(&covariance.inverse()).matmul(&y)) + sum(covariance.logdet()))
        };
        let constant = exact(1.0) - laplace(1.0);
        for precision in [0.03, 0.5, 7.0] {
            assert!((exact(precision) - laplace(precision) - constant).abs() < 1e-8, "{precision}");
        }
    }

    #[test]
    fn the_chosen_precision_is_the_best_one_and_a_given_one_is_kept() {
        let posterior = KroneckerPosterior::fit(&normal("x", &[50, 5]), &(eye3() * 12.0)).unwrap();
        let best = posterior.best_precision(2.5);
        for other in [0.5, 0.9, 1.1, 2.0] {
            assert!(posterior.log_evidence(2.5, best) > posterior.log_evidence(2.5, best * other), "{other}");
        }
        assert!(LaplaceConfig { prior_precision: Some(0.0) }.check().is_err());
    }

    fn eye3() -> Tensor {
        Tensor::eye(3, (Kind::Double, Device::Cpu))
    }

    #[test]
    fn shapes_and_numbers_are_checked() {
        assert!(KroneckerPosterior::fit(&normal("x", &[5]), &eye3()).is_err());
        assert!(KroneckerPosterior::fit(&normal("x", &[5, 2]), &normal("g", &[2, 3])).is_err());
        assert!(KroneckerPosterior::fit(&(normal("x", &[5, 2]) / 0.0), &eye3()).is_err());
    }
}
