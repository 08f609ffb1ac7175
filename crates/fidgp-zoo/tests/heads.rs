//! Last layers of other methods: against exact formulas, and in what they store.

use std::sync::Arc;

use fidgp::Key;
use fidgp::layer::{Curvature, CustomWeight, Factors, FitData, FitPhase, MakeWeight, Mode, Network, Pass, Slot, Taps};
use fidgp::linalg::Check;
use fidgp::predict::Draws;
use fidgp_zoo::baseline::svgp::{Rbf, WhitenedSvgp};
use fidgp_zoo::methods::Settings;
use fidgp_zoo::methods::ddu::{ClassGaussians, Density, LOG_DENSITY};
use fidgp_zoo::methods::laplace::{LaplaceConfig, Structure};
use fidgp_zoo::methods::sngp::{self, SngpConfig};
use fidgp_zoo::methods::svgp::{SvgpConfig, SvgpHead};
use fidgp_zoo::{Architecture, Counting, LayerPlan, MlpConfig, RuleSlot, cost, trace};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

fn boxed(network: impl Architecture + 'static) -> Box<dyn Architecture> {
    Box::new(network)
}

fn normal(name: &str, shape: &[i64]) -> Tensor {
    Key::new(5).fold(name).normal(shape, Kind::Float, Device::Cpu)
}

fn noisy(mode: Mode, key: u64) -> Pass {
    Pass::draw(&[], &Factors::of(&[], Check::Now).unwrap(), mode, Key::new(key)).unwrap()
}

fn svgp(points: i64) -> SvgpConfig {
    SvgpConfig { inducing_points: Some(points), samples: 3 }
}

/// A network whose last layer is the head: `hidden` layers before it, 3 features into the first one.
fn build(store: &VarStore, hidden: Vec<i64>, outputs: i64, slot: impl MakeWeight + 'static) -> (Box<dyn Network>, i64) {
    let shown = format!("{slot:?}");
    let head = format!("fc{}", hidden.len() + 1);
    let config = boxed(MlpConfig { inputs: 3, hidden, outputs, ..MlpConfig::default() });
    let plan = LayerPlan::dense().custom(&head, slot);
    let counted = cost(&trace(&config.network().unwrap(), &[3]).unwrap(), &plan, Counting::Ours).unwrap();
    let stored: usize = store.variables().values().map(Tensor::numel).sum();
    assert_eq!(stored, 0);
    let network = config.init(&store.root(), &plan, Key::new(3)).unwrap();
    let (trained, all) = (store.trainable_variables(), store.variables());
    assert_eq!(counted.parameters, trained.iter().map(Tensor::numel).sum::<usize>() as i64, "{shown}");
    assert_eq!(counted.parameters + counted.state, all.values().map(Tensor::numel).sum::<usize>() as i64, "{shown}");
    (network, counted.parameters)
}

fn head(network: &dyn Network) -> &dyn CustomWeight {
    network.slots().pop().and_then(Slot::custom).expect("a head")
}

fn shown(inputs: Tensor, targets: Tensor, curvature: Tensor) -> FitData {
    FitData { inputs, targets, curvature, curvatures: None }
}

fn gap(a: &Tensor, b: &Tensor) -> f64 {
    (a.to_kind(Kind::Double) - b.to_kind(Kind::Double)).abs().max().double_value(&[])
}

#[test]
fn every_output_of_an_svgp_head_is_the_whitened_process() {
    let store = VarStore::new(Device::Cpu);
    let config = SvgpConfig { inducing_points: Some(4), samples: 1 };
    let head = SvgpHead::init(&store.root(), [2, 3], "fc", &config, Key::new(1)).unwrap();
    let variable = |name: &str| store.variables()[name].shallow_clone();
    tch::no_grad(|| {
        for name in ["inducing_mean", "inducing_root", "constant"] {
            variable(name).copy_(&(normal(name, &variable(name).size()) * 0.4));
        }
        let _ = variable("log_lengthscale").fill_(0.3);
        let _ = variable("log_outputscale").fill_(0.5);
    });
    let (x, unit) = (normal("x", &[6, 3]), 3_f64.sqrt()); // parameters are in units of √n
    let (mean, variance) = tch::no_grad(|| head.marginal(&x, Check::Now).unwrap());
    let kernel = Rbf { lengthscale: 0.3_f64.exp(), outputscale: 0.5_f64.exp() };
    let mut kl = 0.0;
    for k in 0..2 {
        let root = variable("inducing_root").get(k);
        let lower = Tensor::zeros([4, 4], (Kind::Double, Device::Cpu));
        let mut next = 0;
        for row in 0..4 {
            for col in 0..=row {
                let value = root.double_value(&[next]) * unit;
                let _ = lower.get(row).get(col).fill_(if row == col { value.exp() } else { value });
                next += 1;
            }
        }
        let process = WhitenedSvgp {
            kernel,
            jitter: 1e-4 * kernel.outputscale,
            inducing_points: variable("inducing_points").to_kind(Kind::Double).detach(),
            mean: variable("inducing_mean").get(k).to_kind(Kind::Double).detach() * unit,
            lower,
        };
        let exact = process.predict(&x.to_kind(Kind::Double)).unwrap();
        kl += process.kl().unwrap().double_value(&[]);
        assert!(gap(&mean.select(1, k), &(exact.mean + variable("constant").double_value(&[k]))) < 1e-4);
        assert!(gap(&variance.select(1, k), &exact.covariance.diagonal(0, 0, 1)) < 1e-3);
    }
    assert!((head.kl().double_value(&[]) - kl).abs() < 1e-4 * kl.abs());
}

