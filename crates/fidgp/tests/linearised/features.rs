//! Readouts of features, the law of classes, norms, and the alignment of the columns with the inputs.

use fidgp::Key;
use fidgp::layer::{
    BatchNorm, Conv2d, Conv2dConfig, Factors, Layer, LayerNorm, Linear, Mode, Network, Pass, SlotConfig, Taps,
};
use fidgp::linalg::Check;
use fidgp::linearised::{
    Directions, FitConfig, LinearisedLaw, LogitRule, Observed, StructureKind, Tangent, fit, unexplained,
};
use fidgp::objective::categorical_curvature;
use fidgp::predict::{Batch, Effort, PredictiveLaw};
use tch::{Kind, Tensor};

use super::kinds::by_differences;
use super::networks::{
    Convolutions, Mlp, by_inducing, covariances, eye, fitted, gap, inducing, jacobian, normal, store,
};

fn features(network: &dyn Network) -> Tangent<'_> {
    let mut tangent = Tangent::at_centre(network, &[]).unwrap();
    tangent.directions = Directions::Features;
    tangent
}

/// The variance is `Σ_layers φ(δI + s ΦᵀΦ)⁻¹φ`, made densely; its mean on the training inputs is the one asked for.
#[test]
fn readouts_of_features_have_the_variance_of_their_own_regression() {
    let store = store();
    let network = Convolutions::new(&store, &inducing(3, 4));
    let (train, at) = (normal("train", &[30, 2, 9, 8]), normal("at", &[6, 2, 9, 8]) * 3.0);
    let tangent = features(&network);
    let config = |structure| FitConfig { structure, variance: 0.7, ..FitConfig::default() };
    let posterior = fitted(&tangent, &train, None, &config(StructureKind::Kronecker));
    let own = |posterior: &_, x: &Tensor| covariances(posterior, &tangent, x);
    assert_eq!(own(&posterior, &at).size(), [6, 1, 1]);
    assert!((own(&posterior, &train).mean(Kind::Double).double_value(&[]) - 0.7).abs() < 1e-9);
    let (phi, there) = (jacobian(&tangent, &train), jacobian(&tangent, &at));
    let (mut expected, mut first) = (Tensor::zeros([6], (Kind::Double, at.device())), 0);
    for layer in tangent.layers() {
        let width = layer.col.size()[0];
        let cut = |t: &Tensor| t.select(1, 0).narrow(1, first, width);
        let (phi, there) = (cut(&phi), cut(&there));
        assert!(
            gap(
                &there.square().sum_dim_intlist(1, false, Kind::Double),
                &Tensor::ones([6], (Kind::Double, at.device()))
            ) < 1e-12
        );
        let precision = eye(width) * posterior.precision.prior + phi.mt().matmul(&phi) * posterior.precision.curvature;
        expected += (there.matmul(&precision.inverse()) * &there).sum_dim_intlist(1, false, Kind::Double);
        first += width;
    }
    assert!(gap(&own(&posterior, &at).view([-1]), &expected) < 1e-9 * expected.max().double_value(&[]));
    let dense = fitted(&tangent, &train, None, &config(StructureKind::Dense));
    assert!((own(&dense, &train).mean(Kind::Double).double_value(&[]) - 0.7).abs() < 1e-9);
}

/// A temperature divides the logits *and* what is added to them: the law is that of draws of logits over T.
#[test]
fn a_temperature_divides_what_features_add_too() {
    const T: f64 = 1.7;
    let store = store();
    let network = Convolutions::new(&store, &inducing(3, 4));
    let (train, at) = (normal("train", &[30, 2, 9, 8]), [normal("at", &[6, 2, 9, 8])]);
    let mut tangent = features(&network);
    let config = FitConfig { structure: StructureKind::Kronecker, variance: 4.0, ..FitConfig::default() };
    let posterior = fitted(&tangent, &train, None, &config);
    let plain = posterior.variance(&tangent, &at).unwrap();
    let drawn = posterior.logits(&tangent, &at, 8, Key::new(2)).unwrap() - tangent.outputs(&at[0]).unwrap();
    tangent.temperature = T;
    assert!(gap(&(posterior.variance(&tangent, &at).unwrap() * (T * T)), &plain) < 1e-9);
    let cooled = posterior.logits(&tangent, &at, 8, Key::new(2)).unwrap() - tangent.outputs(&at[0]).unwrap();
    assert!(drawn.abs().max().double_value(&[]) > 0.1 && gap(&(cooled * T), &drawn) < 1e-6);
}

