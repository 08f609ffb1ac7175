//! What a user can get wrong ends in an error that names the layer and the value, never in a panic.

use fidgp::conditional::{Conditional, ConditionalKl, NoiseOn};
use fidgp::flow::{CouplingConfig, DiagonalConfig, FlowConfig};
use fidgp::layer::{Conv2d, Conv2dConfig, Factors, Linear, Mode, Network, Pass, SlotConfig};
use fidgp::linalg::Check;
use fidgp::objective::{Gaussian, NoiseConfig};
use fidgp::posterior::PosteriorConfig;
use fidgp::predict::{Draws, classify, regress};
use fidgp::weight::{InducingConfig, InducingWeight};
use fidgp::{Error, Key};
use tch::nn::VarStore;
use tch::{Kind, Tensor};

use crate::common::{Net, config, inducing, normal, reparam, store};

#[track_caller]
fn assert_says<T: std::fmt::Debug>(result: Result<T, Error>, parts: &[&str]) {
    let message = result.unwrap_err().to_string();
    assert!(parts.iter().all(|part| message.contains(part)), "{message:?} lacks one of {parts:?}");
}

fn init(config: &InducingConfig) -> Result<InducingWeight, Error> {
    InducingWeight::init(&(store(Kind::Double).root() / "block" / "fc"), 4, 5, config, Key::new(150))
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let base = config();
    let cases = [
        (InducingConfig { inducing_rows: 0.into(), ..base.clone() }, ["inducing_rows", "0x2"]),
        (InducingConfig { inducing_cols: (-1).into(), ..base.clone() }, ["inducing_cols", "3x-1"]),
        (InducingConfig { init_lamda: 0.9, max_lamda: Some(0.9), ..base.clone() }, ["init_lamda", "0.9"]),
        (InducingConfig { init_lamda: 1.2, max_lamda: Some(0.9), ..base.clone() }, ["init_lamda", "1.2"]),
        (InducingConfig { init_lamda: 0.0, ..base.clone() }, ["init_lamda", "0"]),
        (InducingConfig { init_lamda: f64::NAN, ..base.clone() }, ["init_lamda", "NaN"]),
        (InducingConfig { lamda_penalty: -1.0, ..base.clone() }, ["lamda_penalty", "-1"]),
        (InducingConfig { init_sd_u: 2.0, ..base.clone() }, ["init_sd_u", "2"]),
        (
            InducingConfig { init_sd_u: -2.0, posterior: PosteriorConfig::MatrixNormal, ..base.clone() },
            ["init_sd_u", "-2"],
        ),
        (InducingConfig { prior_sd: 0.0, ..base.clone() }, ["prior_sd", "0"]),
        (InducingConfig { jitter: -1e-3, ..base.clone() }, ["jitter", "-0.001"]),
        (InducingConfig { init_d: 0.0, ..base.clone() }, ["init_d", "0"]),
        (InducingConfig { noise: NoiseOn::Outputs, ..base.clone() }, ["noise", "outputs"]),
        (InducingConfig { conditional_kl: ConditionalKl::Exact, ..base.clone() }, ["conditional_kl", "exact"]),
        (InducingConfig { posterior: PosteriorConfig::Ensemble { members: 0 }, ..base.clone() }, ["members", "0"]),
        (
            InducingConfig { posterior: PosteriorConfig::Full, whitened_u: false, ..base.clone() },
            ["whitened_u", "false"],
        ),
    ];
    for (config, parts) in cases {
        assert_says(init(&config), &["block.fc", parts[0], parts[1]]);
    }
}

#[test]
fn flow_settings_are_refused_with_the_layers_name() {
    let flow = |flow| InducingConfig { posterior: PosteriorConfig::Flow { flow }, ..config() };
    assert_says(init(&flow(FlowConfig::Diagonal(DiagonalConfig { slope: 1.0 }))), &["block.fc", "slope", "1"]);
    let coupling = InducingConfig { inducing_cols: 1.into(), ..flow(FlowConfig::Coupling(CouplingConfig::default())) };
    assert_says(init(&coupling), &["block.fc", "coupling"]);
}

#[test]
fn impossible_geometry_is_refused() {
    let base = Conv2dConfig::same(4, 6, 3);
    let cases = [
        (Conv2dConfig { groups: 4, ..base }, "groups"),
        (Conv2dConfig { groups: 0, ..base }, "groups"),
        (Conv2dConfig { stride: [0, 1], ..base }, "stride"),
        (Conv2dConfig { dilation: [1, 0], ..base }, "dilation"),
        (Conv2dConfig { kernel: [0, 3], ..base }, "kernel"),
        (Conv2dConfig { padding: [0, -1], ..base }, "padding"),
        (Conv2dConfig { in_channels: 0, ..base }, "in_channels"),
        (Conv2dConfig { out_channels: -2, ..base }, "out_channels"),
    ];
    for (geometry, setting) in cases {
        for slot in [SlotConfig::Dense, inducing(&config())] {
            let store = store(Kind::Double);
            assert_says(Conv2d::init(&(store.root() / "conv"), geometry, &slot, Key::new(151)), &["conv", setting]);
        }
    }
    for (inputs, outputs, setting) in [(0, 3, "in_features"), (3, 0, "out_features"), (-1, 3, "in_features")] {
        let store = store(Kind::Double);
        let linear = Linear::init(&(store.root() / "fc"), inputs, outputs, true, &inducing(&config()), Key::new(152));
        assert_says(linear, &["fc", setting]);
    }
}

fn small_net(config: &InducingConfig) -> (VarStore, Net) {
    let store = store(Kind::Double);
    let net = Net::init(&store, [3, 4, 2], &inducing(config), Key::new(153)).unwrap();
    (store, net)
}

