//! Gradients of the whole ELBO of a two-layer network, for every entry of every parameter.

use fidgp::Key;
use fidgp::conditional::{Conditional, ConditionalKl, NoiseOn};
use fidgp::distribution::BoundMap;
use fidgp::flow::{CouplingConfig, DiagonalConfig, FlowConfig, IafConfig, LipschitzConfig, MadeConfig};
use fidgp::layer::{Mode, Network, Pass};
use fidgp::objective::{DatasetSize, Gaussian, Likelihood, NoiseConfig, negative_elbo, sum_kl};
use fidgp::posterior::PosteriorConfig;
use fidgp::weight::InducingConfig;
use tch::nn::{OptimizerConfig, VarStore};
use tch::{Kind, Tensor};

use crate::common::{Net, config, inducing, moved, normal, scalar, store};

const STEP: f64 = 1e-6;

struct Model {
    store: VarStore,
    net: Net,
    likelihood: Gaussian,
    x: Tensor,
    y: Tensor,
}

impl Model {
    fn new(config: &InducingConfig, widths: [i64; 3], examples: i64, kind: Kind) -> Self {
        let store = store(kind);
        let net = Net::init(&store, widths, &inducing(config), Key::new(110)).unwrap();
        let likelihood = Gaussian::init(&store.root(), NoiseConfig::Learnt { init_sd: 0.4 }).unwrap();
        moved(&store, 0.2, Key::new(111));
        let x = normal(Key::new(112), &[examples, widths[0]]).to_kind(kind);
        let y = normal(Key::new(113), &[examples]).to_kind(kind);
        Self { store, net, likelihood, x, y }
    }

    fn loss(&self, mode: Mode) -> Tensor {
        let mut pass = Pass::draw(&self.net.inducing(), &self.net.factors(), mode, Key::new(114)).unwrap();
        let nll = self.likelihood.nll(&self.net.forward(&self.x, &mut pass).unwrap(), &self.y);
        negative_elbo(&nll, sum_kl(pass.kl()).as_ref(), &Tensor::from(1.0), DatasetSize::new(30).unwrap())
    }

    fn parameters(&self) -> Vec<(String, Tensor)> {
        self.store.variables().into_iter().filter(|(_, v)| v.requires_grad()).collect()
    }
}

/// The largest difference between a gradient and central differences over the entries of `variable`.
fn error(model: &Model, variable: &Tensor) -> f64 {
    let gradient = Vec::<f64>::try_from(variable.grad().reshape([-1])).unwrap();
    let flat = variable.detach().view(-1);
    let at = |i: usize, shift: f64| {
        let mut cell = flat.get(i as i64);
        let start = scalar(&cell);
        let _ = cell.fill_(start + shift);
        let loss = tch::no_grad(|| scalar(&model.loss(Mode::Eval)));
        let _ = cell.fill_(start);
        loss
    };
    let entry = |(i, analytic): (usize, &f64)| {
        let numeric = (at(i, STEP) - at(i, -STEP)) / (2.0 * STEP);
        (numeric - analytic).abs() / analytic.abs().max(1.0)
    };
    gradient.iter().enumerate().map(entry).fold(0.0, f64::max)
}

fn check(config: &InducingConfig) {
    let config =
        InducingConfig { inducing_rows: 2.into(), inducing_cols: 2.into(), cap_inducing: true, ..config.clone() };
    let model = Model::new(&config, [2, 3, 1], 4, Kind::Double);
    model.loss(Mode::Eval).backward();
    for (name, variable) in model.parameters() {
        let error = error(&model, &variable);
        assert!(error < 1e-6, "{name}: {error:e} with {config:?}");
    }
}

/// Matheron, Reparam on weights with either KL, Reparam on outputs.
fn conditionals() -> [InducingConfig; 4] {
    let reparam = |noise, conditional_kl| InducingConfig {
        conditional: Conditional::Reparam,
        noise,
        conditional_kl,
        lamda_penalty: 0.1,
        ..config()
    };
    [
        config(),
        reparam(NoiseOn::Weights, ConditionalKl::Paper),
        reparam(NoiseOn::Weights, ConditionalKl::Exact),
        reparam(NoiseOn::Outputs, ConditionalKl::Exact),
    ]
}

