//! What the tests share: small weights, a small network, a dense oracle, and comparisons.

use fidgp::conditional::{Conditional, NoiseOn};
use fidgp::layer::{Factors, Linear, Network, Pass, SlotConfig};
use fidgp::linalg::Check;
use fidgp::posterior::PosteriorConfig;
use fidgp::prior::{KroneckerPrior, PriorFactors};
use fidgp::weight::{InducingConfig, InducingWeight};
use fidgp::{Key, Result};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

/// Standard errors that a sample statistic may be away from its expectation.
pub const SIGMAS: f64 = 4.0;

/// An empty store. Libtorch is kept to one thread: tests run side by side, their tensors are small, and sums do not then
/// depend on the machine.
pub fn store(kind: Kind) -> VarStore {
    tch::set_num_threads(1);
    let mut store = VarStore::new(Device::Cpu);
    store.set_kind(kind);
    store
}

/// Standard normals in f64.
pub fn normal(key: Key, shape: &[i64]) -> Tensor {
    key.normal(shape, Kind::Double, Device::Cpu)
}

pub fn eye(n: i64) -> Tensor {
    Tensor::eye(n, (Kind::Double, Device::Cpu))
}

pub fn scalar(x: &Tensor) -> f64 {
    x.double_value(&[])
}

/// `A⁻¹ B`, densely.
pub fn solve(a: &Tensor, b: &Tensor) -> Tensor {
    Tensor::linalg_solve(a, b, true)
}

/// `ln |det A|`, densely.
pub fn log_det(a: &Tensor) -> Tensor {
    Tensor::linalg_slogdet(a).1
}

/// max|a − b|, infinite on a difference in shape.
pub fn gap(a: &Tensor, b: &Tensor) -> f64 {
    if a.size() == b.size() { scalar(&(a - b).abs().max()) } else { f64::INFINITY }
}

/// Every entry of `sample` is within [`SIGMAS`] standard errors of `expected`.
#[track_caller]
pub fn assert_within(what: &str, sample: &Tensor, expected: &Tensor, standard_error: &Tensor) {
    assert_eq!(sample.size(), expected.size(), "{what}");
    let worst = scalar(&((sample - expected) / standard_error).abs().max());
    assert!(worst < SIGMAS, "{what}: {worst:.2} standard errors");
}

/// The mean of independent numbers is within [`SIGMAS`] of its own standard errors of `expected`.
#[track_caller]
pub fn assert_mean(what: &str, sample: &[f64], expected: f64) {
    let n = sample.len() as f64;
    let mean = sample.iter().sum::<f64>() / n;
    let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let sigmas = (mean - expected).abs() / (variance / n).sqrt();
    assert!(sigmas < SIGMAS, "{what}: {mean} against {expected}, {sigmas:.2} standard errors");
}

/// Mean and covariance of Gaussian draws `[N, D]` are the expected ones. The standard error of a mean is `√(Σ_ii/N)`; of
/// an entry of the covariance, taken around the known mean, `√((Σ_ii Σ_jj + Σ_ij²)/N)`, exact for Gaussians.
#[track_caller]
pub fn assert_moments(what: &str, draws: &Tensor, mean: &Tensor, covariance: &Tensor) {
    let n = draws.size()[0] as f64;
    let variance = covariance.diagonal(0, 0, 1);
    assert_within(what, &draws.mean_dim(0, false, Kind::Double), mean, &(&variance / n).sqrt());
    let centred = draws - mean;
    let sample = centred.tr().matmul(&centred) / n;
    let standard_error = ((variance.outer(&variance) + covariance.square()) / n).sqrt();
    assert_within(what, &sample, covariance, &standard_error);
}

