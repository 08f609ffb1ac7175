//! The last layer as sparse variational Gaussian processes, one for each output: an SVGP head, and with bounded layers
//! below it DUE (van Amersfoort et al. 2021). Trained by its ELBO together with the network.

use fidgp::Key;
use fidgp::layer::{Apply, CustomWeight, FitData, FitPhase, LayerGeometry, MakeWeight, Mode, Pass, PlannedWeight};
use fidgp::linalg::{self, Check, Jitter, Named};
use fidgp::weight::Kl;
use serde::{Deserialize, Serialize};
use tch::nn::{Init, Path};
use tch::{Kind, Tensor};

use super::method::{linear_shape, widths};
use super::{About, Extra, Method, Passes, Section, Settings};
use crate::baseline::matrix;
use crate::plan::HEAD;
use crate::{Error, LayerPlan, Result};

/// Keeps the square root differentiable where the variance is zero.
const VARIANCE_FLOOR: f64 = 1e-6;
/// Of K_zz, in f32.
const JITTER: Jitter = Jitter { relative: 1e-4, escalations: 3 };
/// Inducing points where there are too few outputs to go by.
const FEW_OUTPUTS: i64 = 10;
const USUAL_POINTS: i64 = 20;
/// Rows between which distances are measured for the lengthscale.
const DISTANCE_ROWS: i64 = 1000;
const KMEANS_STEPS: usize = 20;
/// Deviation of whitened processes at the start. At 1, the prior's, logits are mostly noise, and the quickest way to less
/// noise is a kernel without scale (the one number that all outputs share): under SGD it collapses within the first epoch, and
/// with it every gradient.
const START_SD: f64 = 0.1;

/// The method.
#[derive(Debug)]
pub struct Svgp;

impl Method for Svgp {
    fn about(&self) -> About {
        About {
            section: Some(Section::of::<SvgpConfig>("svgp")),
            passes: Passes::Draws,
            spectral_norm: Extra::Renames("due"),
            predicts_pixels: false,
            has_kl: true,
            ..About::new("svgp", "A network with sparse variational Gaussian processes on top (SVGP)")
        }
    }
}

/// Settings of the head.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SvgpConfig {
    /// M; as many as outputs when none is given, 20 where those are fewer than ten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inducing_points: Option<i64>,
    /// Draws of the process that estimate the expected log-likelihood in training.
    pub samples: i64,
}

impl Default for SvgpConfig {
    fn default() -> Self {
        Self { inducing_points: None, samples: 10 }
    }
}

impl Settings for SvgpConfig {
    fn check(&self) -> Result<()> {
        if let Some(points) = self.inducing_points.filter(|points| *points < 1) {
            return Err(Error::setting(
                "inducing_points",
                points,
                "must be at least 1; the number of classes is usual",
            ));
        }
        if self.samples < 1 {
            return Err(Error::setting("samples", self.samples, "must be at least 1; 10 is usual"));
        }
        Ok(())
    }

    fn plan(&self, plan: LayerPlan) -> LayerPlan {
        plan.custom(HEAD, *self)
    }
}

impl MakeWeight for SvgpConfig {
    fn make(&self, planned: &PlannedWeight, path: &Path, key: Key) -> fidgp::Result<Box<dyn CustomWeight>> {
        let head = SvgpHead::init(path, linear_shape(planned)?, &planned.name, self, key);
        Ok(Box::new(head.map_err(Error::into_method)?))
    }

    fn is_random(&self) -> bool {
        true
    }

    fn parameters(&self, layer: &LayerGeometry) -> i64 {
        let [outputs, inputs] = widths(layer);
        let m = self.points(outputs);
        m * inputs + 2 + outputs * (1 + m + m * (m + 1) / 2)
    }

    /// The processes are drawn for each input.
    fn macs(&self, layer: &LayerGeometry) -> i64 {
        let [outputs, inputs] = widths(layer);
        let m = self.points(outputs);
        m * inputs + m * m + outputs * (m + m * m)
    }
}

impl SvgpConfig {
    fn points(&self, outputs: i64) -> i64 {
        let usual = if outputs < FEW_OUTPUTS { USUAL_POINTS } else { outputs };
        self.inducing_points.unwrap_or(usual)
    }
}

