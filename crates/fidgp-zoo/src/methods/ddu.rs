//! Mukhoti et al.: Deep Deterministic Uncertainty (2023). One Gaussian for each class on the penultimate features; the
//! density of a feature is its score.

use fidgp::Key;
use fidgp::layer::{
    Apply, CustomWeight, DenseWeight, FitData, FitPhase, LayerGeometry, MakeWeight, Pass, PlannedWeight, Role,
};
use fidgp::linalg;
use tch::nn::Path;
use tch::{Device, Kind, Tensor};

use super::method::widths;
use super::{About, Extra, Method, Settings};
use crate::baseline::{expect_shape, linear_sizes, matrix};
use crate::plan::HEAD;
use crate::{Error, LayerPlan, Result};

/// Bound of the layers below the head.
const SPECTRAL_NORM: f64 = 3.0;

/// The method. It has no settings.
#[derive(Debug)]
pub struct Ddu;

impl Method for Ddu {
    fn about(&self) -> About {
        About {
            usual: |_| vec![("network", "spectral_norm", SPECTRAL_NORM.into())],
            spectral_norm: Extra::Own,
            predicts_numbers: false,
            predicts_pixels: false,
            needs_pairs: Some("fits a covariance to each class"),
            ..About::new("ddu", "A network of bounded layers with a Gaussian of the features of each class (DDU)")
        }
    }

    fn plan(&self, plan: LayerPlan, _: Option<&dyn Settings>) -> LayerPlan {
        plan.custom(HEAD, Density)
    }
}

/// A head that knows the density of its inputs.
#[derive(Clone, Copy, Debug)]
pub struct Density;

impl MakeWeight for Density {
    fn make(&self, planned: &PlannedWeight, path: &Path, key: Key) -> fidgp::Result<Box<dyn CustomWeight>> {
        let head = DduHead::init(path, planned.dense(&Role::Decayed.of(path), planned.bias, key));
        Ok(Box::new(head.map_err(Error::into_method)?))
    }

    fn state(&self, layer: &LayerGeometry) -> i64 {
        let [classes, width] = widths(layer);
        classes * width * (width + 1)
    }

    /// Those of the plain layer, and of a density for each class.
    fn macs(&self, layer: &LayerGeometry) -> i64 {
        layer.macs() + self.state(layer)
    }
}

/// Powers of ten, times rounding, that are tried as jitter.
const ESCALATIONS: i32 = 16;

/// Rows whose density is computed at once: memory is rows × classes × features.
const ROWS_AT_ONCE: i64 = 200;

const LN_2PI: f64 = 1.837_877_066_409_345_6;

/// Class-conditional Gaussians `N(μ_k, Σ_k)`.
#[derive(Debug)]
pub struct ClassGaussians {
    /// μ. `[K, n]`
    means: Tensor,
    /// chol(Σ). `[K, n, n]`
    lower: Tensor,
}

impl ClassGaussians {
    /// Means and covariances (divided by n − 1) of the features of each class, in the order of their numbers. Classes without
    /// rows are no part of it.
    ///
    /// # Shapes
    /// features `[N, n]`; one label for each row, classes counted from 0
    ///
    /// # Errors
    /// When there is not one label for each row, a class has a single row, or a covariance is not finite or resists every
    /// jitter.
    pub fn fit(features: &Tensor, labels: &[i64]) -> Result<Self> {
        let (rows, _) = matrix("features", features)?;
        expect_shape("labels", &Tensor::from_slice(labels), &[rows])?;
        if let Some(label) = labels.iter().find(|label| **label < 0) {
            return Err(Error::Method(fidgp::Error::setting("label", label, "classes are counted from 0")));
        }
        let classes = present(labels);
        let members = classes.iter().map(|&k| class_rows(features, labels, k)).collect::<Result<Vec<_>>>()?;
        let means: Vec<Tensor> = members.iter().map(|rows| rows.mean_dim(0, false, rows.kind())).collect();
        let covariances = members.iter().zip(&means).map(|(rows, mean)| {
            let centred = rows - mean;
            centred.mt().matmul(&centred) / (rows.size()[0] - 1) as f64
        });
        let lower = roots(&Tensor::stack(&covariances.collect::<Vec<_>>(), 0), &classes)?;
        Ok(Self { means: Tensor::stack(&means, 0), lower })
    }

    /// `ln N(x; μ_k, Σ_k)`.
    ///
    /// # Shapes
    /// `[N, n]` → `[N, K]`
    ///
    /// # Errors
    /// When x does not have n columns.
    pub fn log_density(&self, x: &Tensor) -> Result<Tensor> {
        let (rows, _) = matrix("x", x)?;
        let width = self.means.size()[1];
        expect_shape("x", x, &[rows, width])?;
        let centred = x.unsqueeze(0) - self.means.unsqueeze(1); // [K, N, n]
        let distance = linalg::solve_lower(&self.lower, &centred.mt()).square(); // [K, n, N]
        let distance = distance.sum_dim_intlist(1, false, distance.kind()); // [K, N]
        let log_det = linalg::log_det_lower(&self.lower).unsqueeze(-1); // [K, 1]
        Ok((distance * -0.5 - log_det - 0.5 * LN_2PI * width as f64).mt())
    }