/// 3×2 inducing values, a moderate D and no jitter, so that dense formulas without jitter are exact.
pub fn config() -> InducingConfig {
    InducingConfig {
        inducing_rows: 3.into(),
        inducing_cols: 2.into(),
        cap_inducing: false,
        posterior: PosteriorConfig::Diagonal,
        init_sd_u: 0.3,
        max_sd_u: Some(1.0),
        init_lamda: 0.3,
        max_lamda: Some(0.9),
        prior_sd: 1.3,
        init_d: 0.4,
        jitter: 0.0,
        ..InducingConfig::default()
    }
}

/// Isotropic noise on the weights or on the outputs.
pub fn reparam(noise: NoiseOn) -> InducingConfig {
    InducingConfig { conditional: Conditional::Reparam, noise, ..config() }
}

pub fn inducing(config: &InducingConfig) -> SlotConfig {
    SlotConfig::Inducing(Box::new(config.clone()))
}

/// Moves every trainable variable by noise, so that nothing is at its start.
pub fn moved(store: &VarStore, size: f64, key: Key) {
    tch::no_grad(|| {
        for (name, mut variable) in store.variables().into_iter().filter(|(_, v)| v.requires_grad()) {
            let noise = normal(key.fold(&name), &variable.size()).to_kind(variable.kind());
            variable += noise * size;
        }
    });
}

/// A weight of the given shape with all parameters off their start.
pub fn weight(shape: (i64, i64), config: &InducingConfig, seed: u64) -> (VarStore, InducingWeight) {
    let store = store(Kind::Double);
    let weight = InducingWeight::init(&(store.root() / "fc"), shape.0, shape.1, config, Key::new(seed)).unwrap();
    moved(&store, 0.3, Key::new(seed).fold("moved"));
    (store, weight)
}

pub fn factors(weight: &InducingWeight) -> PriorFactors {
    tch::no_grad(|| weight.factors(Check::Now).unwrap())
}

/// W given U by dense linear algebra on the joint Gaussian of vec W and vec U (row-major), straight from Z and D:
/// `Cov(vec W) = I`, `Cov(vec U) = K_r ⊗ K_c`, `Cov(vec W, vec U) = Z_rᵀ ⊗ Z_cᵀ`.
pub struct Oracle {
    /// `E[vec W|U] = gain · vec U`. `[d_out·d_in, R·C]`
    pub gain: Tensor,
    /// Cov(vec W|U). `[d_out·d_in, d_out·d_in]`
    pub covariance: Tensor,
    /// Cov(vec U). `[R·C, R·C]`
    pub inducing: Tensor,
}

impl Oracle {
    pub fn of(prior: &KroneckerPrior) -> Self {
        let covariance = |z: &Tensor, d: &Tensor| z.matmul(&z.tr()) + d.square().diag(0);
        let (d_row, d_col) = prior.d();
        let inducing = covariance(&prior.z_row, &d_row).kron(&covariance(&prior.z_col, &d_col)).detach();
        let cross = prior.z_row.tr().contiguous().kron(&prior.z_col.tr().contiguous()).detach();
        let gain = solve(&inducing, &cross.tr()).tr();
        Self { covariance: eye(cross.size()[0]) - gain.matmul(&cross.tr()), gain, inducing }
    }
}

/// `y = W₂ tanh(W₁ x)`.
#[derive(Debug)]
pub struct Net {
    pub first: Linear,
    pub second: Linear,
}

impl Net {
    pub fn init(store: &VarStore, widths: [i64; 3], slot: &SlotConfig, key: Key) -> Result<Self> {
        let root = store.root();
        Ok(Self {
            first: Linear::init(&(&root / "fc1"), widths[0], widths[1], true, slot, key)?,
            second: Linear::init(&(&root / "fc2"), widths[1], widths[2], true, slot, key)?,
        })
    }

    pub fn factors(&self) -> Factors {
        Factors::of(&self.inducing(), Check::Now).unwrap()
    }
}

fidgp::layers!(Net: first, second);

impl Network for Net {
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        self.second.forward(&self.first.forward(x, pass)?.tanh(), pass)
    }
}
