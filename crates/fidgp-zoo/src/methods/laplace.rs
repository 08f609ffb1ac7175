//! Last-layer Laplace (MacKay 1992; Ritter et al. 2018; Daxberger et al. 2021): the last layer's weights have a Gaussian
//! whose mean is what was trained and whose precision is the curvature of the loss there, whole or in Kronecker factors.

use fidgp::Key;
use fidgp::layer::{
    Apply, Curvature, CustomWeight, DenseWeight, FitData, FitPhase, LayerGeometry, MakeWeight, Pass, PlannedWeight,
    Role,
};
use fidgp::linalg::check_finite;
use serde::{Deserialize, Serialize};
use tch::nn::Path;
use tch::{Kind, Tensor};

use super::method::widths;
use super::{About, Extra, Method, Passes, Section, Settings};
use crate::baseline::{expect_shape, linear_sizes, matrix};
use crate::plan::HEAD;
use crate::{Error, LayerPlan, Result};

/// The method.
#[derive(Debug)]
pub struct Laplace;

impl Method for Laplace {
    fn about(&self) -> About {
        About {
            section: Some(Section::of::<LaplaceConfig>("laplace")),
            passes: Passes::Draws,
            spectral_norm: Extra::Allowed,
            predicts_pixels: false,
            ..About::new("laplace", "A network with a Laplace posterior of its last layer")
        }
    }
}

/// What is kept of the curvature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Structure {
    /// A factor of the inputs and one of the outputs.
    #[default]
    Kronecker,
    /// All of it: the Gauss-Newton matrix of the last layer, for small ones.
    Full,
}

/// Most weights of a last layer whose whole curvature is kept: its square is stored, and its cube is the work.
const MOST_WEIGHTS: i64 = 4096;

/// Settings of the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaplaceConfig {
    /// Whole, or in Kronecker factors.
    pub structure: Structure,
    /// δ, the prior's precision; where the evidence is highest when none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior_precision: Option<f64>,
}

impl Settings for LaplaceConfig {
    fn check(&self) -> Result<()> {
        match self.prior_precision {
            Some(precision) if !(precision > 0.0 && precision.is_finite()) => Err(Error::setting(
                "prior_precision",
                precision,
                "must be greater than 0; leave it out to have it chosen",
            )),
            _ => Ok(()),
        }
    }

    fn plan(&self, plan: LayerPlan) -> LayerPlan {
        plan.custom(HEAD, *self)
    }
}

impl MakeWeight for LaplaceConfig {
    fn make(&self, planned: &PlannedWeight, path: &Path, key: Key) -> fidgp::Result<Box<dyn CustomWeight>> {
        let head = LaplaceHead::init(path, planned.dense(&Role::Decayed.of(path), planned.bias, key), *self);
        Ok(Box::new(head.map_err(Error::into_method)?))
    }

    fn is_random(&self) -> bool {
        true
    }

    fn state(&self, layer: &LayerGeometry) -> i64 {
        let [outputs, inputs] = widths(layer);
        let bases = LaplaceHead::bases(self.structure, [outputs, inputs]);
        bases.iter().map(|(_, size)| size * size).sum::<i64>() + outputs * (inputs + 1)
    }

    /// Noise is turned by the bases: `K²(n + 1) + K(n + 1)²`, or `K²(n + 1)²`.
    fn draw_macs(&self, layer: &LayerGeometry) -> i64 {
        let [outputs, inputs] = widths(layer);
        let weights = outputs * (inputs + 1);
        match self.structure {
            Structure::Kronecker => weights * (outputs + inputs + 1),
            Structure::Full => weights * weights,
        }
    }
}

/// Eigenvalues of the curvature. `[K, n + 1]`
#[derive(Debug)]
pub struct Eigenvalues(Tensor);

impl Eigenvalues {
    /// The logarithm of the evidence at the precision δ, less what does not depend on it:
    /// `½(P ln δ − δ‖θ‖² − ln det(H + δI))`.
    pub fn log_evidence(&self, energy: f64, precision: f64) -> f64 {
        let log_det = (&self.0 / precision + 1.0).log().sum(Kind::Double).double_value(&[]);
        -0.5 * (precision * energy + log_det)
    }

    /// The δ with the highest evidence, for weights with `‖θ‖² = energy`.
    pub fn best_precision(&self, energy: f64) -> f64 {
        crate::minimum::least((1e-8_f64.ln(), 1e8_f64.ln()), |log| -self.log_evidence(energy, log.exp())).exp()
    }

    /// Deviations along the eigenvectors: `(H + δ)^−½`. `[K, n + 1]`
    pub fn deviations(&self, precision: f64) -> Tensor {
        (&self.0 + precision).rsqrt()
    }
}