/// Draws of the logits against draws of the inducing matrices themselves, in the linear network: within standard errors.
#[test]
fn draws_of_logits_are_draws_of_the_weights() {
    const COUNT: i64 = 3000;
    let store = store();
    let network = Mlp::new(&store, &[3, 6, 4], &inducing(4, 3));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let train = normal("train", &[25, 3]);
    let observe =
        |_: usize, _: i64, outputs: &Tensor| Ok(Observed { curvature: categorical_curvature(outputs), misfit: None });
    let config = FitConfig { structure: StructureKind::Dense, ..FitConfig::default() };
    let posterior = fit(&tangent, &mut std::iter::once(Ok(train.shallow_clone())), 25, &observe, &config).unwrap();
    let p = tangent.outputs(&train).unwrap().softmax(-1, Kind::Double);
    let lambda = p.diag_embed(0, -2, -1) - p.unsqueeze(-1) * p.unsqueeze(-2);
    let j = jacobian(&tangent, &train);
    let precision = eye(tangent.size()) + j.mt().matmul(&lambda.matmul(&j)).sum_dim_intlist(0, false, Kind::Double);
    let root = precision.inverse().linalg_cholesky(false);
    let at = normal("at", &[7, 3]) * 2.0;
    let (there, centre) = (jacobian(&tangent, &at), tangent.outputs(&at).unwrap());
    let noise = normal("draws", &[tangent.size(), COUNT]);
    let logits = there.matmul(&root.matmul(&noise)) + centre.unsqueeze(-1); // [7, K, COUNT]
    let draws = logits.softmax(1, Kind::Double);
    let mut law = LinearisedLaw::with_rule(posterior, LogitRule::Draws { count: COUNT, key: Key::new(4) }, None);
    let mut said =
        |network: &dyn Network| law.classify(network, Batch { inputs: &at, number: 0 }, Effort::default()).unwrap();
    let (classified, spent) = said(&network);
    let error = (draws.var_dim(2, true, false) * (2.0 / COUNT as f64)).sqrt();
    let away = ((&classified.probs - draws.mean_dim(2, false, Kind::Double)) / error).abs().max().double_value(&[]);
    assert!(away < 5.0, "{away} standard errors");
    assert!(spent.draws == COUNT as u64 && spent.error > 0.0 && spent.error < 0.02, "{spent:?}");
    assert_eq!(said(&network).0.probs, classified.probs, "the centre that was kept is the same");
}

#[derive(Debug)]
struct Normed(Conv2d, BatchNorm, LayerNorm, Linear);

fidgp::layers!(Normed: 0, 1, 2, 3);

impl Network for Normed {
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let h = self.1.forward(&self.0.forward(x, pass)?, pass)?.tanh();
        let h = h.flatten(2, 3).mean_dim(2, false, h.kind());
        self.3.forward(&self.2.forward(&h, pass)?, pass)
    }
}

#[test]
fn derivatives_go_through_norms() {
    let mut store = store();
    let slot = SlotConfig::Inducing(Box::new(inducing(3, 4)));
    let root = store.root();
    let (mut norm, mut layer_norm) = (BatchNorm::new("bn", 5).unwrap(), LayerNorm::new("ln", 5).unwrap());
    Layer::init(&mut norm, &(&root / "bn"), Key::new(6)).unwrap();
    Layer::init(&mut layer_norm, &(&root / "ln"), Key::new(7)).unwrap();
    let network = Normed(
        Conv2d::init(&(&root / "conv"), Conv2dConfig::same(2, 5, 3), &slot, Key::new(4)).unwrap(),
        norm,
        layer_norm,
        Linear::init(&(&root / "fc"), 5, 3, true, &slot, Key::new(5)).unwrap(),
    );
    store.double(); // running statistics too
    let x = normal("pictures", &[3, 2, 6, 5]);
    let found = jacobian(&Tangent::at_centre(&network, &[]).unwrap(), &x);
    assert!(gap(&found, &by_inducing(&network, &x)) < 1e-12);
    assert!(gap(&found, &by_differences(&network, &x)) < 1e-7);
}