/// Whitened sparse processes that share inducing points and an RBF kernel: `f_k(h) = c_k + process_k(h)`.
#[derive(Debug)]
pub struct SvgpHead {
    name: String,
    config: SvgpConfig,
    key: Key,
    /// Z. `[M, n]`
    inducing_points: Tensor,
    /// ln ℓ. Scalar.
    log_lengthscale: Tensor,
    /// ln s². Scalar.
    log_outputscale: Tensor,
    /// m/√n. `[K, M]`
    mean: Tensor,
    /// The lower triangle of L/√n row by row, its diagonal as logarithms/√n. `[K, M(M+1)/2]`
    root: Tensor,
    /// √n. A whitened input `chol(K_zz)⁻¹k_zx` has at most length s, the n inputs of a plain layer about √n: parameters in
    /// this unit learn as fast as a plain layer's under the same learning rate, n times faster than m itself.
    unit: f64,
    /// c. `[K]`
    constant: Tensor,
    /// Where in a matrix the numbers of `root` stand, and which of them are on the diagonal.
    places: Tensor,
    on_diagonal: Tensor,
}

impl SvgpHead {
    /// A head under `path` that starts at the prior's mean with a small deviation; where its inducing points are is settled
    /// before the training.
    ///
    /// # Errors
    /// When a setting is out of range.
    pub fn init(path: &Path, [outputs, inputs]: [i64; 2], name: &str, config: &SvgpConfig, key: Key) -> Result<Self> {
        config.check()?;
        let key = key.fold(name);
        let points = config.points(outputs);
        let mut inducing_points = path.var("inducing_points", &[points, inputs], Init::Const(0.0));
        let start = key.fold("inducing_points").normal(&[points, inputs], path.kind(), path.device());
        tch::no_grad(|| inducing_points.copy_(&start));
        let indices = Tensor::tril_indices(points, points, 0, (Kind::Int64, path.device()));
        let (row, col) = (indices.get(0), indices.get(1));
        let (unit, on_diagonal) = ((inputs as f64).sqrt(), row.eq_tensor(&col));
        let mut root = path.zeros("inducing_root", &[outputs, points * (points + 1) / 2]);
        tch::no_grad(|| root.copy_(&(on_diagonal.to_kind(path.kind()) * (START_SD.ln() / unit))));
        Ok(Self {
            name: name.to_owned(),
            config: *config,
            key,
            inducing_points,
            log_lengthscale: path.var("log_lengthscale", &[], Init::Const(0.5 * (2.0 * inputs as f64).ln())),
            log_outputscale: path.var("log_outputscale", &[], Init::Const(0.0)),
            mean: path.zeros("inducing_mean", &[outputs, points]),
            root,
            unit,
            constant: path.zeros("constant", &[outputs]),
            on_diagonal,
            places: row * points + col,
        })
    }

    /// L. `[K, M, M]`
    fn lower(&self) -> Tensor {
        let (outputs, points) = (self.mean.size()[0], self.mean.size()[1]);
        let root = &self.root * self.unit;
        let values = root.where_self(&self.on_diagonal.logical_not(), &root.exp());
        let flat = Tensor::zeros([outputs, points * points], (values.kind(), values.device()));
        flat.index_copy(1, &self.places, &values).view([outputs, points, points])
    }

    /// `s² exp(−‖x − z‖²/2ℓ²)`. `[N, n]`, `[M, n]` → `[N, M]`
    fn gram(&self, x: &Tensor, z: &Tensor) -> Tensor {
        let centre = self.inducing_points.mean_dim(0, true, x.kind()).detach(); // distances keep more digits about it
        let scale = (-&self.log_lengthscale).exp();
        let (x, z) = ((x - &centre) * &scale, (z - &centre) * &scale);
        let norms = |t: &Tensor| t.square().sum_dim_intlist(-1, false, t.kind());
        let distance = norms(&x).unsqueeze(1) + norms(&z).unsqueeze(0) - x.matmul(&z.mt()) * 2.0;
        (distance.clamp_min(0.0) * -0.5 + &self.log_outputscale).exp()
    }

    /// `chol(K_zz)`. `[M, M]`
    fn factor(&self, jitter: Jitter, check: Check) -> fidgp::Result<Tensor> {
        let z = &self.inducing_points;
        let named = Named::one(format!("{}.K_zz", self.name), &self.gram(z, z));
        Ok(linalg::cholesky(&[named], jitter, check)?.remove(0))
    }

    /// Mean and variance of every process at every input. `[N, n]` → `[N, K]`, `[N, K]`
    ///
    /// # Errors
    /// When K_zz cannot be factorised.
    pub fn marginal(&self, x: &Tensor, check: Check) -> fidgp::Result<(Tensor, Tensor)> {
        let z = &self.inducing_points;
        let lower = self.factor(JITTER, check)?;
        let b = linalg::solve_lower(&lower, &self.gram(z, x)); // [M, N]
        let mean = (&self.mean * self.unit).matmul(&b) + self.constant.unsqueeze(1); // [K, N]
        let energy = |t: &Tensor, dim: i64| t.square().sum_dim_intlist(dim, false, t.kind());
        let spread = self.lower().transpose(1, 2).matmul(&b); // [K, M, N]
        let variance = energy(&spread, 1) + (self.log_outputscale.exp() - energy(&b, 0)); // [K, N]
        Ok((mean.mt(), variance.clamp_min(VARIANCE_FLOOR).mt()))
    }

