//! Liu et al.: Simple and Principled Uncertainty Estimation with Deterministic Deep Learning via Distance Awareness
//! (2020). The last layer as a Gaussian process in random Fourier features, with a Laplace posterior.

use fidgp::Key;
use fidgp::layer::{Apply, CustomWeight, FitData, FitPhase, LayerGeometry, MakeWeight, Mode, Pass, PlannedWeight};
use fidgp::linalg::{self, Check, Jitter, Named};
use serde::{Deserialize, Serialize};
use tch::nn::{Init, Path};
use tch::{Kind, Tensor};

use super::method::{linear_shape, widths};
use super::{About, Extra, Method, Section, Settings};
use crate::baseline::{expect_shape, matrix};
use crate::plan::HEAD;
use crate::{Error, LayerPlan, Result};

/// Bound of the layers below the head.
const SPECTRAL_NORM: f64 = 6.0;

/// The method.
#[derive(Debug)]
pub struct Sngp;

impl Method for Sngp {
    fn about(&self) -> About {
        About {
            section: Some(Section::of::<SngpConfig>("sngp")),
            usual: |_| vec![("network", "spectral_norm", SPECTRAL_NORM.into())],
            spectral_norm: Extra::Own,
            predicts_numbers: false,
            predicts_pixels: false,
            ..About::new("sngp", "A network of bounded layers with a Gaussian process in random features on top (SNGP)")
        }
    }
}

/// `Φ = √(2/D) cos(hW + b)`.
///
/// # Shapes
/// features `[N, n]`, weight `[n, D]`, bias `[D]` → `[N, D]`
///
/// # Errors
/// When the shapes do not fit.
pub fn random_features(features: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    let (inputs, width) = matrix("weight", weight)?;
    let (rows, _) = matrix("features", features)?;
    expect_shape("features", features, &[rows, inputs])?;
    expect_shape("bias", bias, &[width])?;
    Ok((features.matmul(weight) + bias).cos() * (2.0 / width as f64).sqrt())
}

/// Posterior precision of the output weights under a unit-variance likelihood: `ridge·I + ΦᵀΦ`. `[N, D]` → `[D, D]`
///
/// # Errors
/// When Φ is not a matrix.
pub fn precision(random_features: &Tensor, ridge: f64) -> Result<Tensor> {
    let (_, width) = matrix("random features", random_features)?;
    let eye = Tensor::eye(width, (random_features.kind(), random_features.device()));
    Ok(random_features.mt().matmul(random_features) + eye * ridge)
}

/// Predictive variance of a logit, `φᵀ Λ⁻¹ φ`.
///
/// # Shapes
/// random features `[N, D]`, precision `[D, D]` → `[N]`
///
/// # Errors
/// When the shapes do not fit or the precision is not positive definite.
pub fn variance(random_features: &Tensor, precision: &Tensor) -> Result<Tensor> {
    let (_, width) = matrix("random features", random_features)?;
    expect_shape("precision", precision, &[width, width])?;
    let named = Named::one("sngp.precision", precision);
    let lower = linalg::cholesky(&[named], Jitter::NONE, Check::Now)?.remove(0);
    let whitened = linalg::solve_lower(&lower, &random_features.mt()); // [D, N]
    Ok(whitened.square().sum_dim_intlist(0, false, whitened.kind()))
}

/// Logits tempered by their variance: `logits/√(1 + λ·var)`.
///
/// # Shapes
/// logits `[N, classes]`, variance `[N]` → `[N, classes]`
///
/// # Errors
/// When the shapes do not fit.
pub fn mean_field_logits(logits: &Tensor, variance: &Tensor, factor: f64) -> Result<Tensor> {
    let (rows, _) = matrix("logits", logits)?;
    expect_shape("variance", variance, &[rows])?;
    Ok(logits / (variance * factor + 1.0).sqrt().unsqueeze(-1))
}

/// Deviation of β, and so of the logits, at the start: about that of a plain layer's.
const START_SD: f64 = 0.5;
/// Rows whose random features are held at once.
const ROWS_AT_ONCE: i64 = 10_000;