/// The share of the inputs that the columns leave, of all layers, by factors made anew.
fn left(network: &dyn Network, x: &Tensor) -> Tensor {
    let weights = network.inducing();
    let factors = Factors::of(&weights, Check::Now).unwrap();
    let names: Vec<_> = weights.iter().map(|weight| weight.name.as_str()).collect();
    let mut pass = Pass::mean(&weights, &factors, Mode::Eval).unwrap().with_taps(Taps::on(&names));
    let _ = network.forward(x, &mut pass).unwrap();
    unexplained(&weights, &factors, &pass.taps).unwrap().unwrap()
}

/// By hand: patches by `unfold`, one convolution, and its bias.
#[test]
fn what_is_unexplained_is_the_energy_of_the_patches_without_their_projection() {
    let store = store();
    let network = Convolutions::new(&store, &inducing(3, 4));
    let x = normal("pictures", &[3, 2, 9, 8]);
    let weights = network.inducing();
    let factors = Factors::of(&weights, Check::Now).unwrap();
    let mut pass = Pass::mean(&weights, &factors, Mode::Eval).unwrap().with_taps(Taps::on(&["conv0"]));
    let _ = network.forward(&x, &mut pass).unwrap();
    let found = unexplained(&weights, &factors, &pass.taps).unwrap().unwrap().double_value(&[]);
    let patches = x.im2col([3, 3], [1, 1], [1, 1], [2, 2]).mt().reshape([-1, 18]);
    let patches = Tensor::cat(&[&patches, &Tensor::ones([patches.size()[0], 1], (Kind::Double, x.device()))], 1);
    let a_col = factors.get("conv0").unwrap().a_col.shallow_clone();
    let energy = |t: &Tensor| t.square().sum(Kind::Double).double_value(&[]);
    let expected = 1.0 - energy(&patches.matmul(&a_col.mt())) / energy(&patches);
    assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    assert!(found > 0.05 && found < 1.0, "{found}");
    let whole = Mlp::new(&super::networks::store(), &[3, 5], &super::networks::whole());
    assert!(left(&whole, &normal("x", &[9, 3])).double_value(&[]).abs() < 1e-5, "all columns explain everything");
}

#[test]
fn alignment_moves_the_columns_to_the_inputs() {
    let store = store();
    let network = Mlp::new(&store, &[6, 8], &inducing(4, 2)); // one layer: its inputs stay as they are
    let x = normal("inputs", &[40, 2]).matmul(&normal("plane", &[2, 6]));
    let z = || network.inducing()[0].prior.z_col.shallow_clone();
    let gradient = Tensor::run_backward(&[&left(&network, &x)], &[z()], false, false).remove(0);
    let flat = tch::no_grad(|| z().view([-1]));
    for entry in [0, 5, 13] {
        const STEP: f64 = 1e-3; // sums are in f32
        let moved = |by: f64| {
            let _ = tch::no_grad(|| flat.get(entry).g_add_scalar_(by));
            left(&network, &x).double_value(&[])
        };
        let difference = (moved(STEP) - moved(-2.0 * STEP)) / (2.0 * STEP);
        moved(STEP);
        let found = gradient.reshape([-1]).double_value(&[entry]);
        assert!(
            (found - difference).abs() < 2e-3 * gradient.abs().max().double_value(&[]).max(0.1),
            "{found} {difference}"
        );
    }
    let before = left(&network, &x).double_value(&[]);
    for _ in 0..100 {
        let gradient = Tensor::run_backward(&[&left(&network, &x)], &[z()], false, false).remove(0);
        let _ = tch::no_grad(|| z().g_add_(&(gradient * -0.5)));
    }
    let after = left(&network, &x).double_value(&[]);
    assert!(after < 0.7 * before, "{before} {after}");
}