#[test]
fn an_svgp_head_gives_blocks_of_draws_in_training_and_every_parameter_learns() {
    let store = VarStore::new(Device::Cpu);
    let (network, _) = build(&store, vec![5], 2, svgp(4));
    let x = normal("x", &[6, 3]);
    let mut pass = noisy(Mode::Train, 1);
    let outputs = network.forward(&x, &mut pass).unwrap();
    assert_eq!(outputs.size(), [18, 2]); // three draws
    assert!(gap(&outputs.narrow(0, 0, 6), &outputs.narrow(0, 6, 6)) > 1e-3);
    let kl = &pass.kl()[0].1.inducing;
    let start = 2.0 * 4.0 * (0.5 * (0.01 - 1.0) - 0.1_f64.ln()); // whitened, N(0, 0.1²) at two times four points
    assert!((kl.double_value(&[]) - start).abs() < 1e-3);
    (outputs.square().sum(Kind::Float) + kl).backward();
    for (name, tensor) in store.variables() {
        assert!(tensor.grad().defined() && tensor.grad().abs().max().double_value(&[]) > 0.0, "{name}");
    }
    assert_eq!(network.forward(&x, &mut noisy(Mode::Eval, 1)).unwrap().size(), [6, 2]);
}

#[test]
fn an_svgp_head_that_cannot_be_evaluated_is_named_before_any_draw() {
    let store = VarStore::new(Device::Cpu);
    let (network, _) = build(&store, vec![5], 2, svgp(4));
    let draws = || Draws::new(network.as_ref(), 2, Key::new(1)).map(|_| ());
    draws().unwrap();
    let _ = tch::no_grad(|| store.variables()["fc2.log_outputscale"].shallow_clone().fill_(f64::NAN));
    assert!(draws().unwrap_err().to_string().contains("fc2.K_zz"));
}

#[test]
fn inducing_points_start_in_the_middle_of_clusters() {
    let store = VarStore::new(Device::Cpu);
    let (network, _) = build(&store, vec![], 2, svgp(2));
    let head = head(network.as_ref());
    assert_eq!(head.fit_phase(), Some(FitPhase::Start));
    let (left, right) = (normal("a", &[20, 3]) * 0.1 - 4.0, normal("b", &[20, 3]) * 0.1 + 4.0);
    let mixed = Tensor::stack(&[&left, &right], 1).view([40, 3]);
    let none = || Tensor::zeros([40], (Kind::Int64, Device::Cpu));
    head.fit_posthoc(&shown(mixed.shallow_clone(), none(), Tensor::zeros([2, 2], (Kind::Double, Device::Cpu))))
        .unwrap();
    let points = store.variables()["fc1.inducing_points"].detach();
    let middles = Tensor::stack(&[left.mean_dim(0, false, Kind::Float), right.mean_dim(0, false, Kind::Float)], 0);
    assert!(gap(&points, &middles) < 1e-4);
    let lengthscale = store.variables()["fc1.log_lengthscale"].double_value(&[]).exp();
    assert!((lengthscale - mixed.pdist(2.0).mean(Kind::Float).double_value(&[])).abs() < 1e-3);
    let alike = Tensor::ones([40, 3], (Kind::Float, Device::Cpu));
    let refused = head.fit_posthoc(&shown(alike, none(), Tensor::zeros([2, 2], (Kind::Double, Device::Cpu))));
    assert!(refused.unwrap_err().to_string().contains("differ from each other"));
}