/// Settings of the head.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SngpConfig {
    /// D, the random features.
    pub features: i64,
    /// What the precision has on its diagonal before any data.
    pub ridge: f64,
    /// λ of the mean-field logits.
    pub mean_field_factor: f64,
    /// Lengthscale of the kernel, in units of √n, the size of distances between n standard features.
    pub lengthscale: f64,
}

impl Default for SngpConfig {
    fn default() -> Self {
        Self { features: 1024, ridge: 1.0, mean_field_factor: 20.0, lengthscale: 1.0 }
    }
}

impl Settings for SngpConfig {
    fn check(&self) -> Result<()> {
        if self.features < 1 {
            return Err(Error::setting("features", self.features, "must be at least 1; 1024 is usual"));
        }
        if !(self.ridge > 0.0 && self.ridge.is_finite()) {
            return Err(Error::setting("ridge", self.ridge, "must be greater than 0; 1 is usual"));
        }
        if !(self.lengthscale > 0.0 && self.lengthscale.is_finite()) {
            return Err(Error::setting("lengthscale", self.lengthscale, "must be greater than 0; 1 is usual"));
        }
        if self.mean_field_factor >= 0.0 && self.mean_field_factor.is_finite() {
            return Ok(());
        }
        Err(Error::setting("mean_field_factor", self.mean_field_factor, "must be 0 or greater; 20 is usual"))
    }

    fn plan(&self, plan: LayerPlan) -> LayerPlan {
        plan.custom(HEAD, *self)
    }
}

impl MakeWeight for SngpConfig {
    fn make(&self, planned: &PlannedWeight, path: &Path, key: Key) -> fidgp::Result<Box<dyn CustomWeight>> {
        let head = SngpHead::init(path, linear_shape(planned)?, &planned.name, self, key);
        Ok(Box::new(head.map_err(Error::into_method)?))
    }

    fn parameters(&self, layer: &LayerGeometry) -> i64 {
        widths(layer)[0] * (self.features + 1)
    }

    fn state(&self, layer: &LayerGeometry) -> i64 {
        (widths(layer)[1] + 1) * self.features + self.features * self.features
    }

    fn macs(&self, layer: &LayerGeometry) -> i64 {
        self.features * (widths(layer).iter().sum::<i64>() + self.features)
    }
}

/// The last layer of a network as a Gaussian process: random features that stay as they are, output weights that are
/// trained, and a precision that is summed over the training data afterwards.
#[derive(Debug)]
pub struct SngpHead {
    name: String,
    config: SngpConfig,
    /// `[n, D]`
    random_weight: Tensor,
    /// `[D]`
    random_bias: Tensor,
    /// `β/√n`. `[classes, D]`
    weight: Tensor,
    /// √n. Φ has length 1, the n inputs of a plain layer about √n: weights in this unit learn as fast as those of a plain layer
    /// under the same learning rate, n times faster than β itself, and so does what is below them. For 512 inputs and D = 1024
    /// that is the reference implementation, which leaves √(2/D) out where the process is a last layer.
    unit: f64,
    /// `[classes]`
    bias: Tensor,
    /// `chol(ridge·I + ΣΦᵀΦ)⁻¹`; zero, and with it every variance, until it is settled. `[D, D]`
    inverse_root: Tensor,
}

impl SngpHead {
    /// A head under `path` for n features. Random weights are `N(0, 1/(ℓ²n))`: an RBF kernel of lengthscale `ℓ√n`.
    ///
    /// # Errors
    /// When a setting is out of range.
    pub fn init(path: &Path, [classes, inputs]: [i64; 2], name: &str, config: &SngpConfig, key: Key) -> Result<Self> {
        config.check()?;
        let key = key.fold(name);
        let options = (path.kind(), path.device());
        let width = config.features;
        let normal = |part: &str, shape: &[i64]| key.fold(part).normal(shape, options.0, options.1);
        let angle = key.fold("random_bias").uniform(&[width], options.0, options.1) * (2.0 * std::f64::consts::PI);
        let mut weight = path.var("output_weight", &[classes, width], Init::Const(0.0));
        let unit = (inputs as f64).sqrt();
        tch::no_grad(|| weight.copy_(&(normal("output_weight", &[classes, width]) * (START_SD / unit))));
        Ok(Self {
            name: name.to_owned(),
            config: *config,
            random_weight: path.add(
                "random_weight",
                normal("random_weight", &[inputs, width]) / (unit * config.lengthscale),
                false,
            ),
            random_bias: path.add("random_bias", angle, false),
            weight,
            unit,
            bias: path.zeros("output_bias", &[classes]),
            inverse_root: path.add("inverse_root", Tensor::zeros([width, width], options), false),
        })
    }
}