/// The curvature `H = A ⊗ G` in its eigenbasis. A is the mean of `φφᵀ` over the data, with φ a layer's input and a 1 for the
/// bias, and G the curvature of the loss by the outputs, summed over the data. For a single output with constant noise that
/// is the exact Hessian.
#[derive(Debug)]
pub struct KroneckerPosterior {
    /// Eigenvectors of A, as columns. `[n + 1, n + 1]`
    pub input_basis: Tensor,
    /// Eigenvectors of G, as columns. `[K, K]`
    pub output_basis: Tensor,
    /// Those of `A ⊗ G`.
    pub eigenvalues: Eigenvalues,
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
        let (a, input_basis) = eigen("laplace.A", &(second_moment / rows as f64))?;
        let (g, output_basis) = eigen("laplace.G", &curvature.to_kind(Kind::Double))?;
        let eigenvalues = Eigenvalues(g.unsqueeze(1) * a.unsqueeze(0));
        Ok(Self { input_basis, output_basis, eigenvalues })
    }
}

/// The whole curvature `H = Σ_n Λ_n ⊗ φ_nφ_nᵀ` in its eigenbasis, Λ_n the curvature of the loss by the outputs of an example:
/// the Gauss-Newton matrix, exact for a last layer.
#[derive(Debug)]
pub struct FullPosterior {
    /// Eigenvectors, as columns; a weight's row is `k(n + 1) + j` for output k and input j. `[K(n + 1), K(n + 1)]`
    pub basis: Tensor,
    /// Those of H.
    pub eigenvalues: Eigenvalues,
}

impl FullPosterior {
    /// # Shapes
    /// inputs `[N, n]`, curvatures `[N, K]`
    ///
    /// # Errors
    /// When the shapes do not fit or a number is not finite.
    pub fn fit(inputs: &Tensor, curvatures: &Curvature) -> Result<Self> {
        let (rows, width) = matrix("inputs", inputs)?;
        let (_, outputs) = matrix("curvatures", &curvatures.diagonal)?;
        expect_shape("curvatures", &curvatures.diagonal, &[rows, outputs])?;
        let size = outputs * (width + 1);
        let mut hessian = Tensor::zeros([size, size], (Kind::Double, inputs.device()));
        let parts = |tensor: &Tensor| tensor.to_kind(Kind::Double).split(ROWS_AT_ONCE / 10, 0);
        let outer = curvatures.outer.as_ref().map(parts);
        for (part, (x, d)) in parts(inputs).iter().zip(parts(&curvatures.diagonal)).enumerate() {
            let phi = with_one(x); // [N, n + 1]
            for k in 0..outputs {
                let block = phi.mt().matmul(&(&phi * d.narrow(1, k, 1)));
                let at = k * (width + 1);
                let _ = hessian.narrow(0, at, width + 1).narrow(1, at, width + 1).g_add_(&block);
            }
            if let Some(u) = outer.as_ref().map(|outer| &outer[part]) {
                let rows = (u.unsqueeze(2) * phi.unsqueeze(1)).reshape([-1, size]); // uₙ ⊗ φₙ
                hessian -= rows.mt().matmul(&rows);
            }
        }
        let (eigenvalues, basis) = eigen("laplace.H", &hessian)?;
        Ok(Self { basis, eigenvalues: Eigenvalues(eigenvalues.view([outputs, width + 1])) })
    }
}

/// Eigenvalues, none below zero, and eigenvectors of a symmetric matrix.
fn eigen(what: &str, matrix: &Tensor) -> Result<(Tensor, Tensor)> {
    check_finite(what, matrix, "The trained network's outputs are not finite")?;
    let (values, vectors) = matrix.f_linalg_eigh("L")?;
    Ok((values.clamp_min(0.0), vectors))
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
    /// Of the inputs `[n + 1, n + 1]` and the outputs `[K, K]`, or of all weights `[K(n + 1), K(n + 1)]`.
    bases: Vec<Tensor>,
    /// Zero, and with it every draw's difference from the mean, until it is settled. `[K, n + 1]`
    deviations: Tensor,
}

impl LaplaceHead {
    /// # Errors
    /// When the layer is no linear one with a bias, a setting is out of range, or the layer is too large for its whole
    /// curvature.
    pub fn init(path: &Path, dense: DenseWeight, config: LaplaceConfig) -> Result<Self> {
        config.check()?;
        let [outputs, inputs] = linear_sizes(&dense, "Laplace")?;
        let weights = outputs * (inputs + 1);
        if config.structure == Structure::Full && weights > MOST_WEIGHTS {
            let why = format!(
                "is for last layers of at most {MOST_WEIGHTS} weights, this one has {weights}; take \"kronecker\""
            );
            return Err(Error::setting("structure", "full", why));
        }
        let buffer =
            |name: &str, shape: [i64; 2]| path.add(name, Tensor::zeros(shape, (path.kind(), path.device())), false);
        let bases = Self::bases(config.structure, [outputs, inputs]);
        let bases = bases.iter().map(|&(name, size)| buffer(name, [size, size])).collect();
        Ok(Self { dense, config, bases, deviations: buffer("deviations", [outputs, inputs + 1]) })
    }

    /// Names and sizes of the stored bases.
    fn bases(structure: Structure, [outputs, inputs]: [i64; 2]) -> Vec<(&'static str, i64)> {
        match structure {
            Structure::Kronecker => vec![("input_basis", inputs + 1), ("output_basis", outputs)],
            Structure::Full => vec![("basis", outputs * (inputs + 1))],
        }
    }