    /// `ln Σ_k N(x; μ_k, Σ_k)`, classes not weighted: high means in distribution. `[N, n]` → `[N]`
    ///
    /// # Errors
    /// When x does not have n columns.
    pub fn score(&self, x: &Tensor) -> Result<Tensor> {
        matrix("x", x)?;
        let parts = x.split(ROWS_AT_ONCE, 0);
        let parts = parts.iter().map(|part| Ok(self.log_density(part)?.logsumexp(-1, false)));
        Ok(Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0))
    }
}

/// The tap that gives `ln Σ_k N(h; μ_k, Σ_k)` of the features h.
pub const LOG_DENSITY: &str = "log_density";

/// A plain linear layer that, once it has settled, also knows the density of its inputs. Classes that the training data do
/// not have are no part of it.
#[derive(Debug)]
pub struct DduHead {
    dense: DenseWeight,
    /// `[K, n]`
    class_means: Tensor,
    /// chol(Σ_k); zero until it is settled, and for classes without data. `[K, n, n]`
    class_roots: Tensor,
}

impl DduHead {
    /// # Errors
    /// When the layer is no linear one with a bias.
    pub fn init(path: &Path, dense: DenseWeight) -> Result<Self> {
        let [classes, width] = linear_sizes(&dense, "DDU")?;
        let buffer =
            |name: &str, shape: &[i64]| path.add(name, Tensor::zeros(shape, (path.kind(), path.device())), false);
        let class_means = buffer("class_means", &[classes, width]);
        let class_roots = buffer("class_roots", &[classes, width, width]);
        Ok(Self { dense, class_means, class_roots })
    }

    /// The Gaussians of the classes that the training data had; none until it is settled.
    fn fitted(&self) -> Option<ClassGaussians> {
        let seen = self.class_roots.diagonal(0, 1, 2).abs().amax([-1_i64].as_slice(), false).gt(0.0);
        let seen = seen.nonzero().squeeze_dim(-1);
        let of_seen = |t: &Tensor| t.index_select(0, &seen).to_kind(Kind::Double);
        let fitted = || ClassGaussians { means: of_seen(&self.class_means), lower: of_seen(&self.class_roots) };
        (seen.numel() > 0).then(fitted)
    }
}

impl CustomWeight for DduHead {
    fn name(&self) -> &str {
        &self.dense.name
    }

    /// The plain layer; the density goes to the tap [`LOG_DENSITY`], where it is asked for and known. No gradient flows
    /// through it.
    fn forward(&self, x: &Tensor, pass: &mut Pass, apply: &Apply) -> fidgp::Result<Tensor> {
        if pass.taps.wants(LOG_DENSITY) {
            let density = tch::no_grad(|| self.fitted().map(|fitted| fitted.score(&x.to_kind(Kind::Double))));
            if let Some(density) = density {
                pass.tap(LOG_DENSITY, &density.map_err(Error::into_method)?);
            }
        }
        apply(x, &self.dense.weight, self.dense.bias.as_ref(), pass)
    }

    fn taps(&self) -> &[&str] {
        &[LOG_DENSITY]
    }

    fn fit_phase(&self) -> Option<FitPhase> {
        Some(FitPhase::End)
    }

    fn fit_posthoc(&self, shown: &FitData) -> fidgp::Result<()> {
        let labels = Vec::<i64>::try_from(shown.targets.to_kind(Kind::Int64).to_device(Device::Cpu))?;
        let fitted = ClassGaussians::fit(&shown.inputs.to_kind(Kind::Double), &labels).map_err(Error::into_method)?;
        let seen = Tensor::from_slice(&present(&labels)).to_device(self.class_means.device());
        tch::no_grad(|| {
            for (buffer, value) in [(&self.class_means, &fitted.means), (&self.class_roots, &fitted.lower)] {
                let mut buffer = buffer.shallow_clone();
                let _ = buffer.zero_().index_copy_(0, &seen, &value.to_kind(buffer.kind()));
            }
        });
        Ok(())
    }
}