#[test]
fn a_ddu_head_is_the_plain_layer_and_knows_the_density_of_its_inputs() {
    let (plain, store) = (VarStore::new(Device::Cpu), VarStore::new(Device::Cpu));
    let config = boxed(MlpConfig { inputs: 3, hidden: vec![], outputs: 2, ..MlpConfig::default() });
    let dense = config.init(&plain.root(), &LayerPlan::dense(), Key::new(3)).unwrap();
    let (network, _) = build(&store, vec![], 2, Density);
    let x = normal("x", &[40, 3]);
    let labels: Vec<i64> = (0..40).map(|i| i % 2).collect();
    let curvature = Tensor::eye(2, (Kind::Double, Device::Cpu));
    let head = head(network.as_ref());
    let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&[LOG_DENSITY]));
    _ = network.forward(&x, &mut pass).unwrap();
    assert!(pass.taps.feature(LOG_DENSITY).is_none()); // not settled yet: no density
    head.fit_posthoc(&shown(x.shallow_clone(), Tensor::from_slice(&labels), curvature.shallow_clone())).unwrap();
    let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&[LOG_DENSITY]));
    let outputs = network.forward(&x, &mut pass).unwrap();
    assert!(gap(&outputs, &dense.forward(&x, &mut Pass::plain(Mode::Eval)).unwrap()) < 1e-6);
    let expected = ClassGaussians::fit(&x.to_kind(Kind::Double), &labels).unwrap().score(&x.to_kind(Kind::Double));
    let found = pass.taps.feature(LOG_DENSITY).unwrap();
    assert!(gap(found, &expected.unwrap()) < 1e-4);
    let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&[LOG_DENSITY]));
    _ = network.forward(&(&x + 50.0), &mut pass).unwrap();
    assert!(pass.taps.feature(LOG_DENSITY).unwrap().max().double_value(&[]) < found.min().double_value(&[]));
    // a class without examples is no part of the density, one with a single example is an error
    let (one, zeros) =
        (Tensor::ones([40], (Kind::Int64, Device::Cpu)), Tensor::zeros([40], (Kind::Int64, Device::Cpu)));
    head.fit_posthoc(&shown(x.shallow_clone(), one, curvature.shallow_clone())).unwrap();
    let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&[LOG_DENSITY]));
    _ = network.forward(&x, &mut pass).unwrap();
    let single = ClassGaussians::fit(&x.to_kind(Kind::Double), &[0; 40]).unwrap().score(&x.to_kind(Kind::Double));
    assert!(gap(pass.taps.feature(LOG_DENSITY).unwrap(), &single.unwrap()) < 1e-4);
    let _ = zeros.get(0).fill_(1);
    assert!(head.fit_posthoc(&shown(x, zeros, curvature)).is_err());
}

#[test]
fn laplace_on_a_linear_gaussian_model_is_the_exact_posterior() {
    exact_on_a_linear_gaussian_model(Structure::Kronecker);
}

#[test]
fn laplace_with_the_whole_curvature_is_it_too() {
    exact_on_a_linear_gaussian_model(Structure::Full);
}

fn exact_on_a_linear_gaussian_model(structure: Structure) {
    let store = VarStore::new(Device::Cpu);
    let (precision, noise) = (0.7, 0.5_f64);
    let slot = LaplaceConfig { structure, prior_precision: Some(precision) };
    let (network, _) = build(&store, vec![], 1, slot);
    let x = normal("x", &[15, 3]).to_kind(Kind::Double);
    let one = |x: &Tensor| Tensor::cat(&[x.shallow_clone(), x.ones_like().narrow(1, 0, 1)], 1);
    let phi = one(&x);
    let y = phi.matmul(&normal("w", &[4, 1]).to_kind(Kind::Double)) + normal("e", &[15, 1]) * noise;
    let eye = Tensor::eye(4, (Kind::Double, Device::Cpu));
    let covariance = (phi.mt().matmul(&phi) / (noise * noise) + eye * precision).inverse();
    let best = covariance.matmul(&phi.mt().matmul(&y)) / (noise * noise); // [4, 1]
    tch::no_grad(|| {
        store.variables()["fc1.weight"].shallow_clone().copy_(&best.narrow(0, 0, 3).mt());
        store.variables()["fc1.bias"].shallow_clone().copy_(&best.narrow(0, 3, 1).view([1]));
    });
    let at = normal("at", &[4, 3]);
    let before = network.forward(&at, &mut noisy(Mode::Eval, 3)).unwrap();
    let mean = network.forward(&at, &mut Pass::plain(Mode::Eval)).unwrap();
    assert!(gap(&before, &mean) < 1e-6); // not settled yet: no doubt
    let each = Curvature { diagonal: x.ones_like().narrow(1, 0, 1) / (noise * noise), outer: None };
    let curvature = each.sum();
    let (targets, curvatures) = (y.view([-1]), Some(each));
    head(network.as_ref()).fit_posthoc(&FitData { inputs: x, targets, curvature, curvatures }).unwrap();
    let design = one(&at.to_kind(Kind::Double));
    assert!(gap(&mean, &design.matmul(&best)) < 1e-5);
    let exact = design.matmul(&covariance).matmul(&design.mt()); // [4, 4]
    let draws = 8000;
    let drawn = (0..draws).map(|k| network.forward(&at, &mut noisy(Mode::Eval, k)).unwrap().detach());
    let drawn = Tensor::cat(&drawn.collect::<Vec<_>>(), 1).to_kind(Kind::Double); // [4, draws]
    let found = drawn.cov(1, None::<Tensor>, None::<Tensor>);
    // an entry of a covariance of n draws has deviation at most √(2/n) of the product of the deviations
    let sds = exact.diagonal(0, 0, 1).sqrt();
    let relative = (&found - &exact) / (sds.unsqueeze(0) * sds.unsqueeze(1));
    assert!(relative.abs().max().double_value(&[]) < 4.5 * (2.0 / draws as f64).sqrt(), "{found} {exact}");
    let away = (drawn.mean_dim(1, false, Kind::Double) - mean.view([-1])) / sds;
    assert!(away.abs().max().double_value(&[]) < 4.5 / (draws as f64).sqrt());
    assert_eq!(network.forward(&at, &mut noisy(Mode::Train, 3)).unwrap(), mean); // trained as a plain layer
}