impl CustomWeight for SngpHead {
    fn name(&self) -> &str {
        &self.name
    }

    /// Logits `Φβ + b`; in evaluation tempered by their variance, `/√(1 + λ·φᵀΛ⁻¹φ)`.
    fn forward(&self, x: &Tensor, pass: &mut Pass, _: &Apply) -> fidgp::Result<Tensor> {
        let features = x.to_kind(self.weight.kind());
        let phi = random_features(&features, &self.random_weight, &self.random_bias).map_err(Error::into_method)?;
        let logits = (&phi * self.unit).f_linear(&self.weight, Some(&self.bias))?;
        if pass.mode == Mode::Train {
            return Ok(logits);
        }
        let variance = phi.matmul(&self.inverse_root.mt()).square().sum_dim_intlist(-1, false, phi.kind());
        mean_field_logits(&logits, &variance, self.config.mean_field_factor).map_err(Error::into_method)
    }

    fn fit_phase(&self) -> Option<FitPhase> {
        Some(FitPhase::End)
    }

    fn fit_posthoc(&self, shown: &FitData) -> fidgp::Result<()> {
        tch::no_grad(|| {
            let eye = Tensor::eye(self.config.features, (Kind::Double, self.inverse_root.device()));
            let mut precision = &eye * self.config.ridge;
            for part in shown.inputs.split(ROWS_AT_ONCE, 0) {
                let phi = random_features(&part, &self.random_weight, &self.random_bias).map_err(Error::into_method)?;
                precision += phi.mt().matmul(&phi).to_kind(Kind::Double);
            }
            let named = Named::one(format!("{}.precision", self.name), &precision);
            let lower = linalg::cholesky(&[named], Jitter::NONE, Check::Now)?.remove(0);
            self.inverse_root.shallow_clone().copy_(&linalg::solve_lower(&lower, &eye));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    fn normal(name: &str, shape: &[i64]) -> Tensor {
        Key::new(3).fold(name).normal(shape, Kind::Double, Device::Cpu)
    }

    #[test]
    fn variance_falls_where_there_is_data_and_never_exceeds_the_prior() {
        let (weight, bias) = (normal("w", &[2, 64]), normal("b", &[64]) * 3.0);
        let phi = |x: &Tensor| random_features(x, &weight, &bias).unwrap();
        let (near, far) = (normal("x", &[50, 2]) * 0.1, normal("y", &[1, 2]) * 0.0 + 8.0);
        let precision = precision(&phi(&near), 1.0).unwrap();
        let at = |x: &Tensor| variance(&phi(x), &precision).unwrap().max().double_value(&[]);
        assert!(at(&near) < 0.2 * at(&far), "{} {}", at(&near), at(&far));
        assert!(at(&far) <= phi(&far).square().sum(Kind::Double).double_value(&[]) + 1e-12);
    }

    #[test]
    fn the_variance_is_the_quadratic_form() {
        let phi = normal("phi", &[7, 4]);
        let precision = precision(&phi, 0.5).unwrap();
        let dense = phi.matmul(&precision.inverse()).matmul(&phi.mt()).diagonal(0, 0, 1).copy();
        assert!((variance(&phi, &precision).unwrap() - dense).abs().max().double_value(&[]) < 1e-12);
    }

    #[test]
    fn shapes_are_checked() {
        assert!(random_features(&normal("x", &[5, 3]), &normal("w", &[2, 6]), &normal("b", &[6])).is_err());
        assert!(variance(&normal("x", &[5, 3]), &normal("p", &[2, 2])).is_err());
        assert!(mean_field_logits(&normal("x", &[5, 3]), &normal("v", &[2]), 1.0).is_err());
    }
}
