//! Small networks of every kind of layer, and what the tests share.

use fidgp::layer::{Conv2d, Conv2dConfig, Curvature, Factors, Linear, Mode, Network, Pass, SlotConfig};
use fidgp::linalg::Check;
use fidgp::linearised::{FitConfig, LinearisedPosterior, Observed, Tangent, fit};
use fidgp::posterior::PosteriorConfig;
use fidgp::prior::ZStart;
use fidgp::weight::InducingConfig;
use fidgp::{Key, Result};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

/// The standard deviation of the noise.
pub const SIGMA: f64 = 0.3;

pub fn normal(name: &str, shape: &[i64]) -> Tensor {
    tch::set_num_threads(1);
    Key::new(21).fold(name).normal(shape, Kind::Double, Device::Cpu)
}

pub fn eye(n: i64) -> Tensor {
    Tensor::eye(n, (Kind::Double, Device::Cpu))
}

pub fn gap(a: &Tensor, b: &Tensor) -> f64 {
    if a.size() == b.size() { (a - b).abs().max().double_value(&[]) } else { f64::INFINITY }
}

/// An inducing weight whose centre is its parameter: no flow.
pub fn inducing(rows: i64, cols: i64) -> InducingConfig {
    let posterior = PosteriorConfig::Diagonal;
    InducingConfig { inducing_rows: rows.into(), inducing_cols: cols.into(), posterior, ..Default::default() }
}

/// The same with as many inducing weights as there are weights: `A_r` and `A_c` are orthogonal.
pub fn whole() -> InducingConfig {
    InducingConfig { init_z: ZStart::Orthogonal, init_d: 1e-8, jitter: 0.0, ..inducing(999, 999) }
}

/// Linear layers with tanh between them; inputs may have leading axes, over which the last layer's inputs are averaged.
#[derive(Debug)]
pub struct Mlp(pub Vec<Linear>);

impl Mlp {
    pub fn new(store: &VarStore, widths: &[i64], config: &InducingConfig) -> Self {
        let slot = SlotConfig::Inducing(Box::new(config.clone()));
        let layer = |i: usize| {
            let bias = i != 2; // the second one has none
            Linear::init(&(store.root() / format!("fc{i}")), widths[i - 1], widths[i], bias, &slot, Key::new(3))
                .unwrap()
        };
        Self((1..widths.len()).map(layer).collect())
    }
}

fidgp::layers!(Mlp: 0);

impl Network for Mlp {
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let (last, hidden) = self.0.split_last().unwrap();
        let h = hidden
            .iter()
            .try_fold(x.shallow_clone(), |h, layer| Ok::<_, fidgp::Error>(layer.forward(&h, pass)?.tanh()))?;
        let h = if h.dim() > 2 { h.mean_dim(1, false, h.kind()) } else { h };
        last.forward(&h, pass)
    }
}

/// Convolutions with tanh, the mean over positions, a linear layer.
#[derive(Debug)]
pub struct Convolutions(Vec<Conv2d>, Linear);

impl Convolutions {
    pub fn new(store: &VarStore, config: &InducingConfig) -> Self {
        let slot = SlotConfig::Inducing(Box::new(config.clone()));
        let grouped = Conv2dConfig { groups: 2, ..Conv2dConfig::same(6, 4, 3).dilation(2) };
        let geometries = [Conv2dConfig::same(2, 6, 3).stride(2).bias(), grouped, Conv2dConfig::same(4, 5, 1).bias()];
        let layer = |(i, geometry): (usize, &Conv2dConfig)| {
            Conv2d::init(&(store.root() / format!("conv{i}")), *geometry, &slot, Key::new(4)).unwrap()
        };
        let convolutions = geometries.iter().enumerate().map(layer).collect();
        Self(convolutions, Linear::init(&(store.root() / "fc"), 5, 3, true, &slot, Key::new(5)).unwrap())
    }
}