    /// Noise along the eigenvectors, turned into that of the weights. `[K, n + 1]`
    fn turned(&self, noise: &Tensor) -> Tensor {
        match self.bases.as_slice() {
            [input, output] => output.matmul(noise).matmul(&input.mt()),
            bases => bases.iter().fold(noise.reshape([-1]), |noise, basis| basis.matmul(&noise)).view_as(noise),
        }
    }

    /// The bases and eigenvalues of what was shown.
    fn fit(&self, shown: &FitData) -> Result<(Vec<Tensor>, Eigenvalues)> {
        match self.config.structure {
            Structure::Kronecker => {
                let KroneckerPosterior { input_basis, output_basis, eigenvalues } =
                    KroneckerPosterior::fit(&shown.inputs, &shown.curvature)?;
                Ok((vec![input_basis, output_basis], eigenvalues))
            }
            Structure::Full => {
                let missing = || Error::setting("structure", "full", "was shown no curvature of each example");
                let curvatures = shown.curvatures.as_ref().ok_or_else(missing)?;
                let FullPosterior { basis, eigenvalues } = FullPosterior::fit(&shown.inputs, curvatures)?;
                Ok((vec![basis], eigenvalues))
            }
        }
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
        let away = self.turned(&(noise * &self.deviations));
        let (joint, inputs) = (self.joint() + away, weight.size()[1]);
        apply(x, &joint.narrow(1, 0, inputs), Some(&joint.select(1, inputs)), pass)
    }

    fn fit_phase(&self) -> Option<FitPhase> {
        Some(FitPhase::End)
    }

    fn looks_at_each(&self) -> bool {
        self.config.structure == Structure::Full
    }

    fn fit_posthoc(&self, shown: &FitData) -> fidgp::Result<()> {
        tch::no_grad(|| {
            let (bases, eigenvalues) = self.fit(shown).map_err(Error::into_method)?;
            let energy = self.joint().to_kind(Kind::Double).square().sum(Kind::Double).double_value(&[]);
            let precision = self.config.prior_precision.unwrap_or_else(|| eigenvalues.best_precision(energy));
            let chosen =
                if self.config.prior_precision.is_some() { "as given" } else { "where the evidence is highest" };
            tracing::info!(target: "start", "{}: prior precision of the Laplace approximation {precision:.4e}, {chosen}", self.name());
            self.bases.iter().zip(&bases).for_each(|(kept, basis)| kept.shallow_clone().copy_(basis));
            self.deviations.shallow_clone().copy_(&eigenvalues.deviations(precision));
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
        let posterior =
            KroneckerPosterior::fit(&x, &Tensor::from(30.0 / (noise * noise)).view([1, 1])).unwrap().eigenvalues;
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
        let posterior = KroneckerPosterior::fit(&normal("x", &[50, 5]), &(eye3() * 12.0)).unwrap().eigenvalues;
        let best = posterior.best_precision(2.5);
        for other in [0.5, 0.9, 1.1, 2.0] {
            assert!(posterior.log_evidence(2.5, best) > posterior.log_evidence(2.5, best * other), "{other}");
        }
        assert!(LaplaceConfig { prior_precision: Some(0.0), ..LaplaceConfig::default() }.check().is_err());
    }

    fn eye3() -> Tensor {
        Tensor::eye(3, (Kind::Double, Device::Cpu))
    }

    /// Against second derivatives by automatic differentiation, for a softmax on seven examples.
    #[test]
    fn the_whole_curvature_is_the_hessian_of_the_loss() {
        let (x, theta) = (normal("x", &[7, 2]), normal("theta", &[3, 3]).set_requires_grad(true));
        let logits = with_one(&x).matmul(&theta.mt());
        let labels = Tensor::from_slice(&[0_i64, 1, 2, 2, 1, 0, 0]);
        let loss = logits.cross_entropy_loss(&labels, None::<&Tensor>, tch::Reduction::Sum, -100, 0.0);
        let first = Tensor::run_backward(&[&loss], &[&theta], true, true).remove(0).view([-1]);
        let row = |i: i64| Tensor::run_backward(&[&first.get(i)], &[&theta], true, false).remove(0).view([-1]);
        let exact = Tensor::stack(&(0..9).map(row).collect::<Vec<_>>(), 0);
        let curvatures = fidgp::objective::categorical_curvature(&logits.detach());
        let FullPosterior { basis, eigenvalues } = FullPosterior::fit(&x, &curvatures).unwrap();
        let found = basis.matmul(&eigenvalues.0.view([-1]).diag(0)).matmul(&basis.mt());
        assert!((&found - &exact).abs().max().double_value(&[]) < 1e-10, "{found} {exact}");
    }

    #[test]
    fn shapes_and_numbers_are_checked() {
        assert!(KroneckerPosterior::fit(&normal("x", &[5]), &eye3()).is_err());
        assert!(KroneckerPosterior::fit(&normal("x", &[5, 2]), &normal("g", &[2, 3])).is_err());
        assert!(KroneckerPosterior::fit(&(normal("x", &[5, 2]) / 0.0), &eye3()).is_err());
    }
}