#[test]
fn heads_are_for_linear_layers_and_settings_are_checked() {
    let config = boxed(fidgp_zoo::ResnetConfig { width: 4, ..fidgp_zoo::ResnetConfig::default() });
    let heads: [Arc<dyn MakeWeight>; 3] = [Arc::new(Density), Arc::new(svgp(4)), Arc::new(LaplaceConfig::default())];
    for slot in heads {
        let plan = LayerPlan::dense().rule("conv1", None, RuleSlot::Custom(slot));
        let error = config.init(&VarStore::new(Device::Cpu).root(), &plan, Key::new(1)).unwrap_err().to_string();
        assert!(error.contains("linear layer only"), "{error}");
    }
    let wide = MlpConfig { hidden: vec![], inputs: 500, outputs: 9, ..MlpConfig::default() };
    let full = LaplaceConfig { structure: Structure::Full, prior_precision: None };
    let plan = LayerPlan::dense().custom("fc1", full);
    let error = boxed(wide).init(&VarStore::new(Device::Cpu).root(), &plan, Key::new(1)).unwrap_err();
    assert!(error.to_string().contains("at most 4096 weights, this one has 4509"), "{error}");
    assert!(SvgpConfig { inducing_points: Some(0), samples: 1 }.check().is_err());
    assert!(SvgpConfig { inducing_points: None, samples: 0 }.check().is_err());
}

/// The functions are those that `fidgp verify` holds against golden numbers.
#[test]
fn an_sngp_head_computes_what_the_golden_functions_do() {
    for lengthscale in [1.0, 2.5] {
        let settings = SngpConfig { features: 32, ridge: 0.5, mean_field_factor: 3.0, lengthscale };
        let store = VarStore::new(Device::Cpu);
        let (network, _) = build(&store, vec![], 2, settings);
        let (seen, x) = (normal("seen", &[40, 3]), normal("x", &[7, 3]));
        let targets = Tensor::zeros([40], (Kind::Int64, Device::Cpu));
        let curvature = Tensor::eye(2, (Kind::Double, Device::Cpu));
        head(network.as_ref()).fit_posthoc(&shown(seen.shallow_clone(), targets, curvature)).unwrap();
        let found = network.forward(&x, &mut Pass::plain(Mode::Eval)).unwrap();
        let part = |name: &str| store.variables()[&format!("fc1.{name}")].to_kind(Kind::Double).detach();
        let phi = |x: &Tensor| {
            sngp::random_features(&x.to_kind(Kind::Double), &part("random_weight"), &part("random_bias")).unwrap()
        };
        let unit = 3.0_f64.sqrt(); // stored is β/√n
        let logits = phi(&x).matmul(&(part("output_weight") * unit).mt()) + part("output_bias");
        let variance = sngp::variance(&phi(&x), &sngp::precision(&phi(&seen), 0.5).unwrap()).unwrap();
        let expected = sngp::mean_field_logits(&logits, &variance, 3.0).unwrap();
        assert!(gap(&found, &expected) < 1e-5, "{settings:?}: {}", gap(&found, &expected));
        assert!(gap(&found, &logits) > 1e-2, "tempered by a variance that matters");
        // random weights of deviation 1/(ℓ√n), of 96 numbers: within four standard errors
        let spread = part("random_weight").square().mean(Kind::Double).sqrt().double_value(&[]) * lengthscale * unit;
        assert!((spread - 1.0).abs() < 4.0 / (2.0 * 96.0_f64).sqrt(), "{settings:?}: {spread}");
    }
    let wrong = |lengthscale: f64| SngpConfig { lengthscale, ..SngpConfig::default() }.check().is_err();
    assert!(wrong(0.0) && wrong(-1.0) && wrong(f64::NAN));
}