fn forward(net: &Net, x: &Tensor) -> Result<Tensor, Error> {
    let mut pass = Pass::draw(&net.inducing(), &net.factors(), Mode::Eval, Key::new(154))?;
    net.forward(x, &mut pass)
}

#[test]
fn inputs_of_the_wrong_shape_or_kind_are_refused() {
    for config in [config(), reparam(NoiseOn::Outputs)] {
        let (_store, net) = small_net(&config);
        assert_says(forward(&net, &normal(Key::new(155), &[5, 4])), &["fc1", "[5, 4]", "3"]);
        assert!(forward(&net, &normal(Key::new(155), &[5, 3]).to_kind(Kind::Float)).is_err());
        assert!(forward(&net, &Tensor::from(1.0)).is_err());
    }
    for noise in [NoiseOn::Weights, NoiseOn::Outputs] {
        let (_store, conv) = crate::convolution::conv(
            Conv2dConfig { padding: [0; 2], ..Conv2dConfig::same(4, 6, 3) },
            &reparam(noise),
            156,
        );
        let mut pass = crate::convolution::draw(conv.slot.inducing().unwrap(), Key::new(157));
        assert_says(conv.forward(&normal(Key::new(158), &[2, 3, 5, 5]), &mut pass), &["layer", "[2, 3, 5, 5]", "4"]);
        assert_says(conv.forward(&normal(Key::new(158), &[4, 5, 5]), &mut pass), &["layer", "[4, 5, 5]"]);
        assert!(conv.forward(&normal(Key::new(158), &[1, 4, 2, 5]), &mut pass).is_err()); // smaller than the kernel
        assert!(conv.forward(&normal(Key::new(158), &[1, 4, 5, 5]).to_kind(Kind::Float), &mut pass).is_err());
    }
}

#[test]
fn a_pass_of_other_weights_is_refused_by_layer() {
    let (_store, net) = small_net(&config());
    let weights = net.inducing();
    let first = &weights[..1];
    let factors = Factors::of(first, Check::Now).unwrap();
    let mut pass = Pass::draw(first, &factors, Mode::Eval, Key::new(159)).unwrap();
    assert_says(net.forward(&normal(Key::new(160), &[5, 3]), &mut pass), &["fc2", "not drawn"]);
    assert_says(Pass::draw(&weights, &factors, Mode::Eval, Key::new(161)), &["fc1", "elsewhere"]);
    assert_says(Pass::draw(&weights[1..], &factors, Mode::Eval, Key::new(161)), &["fc2", "no factors"]);
    let turned = [weights[1], weights[0]];
    assert_says(Pass::draw(&turned, &net.factors(), Mode::Eval, Key::new(162)), &["fc2", "elsewhere"]);
}

/// Whatever parameter is not finite, prediction refuses and names the layer.
#[test]
fn a_parameter_that_is_not_finite_is_named() {
    let flow = InducingConfig { posterior: PosteriorConfig::Flow { flow: FlowConfig::default() }, ..config() };
    let names: Vec<String> =
        small_net(&flow).0.variables().into_keys().filter(|name| name.starts_with("fc2.")).collect();
    assert!(names.len() > 10);
    for name in names.iter().filter(|name| !name.ends_with("left") && !name.ends_with("right")) {
        for bad in [f64::NAN, f64::INFINITY] {
            let (store, net) = small_net(&flow);
            tch::no_grad(|| {
                let variable = &store.variables()[name];
                let _ = variable.view(-1).get(0).fill_(bad);
            });
            match Draws::new(&net, 2, Key::new(162)) {
                Ok(_) => panic!("{name} = {bad} went unnoticed"),
                Err(error) => assert!(error.to_string().contains("fc2"), "{name}: {error}"),
            }
        }
    }
}

#[test]
fn matheron_needs_gram_factors() {
    let (_store, weight) = crate::common::weight((4, 5), &config(), 163);
    let omitted = weight.prior.factors(fidgp::linalg::Jitter::FIDGP, fidgp::prior::Grams::Omitted).unwrap();
    let noise = weight.noise(Key::new(164), false);
    assert!(weight.draw(&omitted, &noise).is_err());
    assert_eq!(weight.config.conditional, Conditional::Matheron);
}

#[test]
fn prediction_refuses_what_it_cannot_use() {
    let (store, net) = small_net(&config());
    assert_says(Draws::new(&net, 0, Key::new(165)).map(|_| ()), &["draws", "0"]);
    let draws = Draws::new(&net, 2, Key::new(166)).unwrap();
    let x = normal(Key::new(167), &[5, 3]);
    let labels = |count: usize, label: i64| Tensor::from_slice(&vec![label; count]);
    assert_says(classify(&draws, &[x.copy()], Some(&labels(4, 0))).map(|_| ()), &["labels", "[4]", "5"]);
    assert!(classify(&draws, &[x.copy()], Some(&labels(5, 2))).is_err()); // two classes: 0 and 1
    assert_says(classify(&draws, &[], None).map(|_| ()), &["batches", "0"]);
    let likelihood = Gaussian::init(&store.root(), NoiseConfig::Fixed { sd: 0.1 }).unwrap();
    assert_says(regress(&draws, &likelihood, &[]).map(|_| ()), &["batches", "0"]);
    assert!(regress(&draws, &likelihood, &[normal(Key::new(168), &[5, 4])]).is_err());
}

#[test]
fn a_likelihood_needs_a_positive_deviation() {
    let store = store(Kind::Double);
    for sd in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_says(Gaussian::init(&store.root(), NoiseConfig::Fixed { sd }), &["noise"]);
        assert_says(Gaussian::init(&store.root(), NoiseConfig::Learnt { init_sd: sd }), &["noise"]);
    }
}