    /// `Σ_k KL[N(m_k, L_kL_kᵀ) ‖ N(0, I)]`. Scalar.
    pub fn kl(&self) -> Tensor {
        let numbers = self.mean.numel() as f64;
        let energy = |t: &Tensor| t.square().sum(t.kind());
        let log_det = (&self.root * self.on_diagonal.to_kind(self.root.kind())).sum(self.root.kind()) * self.unit;
        (energy(&self.lower()) + energy(&(&self.mean * self.unit)) - numbers) * 0.5 - log_det
    }
}

impl CustomWeight for SvgpHead {
    fn name(&self) -> &str {
        &self.name
    }

    /// Draws `f = mean + √variance ⊙ ε` of the marginals: in training S of them as blocks of rows, so that the loss is a mean
    /// over them; in evaluation one; without noise the mean.
    ///
    /// # Shapes
    /// `[N, n]` → `[S·N, K]`
    fn forward(&self, x: &Tensor, pass: &mut Pass, _: &Apply) -> fidgp::Result<Tensor> {
        let training = pass.mode == Mode::Train;
        if training {
            let kl = self.kl();
            pass.charge(&self.name, Kl { conditional: kl.zeros_like(), inducing: kl });
        }
        let check = if x.device().is_cuda() { Check::Deferred } else { Check::Now };
        let (mean, variance) = self.marginal(&x.to_kind(self.mean.kind()), check)?;
        if !pass.noise.is_on() {
            return Ok(mean);
        }
        let times = if training { self.config.samples } else { 1 };
        let (mean, sd) = (mean.repeat([times, 1]), variance.sqrt().repeat([times, 1]));
        let noise = pass.noise.of(&self.name, &mean)?;
        Ok(mean + noise * sd)
    }

    fn check(&self) -> fidgp::Result<()> {
        // on CUDA a pass does not look, and so cannot try more jitter
        let escalations = if self.mean.device().is_cuda() { 0 } else { JITTER.escalations };
        self.factor(Jitter { escalations, ..JITTER }, Check::Now).map(|_| ())
    }

    fn fit_phase(&self) -> Option<FitPhase> {
        Some(FitPhase::Start)
    }

    /// Inducing points by k-means, lengthscale the mean distance between inputs.
    fn fit_posthoc(&self, shown: &FitData) -> fidgp::Result<()> {
        tch::no_grad(|| {
            let inputs = shown.inputs.to_kind(self.mean.kind());
            let (rows, _) = matrix("inputs", &inputs).map_err(Error::into_method)?;
            let some = inputs.narrow(0, 0, rows.min(DISTANCE_ROWS));
            let distance = some.pdist(2.0).mean(some.kind()).double_value(&[]);
            if !(distance > 0.0 && distance.is_finite()) {
                let advice = "the features before the training must differ from each other and be finite";
                return Err(fidgp::Error::setting("mean distance of features", distance, advice));
            }
            let _ = self.log_lengthscale.shallow_clone().fill_(distance.ln());
            let centres = kmeans(&inputs, self.mean.size()[1], distance, self.key.fold("kmeans"));
            self.inducing_points.shallow_clone().copy_(&centres);
            Ok(())
        })
    }

    fn is_random(&self) -> bool {
        true
    }
}

/// Lloyd's algorithm from rows taken in order, a little apart where there are fewer of them than centres.
///
/// # Shapes
/// `[N, n]` → `[count, n]`
fn kmeans(rows: &Tensor, count: i64, distance: f64, key: Key) -> Tensor {
    let n = rows.size()[0];
    let first: Vec<i64> = (0..count).map(|i| i % n).collect();
    let first = Tensor::from_slice(&first).to_device(rows.device());
    let apart = key.normal(&[count, rows.size()[1]], rows.kind(), rows.device()) * (1e-3 * distance);
    let mut centres = rows.index_select(0, &first) + apart;
    for _ in 0..KMEANS_STEPS {
        let nearest = Tensor::cdist(rows, &centres, 2.0, None::<i64>).argmin(1, false); // [N]
        let members = nearest.one_hot(count).to_kind(rows.kind()); // [N, count]
        let sizes = members.sum_dim_intlist(0, false, rows.kind()).unsqueeze(1);
        let means = members.mt().matmul(rows) / sizes.clamp_min(1.0);
        centres = means.where_self(&sizes.gt(0.0), &centres);
    }
    centres
}