/// One family with every conditional and both maps onto the bounded range.
fn check_family(posterior: &PosteriorConfig, whitened_u: bool) {
    for conditional in conditionals() {
        for bound in [BoundMap::Smooth, BoundMap::Clamp] {
            check(&InducingConfig { posterior: posterior.clone(), whitened_u, bound, ..conditional.clone() });
        }
    }
}

#[test]
fn diagonal() {
    check_family(&PosteriorConfig::Diagonal, true);
}

#[test]
fn diagonal_unwhitened() {
    check_family(&PosteriorConfig::Diagonal, false);
}

#[test]
fn matrix_normal() {
    check_family(&PosteriorConfig::MatrixNormal, true);
}

#[test]
fn full() {
    check_family(&PosteriorConfig::Full, true);
}

#[test]
fn ensemble() {
    check_family(&PosteriorConfig::Ensemble { members: 2 }, true);
}

#[test]
fn flow() {
    check_family(
        &PosteriorConfig::Flow { flow: FlowConfig::Made(MadeConfig { hidden: Some(3), ..MadeConfig::default() }) },
        true,
    );
}

fn flows() -> Vec<FlowConfig> {
    vec![
        FlowConfig::default(),
        FlowConfig::compat(),
        FlowConfig::Iaf(IafConfig::default()),
        FlowConfig::Lipschitz(LipschitzConfig::default()),
        FlowConfig::Diagonal(DiagonalConfig::default()),
        FlowConfig::Coupling(CouplingConfig { layers: 2, ..CouplingConfig::default() }),
    ]
}

#[test]
fn every_other_flow() {
    for flow in flows().into_iter().skip(2) {
        check(&InducingConfig { posterior: PosteriorConfig::Flow { flow }, ..config() });
    }
    let flow = FlowConfig::Diagonal(DiagonalConfig::default());
    check(&InducingConfig { posterior: PosteriorConfig::Flow { flow }, whitened_u: false, ..config() });
}

/// One training step in single precision reaches every parameter and moves it, and nothing becomes non-finite.
#[test]
fn every_parameter_moves_in_a_training_step() {
    let mut families = vec![
        PosteriorConfig::Diagonal,
        PosteriorConfig::MatrixNormal,
        PosteriorConfig::Full,
        PosteriorConfig::Ensemble { members: 3 },
    ];
    families.extend(flows().into_iter().map(|flow| PosteriorConfig::Flow { flow }));
    for posterior in families {
        for conditional in conditionals() {
            let config = InducingConfig {
                inducing_rows: 6.into(),
                inducing_cols: 6.into(),
                posterior: posterior.clone(),
                jitter: 1e-5,
                ..conditional
            };
            let model = Model::new(&config, [6, 8, 1], 32, Kind::Float);
            let mut optimiser = tch::nn::Sgd::default().build(&model.store, 1e-2).unwrap();
            let before: Vec<_> = model.parameters().into_iter().map(|(name, v)| (name, v.copy())).collect();
            optimiser.backward_step(&model.loss(Mode::Train));
            let after = model.store.variables();
            for (name, before) in before {
                let moved = scalar(&(&after[&name] - before).abs().max().to_kind(Kind::Double));
                assert!(moved > 0.0 && moved.is_finite(), "{name}: {moved} with {config:?}");
            }
        }
    }
}

/// A clamped deviation at its maximum has no gradient, the smooth one has: why the smooth map is the default.
#[test]
fn only_the_smooth_map_lets_a_parameter_come_back_from_its_bound() {
    let gradient = |map| {
        let raw = Tensor::from_slice(&[6.0]).set_requires_grad(true);
        fidgp::distribution::Bounded { raw: raw.shallow_clone(), max: Some(0.5), map }
            .value()
            .sum(Kind::Double)
            .backward();
        raw.grad().double_value(&[0])
    };
    assert!(gradient(BoundMap::Clamp).abs() < 1e-300);
    assert!(gradient(BoundMap::Smooth) > 1e-4);
}