/// chol(Σ_k + ε I), with the smallest ε that lets every class be factorised: none, or a power of ten times rounding times the
/// mean variance. One for all classes: with fewer rows than features, distances along the directions a class does not have are
/// divided by ε, and a class with a larger one would seem nearer than the others. `[K, n, n]`
fn roots(covariances: &Tensor, classes: &[i64]) -> Result<Tensor> {
    linalg::check_finite("ddu: covariances of the features", covariances, "Lower the learning rate or clip gradients")?;
    let width = covariances.size()[2];
    let unit = covariances.diagonal(0, -2, -1).mean(Kind::Double).double_value(&[]).max(f64::MIN_POSITIVE);
    let eye = Tensor::eye(width, (covariances.kind(), covariances.device()));
    let mut tried = Vec::new();
    let mut resisting = (0, 0);
    for power in 0..=ESCALATIONS {
        let relative = if power == 0 { 0.0 } else { f64::EPSILON * 10f64.powi(power) };
        let (lower, info) = (covariances + &eye * (relative * unit)).f_linalg_cholesky_ex(false, false)?;
        let minors = Vec::<i64>::try_from(info.to_kind(Kind::Int64))?;
        tried.push(relative);
        let Some(class) = minors.iter().position(|minor| *minor != 0) else {
            if power > 0 {
                tracing::warn!(
                    jitter = relative,
                    "ddu: the covariances of the classes needed jitter, fewer rows than features?"
                );
            }
            return Ok(lower);
        };
        resisting = (class, minors[class]);
    }
    let (class, minor) = resisting;
    let (layer, condition) = (format!("ddu.class {}", classes[class]), f64::INFINITY);
    Err(Error::Method(fidgp::Error::Cholesky { layer, minor, size: width, tried, condition }))
}

/// The classes that have rows, in order.
fn present(labels: &[i64]) -> Vec<i64> {
    let mut classes = labels.to_vec();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// The features with this label. `[N_k, n]`
fn class_rows(features: &Tensor, labels: &[i64], class: i64) -> Result<Tensor> {
    let rows: Vec<i64> = (0..).zip(labels).filter(|(_, label)| **label == class).map(|(row, _)| row).collect();
    if rows.len() < 2 {
        let advice = "a covariance needs at least two rows of every class";
        return Err(Error::Method(fidgp::Error::setting(format!("rows of class {class}"), rows.len(), advice)));
    }
    Ok(features.index_select(0, &Tensor::from_slice(&rows).to_kind(Kind::Int64).to_device(features.device())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidgp::Key;

    fn features() -> Tensor {
        Key::new(4).normal(&[40, 3], Kind::Double, Device::Cpu)
    }

    fn labels() -> Vec<i64> {
        (0..40).map(|i| i % 2).collect()
    }

    #[test]
    fn the_density_is_the_textbook_formula() {
        let (features, labels) = (features(), labels());
        let fitted = ClassGaussians::fit(&features, &labels).unwrap();
        let x = features.narrow(0, 0, 5);
        let class = class_rows(&features, &labels, 1).unwrap();
        let covariance = class.mt().cov(1, None::<Tensor>, None::<Tensor>);
        let centred = &x - class.mean_dim(0, false, Kind::Double);
        let quadratic = (centred.matmul(&covariance.inverse()) * &centred).sum_dim_intlist(1, false, Kind::Double);
        let expected = quadratic * -0.5 - covariance.det().log() * 0.5 - 1.5 * LN_2PI;
        let found = fitted.log_density(&x).unwrap();
        assert_eq!(found.size(), [5, 2]);
        assert!((found.select(1, 1) - expected).abs().max().double_value(&[]) < 1e-10);
    }

    #[test]
    fn far_features_score_low_and_a_flat_class_gets_jitter() {
        let flat = features() * Tensor::from_slice(&[1.0, 1.0, 0.0]);
        let fitted = ClassGaussians::fit(&flat, &labels()).unwrap();
        let score = |x: &Tensor| fitted.score(x).unwrap().min().double_value(&[]);
        assert!(score(&(flat.narrow(0, 0, 2) + 50.0)) < score(&flat));
    }

    #[test]
    fn all_classes_have_the_jitter_that_the_worst_needs() {
        // class 1 lacks a direction and needs jitter, class 0 does not
        let flat = Tensor::from_slice(&[1.0, 1.0, 0.0]) * Tensor::ones([40, 1], (Kind::Double, Device::Cpu));
        let mask = Tensor::from_slice(&labels()).to_kind(Kind::Double).unsqueeze(1);
        let features = features() * (&flat * &mask + (1.0 - &mask));
        let fitted = ClassGaussians::fit(&features, &labels()).unwrap();
        let jitter = |class: i64| {
            let rows = class_rows(&features, &labels(), class).unwrap();
            let lower = fitted.lower.select(0, class);
            let added = lower.matmul(&lower.tr()) - rows.mt().cov(1, None::<Tensor>, None::<Tensor>);
            added.diagonal(0, 0, 1).select(0, 2).double_value(&[])
        };
        let (plain, flat) = (jitter(0), jitter(1));
        assert!(flat > 1e-16 && flat < 1e-10, "{flat:e}");
        assert!((plain - flat).abs() < 1e-15, "{plain:e} {flat:e}"); // the rounding of a variance near 1
    }

    #[test]
    fn bad_labels_are_errors() {
        assert!(ClassGaussians::fit(&features(), &[0, 1]).is_err());
        assert!(ClassGaussians::fit(&features(), &[-1; 40]).is_err());
        let mut lonely = vec![0; 40];
        lonely[0] = 1;
        assert!(ClassGaussians::fit(&features(), &lonely).unwrap_err().to_string().contains("class 1"));
    }
}
