//! The same seed gives the same draw, layer by layer, whatever else ran.

use fidgp::Key;
use fidgp::conditional::NoiseOn;
use fidgp::flow::FlowConfig;
use fidgp::layer::{Factors, Linear, Mode, Pass};
use fidgp::linalg::Check;
use fidgp::posterior::PosteriorConfig;
use fidgp::weight::{ConditionalNoise, InducingConfig, InducingWeight};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

use crate::common::{config, eye, inducing, reparam, store};

/// Three layers that draw in three ways.
fn layers() -> (VarStore, Vec<Linear>) {
    let store = store(Kind::Double);
    let ensemble = InducingConfig { posterior: PosteriorConfig::Ensemble { members: 3 }, ..reparam(NoiseOn::Weights) };
    let flow = InducingConfig { posterior: PosteriorConfig::Flow { flow: FlowConfig::compat() }, ..config() };
    let root = store.root();
    let layer = |(i, config): (usize, &InducingConfig)| {
        Linear::init(&(&root / "block" / i.to_string().as_str()), 4, 5, true, &inducing(config), Key::new(100)).unwrap()
    };
    let layers = [flow, ensemble, reparam(NoiseOn::Outputs)].iter().enumerate().map(layer).collect();
    (store, layers)
}

/// What the layers give for the rows of the identity, in the order in which they are drawn.
fn outputs(layers: &[&Linear], key: Key) -> Vec<(String, Tensor)> {
    let weights: Vec<&InducingWeight> = layers.iter().filter_map(|layer| layer.slot.inducing()).collect();
    let factors = Factors::of(&weights, Check::Now).unwrap();
    let mut pass = Pass::draw(&weights, &factors, Mode::Eval, key).unwrap();
    let output = |layer: &&Linear| (layer.slot.name().to_owned(), layer.forward(&eye(4), &mut pass).unwrap());
    layers.iter().map(output).collect()
}

#[test]
fn a_draw_depends_on_its_key_and_its_layer_alone() {
    let (_store, layers) = layers();
    let [a, b, c] = &layers[..] else { panic!("three layers") };
    let reference = outputs(&[a, b, c], Key::new(101));
    for order in [vec![c, b, a], vec![b], vec![c, a], vec![a]] {
        let _ = Tensor::randn([17], (Kind::Float, Device::Cpu)); // moves libtorch's own generator
        for (name, found) in outputs(&order, Key::new(101)) {
            let (_, expected) = reference.iter().find(|(other, _)| *other == name).unwrap();
            assert_eq!(&found, expected, "{name}");
        }
    }
}

#[test]
fn layers_steps_and_seeds_have_their_own_noise() {
    let (_store, layers) = layers();
    let layers: Vec<&Linear> = layers.iter().collect();
    let one = outputs(&layers, Key::new(102));
    for other in [outputs(&layers, Key::new(103)), outputs(&layers, Key::new(102).at(1))] {
        assert!(one.iter().zip(&other).all(|(a, b)| a.1 != b.1));
    }
}

/// Layers that differ in nothing but their name share no noise.
#[test]
fn equal_layers_draw_different_noise() {
    for config in [config(), reparam(NoiseOn::Weights)] {
        let store = store(Kind::Double);
        let root = store.root();
        let layer = |name: &str| InducingWeight::init(&(&root / name), 4, 5, &config, Key::new(107)).unwrap();
        let noise = |weight: &InducingWeight| {
            let noise = weight.noise(Key::new(108), false);
            let conditional = match noise.conditional {
                ConditionalNoise::Matheron(noise) => Tensor::cat(&[noise.weight.view([-1]), noise.row.view([-1])], 0),
                ConditionalNoise::Weights(noise) => noise.view([-1]),
                ConditionalNoise::Outputs => panic!("noise on weights"),
            };
            Tensor::cat(&[noise.inducing.epsilon.view([-1]), conditional], 0)
        };
        let (one, other) = (noise(&layer("one")), noise(&layer("other")));
        assert_eq!(one.unsqueeze(0).eq_tensor(&other.unsqueeze(1)).any().int64_value(&[]), 0);
        // nor do the parts of one draw
        let (_, _, counts) = one.unique_dim(0, true, false, true);
        assert_eq!(counts.max().int64_value(&[]), 1);
    }
}

#[test]
fn start_values_depend_on_the_key_and_the_name_alone() {
    let reference = layers().0.variables();
    let _ = Tensor::randn([3], (Kind::Float, Device::Cpu));
    let again = layers().0.variables();
    assert_eq!(reference.len(), again.len());
    assert!(reference.iter().all(|(name, value)| again[name] == *value));

    let alone = store(Kind::Double);
    Linear::init(&(alone.root() / "block" / "2"), 4, 5, true, &inducing(&reparam(NoiseOn::Outputs)), Key::new(100))
        .unwrap();
    assert!(alone.variables().iter().all(|(name, value)| reference[name] == *value));
    assert_ne!(reference["block.1.z_row"], reference["block.2.z_row"]);
}

/// A training pass moves power iterations, which are state of the flow; an evaluation pass moves nothing.
#[test]
fn an_evaluation_pass_changes_no_variable() {
    let (store, layers) = layers();
    let copy = || store.variables().into_iter().map(|(name, v)| (name, v.copy())).collect::<Vec<_>>();
    let before = copy();
    outputs(&layers.iter().collect::<Vec<_>>(), Key::new(104));
    let after = store.variables();
    assert!(before.iter().all(|(name, value)| after[name] == *value));
}

/// A pass with new output noise keeps its weights.
#[test]
fn set_noise_moves_the_outputs_and_not_the_weights() {
    let (_store, layers) = layers();
    let weights: Vec<&InducingWeight> = layers.iter().filter_map(|layer| layer.slot.inducing()).collect();
    let factors = Factors::of(&weights, Check::Now).unwrap();
    let mut pass = Pass::draw(&weights, &factors, Mode::Eval, Key::new(105)).unwrap();
    let all = |pass: &mut Pass| layers.iter().map(|l| l.forward(&eye(4), pass).unwrap()).collect::<Vec<_>>();
    let before = all(&mut pass);
    pass.set_noise(Key::new(106));
    let after = all(&mut pass);
    assert!(before[0] == after[0] && before[1] == after[1] && before[2] != after[2]);
}