fidgp::layers!(Convolutions: 0, 1);

impl Network for Convolutions {
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let h = self
            .0
            .iter()
            .try_fold(x.shallow_clone(), |h, layer| Ok::<_, fidgp::Error>(layer.forward(&h, pass)?.tanh()))?;
        self.1.forward(&h.flatten(2, 3).mean_dim(2, false, h.kind()), pass)
    }
}

/// A store of doubles.
pub fn store() -> VarStore {
    tch::set_num_threads(1);
    let mut store = VarStore::new(Device::Cpu);
    store.set_kind(Kind::Double);
    store
}

/// Derivatives of all outputs by leaves that `forward` uses, by automatic differentiation, one output of one input after
/// another. `[N, K, D]`
pub fn derivatives(outputs: &Tensor, leaves: &[Tensor]) -> Tensor {
    let of = |n: i64, k: i64| {
        let one = outputs.get(n).get(k);
        let gradients = Tensor::run_backward(&[&one], leaves, true, false);
        Tensor::cat(&gradients.iter().map(|g| g.reshape([-1])).collect::<Vec<_>>(), 0)
    };
    let size = outputs.size();
    let row = |n| Tensor::stack(&(0..size[1]).map(|k| of(n, k)).collect::<Vec<_>>(), 0);
    Tensor::stack(&(0..size[0]).map(row).collect::<Vec<_>>(), 0)
}

/// The same by the whitened inducing matrices, the parameters of the posterior's centre.
pub fn by_inducing(network: &dyn Network, x: &Tensor) -> Tensor {
    let weights = network.inducing();
    let factors = Factors::of(&weights, Check::Now).unwrap();
    let mut pass = Pass::mean(&weights, &factors, Mode::Eval).unwrap();
    let outputs = network.forward(x, &mut pass).unwrap();
    let leaves: Vec<_> = weights.iter().map(|weight| weight.posterior.mean.shallow_clone()).collect();
    derivatives(&outputs, &leaves)
}

/// Fits under Gaussian noise of deviation [`SIGMA`], in two batches.
pub fn fitted(tangent: &Tangent, x: &Tensor, y: Option<&Tensor>, config: &FitConfig) -> LinearisedPosterior {
    let cut = x.size()[0] / 2;
    let rows =
        |t: &Tensor, batch: usize| if batch == 0 { t.narrow(0, 0, cut) } else { t.narrow(0, cut, t.size()[0] - cut) };
    let mut batches = (0..2).map(|batch| Ok(rows(x, batch)));
    let observe = |batch: usize, start: i64, outputs: &Tensor| {
        let misfit = y.map(|y| {
            let own = rows(y, batch).narrow(0, start, outputs.size()[0]);
            (own - outputs.select(1, 0)).square() / (SIGMA * SIGMA)
        });
        let diagonal = outputs.ones_like() / (SIGMA * SIGMA);
        Ok(Observed { curvature: Curvature { diagonal, outer: None }, misfit })
    };
    fit(tangent, &mut batches, x.size()[0], &observe, config).unwrap()
}

/// All Jacobians of some inputs.
pub fn jacobian(tangent: &Tangent, x: &Tensor) -> Tensor {
    let mut parts = Vec::new();
    tangent
        .each(x, |_, linearised| {
            parts.push(linearised.jacobian.flat());
            Ok(())
        })
        .unwrap();
    Tensor::cat(&parts, 0)
}

/// Covariances at some inputs. `[N, K, K]`
pub fn covariances(posterior: &LinearisedPosterior, tangent: &Tangent, x: &Tensor) -> Tensor {
    let mut parts = Vec::new();
    let keep = |_: &Tensor, covariance: &Tensor| {
        parts.push(covariance.copy());
        Ok(())
    };
    posterior.laws(tangent, &[x.shallow_clone()], keep).unwrap();
    Tensor::cat(&parts, 0)
}
