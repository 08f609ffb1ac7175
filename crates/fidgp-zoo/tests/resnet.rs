//! Names, shapes and gradients of the residual networks.

use std::collections::BTreeMap;

use fidgp::Key;
use fidgp::flow::{FlowConfig, MadeConfig};
use fidgp::layer::{Factors, Mode, Network, Pass, Taps, blocks_before_randomness};
use fidgp::linalg::Check;
use fidgp::posterior::PosteriorConfig;
use fidgp::predict::Draws;
use fidgp::weight::InducingConfig;
use fidgp_zoo::plan::PAPER_FOUR;
use fidgp_zoo::{Depth, LayerGeometry, LayerKind, LayerPlan, ResnetCifarConfig, ResnetConfig, Stem, trace};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

fn shapes(store: &VarStore) -> BTreeMap<String, Vec<i64>> {
    store.variables().into_iter().map(|(name, value)| (name, value.size())).collect()
}

/// The state dict of torchvision's resnet18 and resnet34, written out by its rules (without `num_batches_tracked`).
fn torchvision_basic(counts: [i64; 4]) -> BTreeMap<String, Vec<i64>> {
    let mut state = BTreeMap::new();
    let norm = |state: &mut BTreeMap<String, Vec<i64>>, name: &str, width: i64| {
        for part in ["weight", "bias", "running_mean", "running_var"] {
            state.insert(format!("{name}.{part}"), vec![width]);
        }
    };
    state.insert("conv1.weight".into(), vec![64, 3, 7, 7]);
    norm(&mut state, "bn1", 64);
    for (stage, width) in [64, 128, 256, 512].into_iter().enumerate() {
        for index in 0..counts[stage] {
            let name = format!("layer{}.{index}", stage + 1);
            let first = stage > 0 && index == 0;
            let inputs = if first { width / 2 } else { width };
            state.insert(format!("{name}.conv1.weight"), vec![width, inputs, 3, 3]);
            state.insert(format!("{name}.conv2.weight"), vec![width, width, 3, 3]);
            norm(&mut state, &format!("{name}.bn1"), width);
            norm(&mut state, &format!("{name}.bn2"), width);
            if first {
                state.insert(format!("{name}.downsample.0.weight"), vec![width, inputs, 1, 1]);
                norm(&mut state, &format!("{name}.downsample.1"), width);
            }
        }
    }
    state.insert("fc.weight".into(), vec![1000, 512]);
    state.insert("fc.bias".into(), vec![1000]);
    state
}

#[test]
fn resnet_18_and_34_have_torchvisions_names_and_shapes() {
    for (depth, counts, entries) in [(Depth::D18, [2; 4], 102), (Depth::D34, [3, 4, 6, 3], 182)] {
        let store = VarStore::new(Device::Cpu);
        ResnetConfig { depth, ..ResnetConfig::imagenet() }
            .init(&store.root(), &LayerPlan::dense(), Key::new(0))
            .unwrap();
        assert_eq!(shapes(&store), torchvision_basic(counts));
        // torchvision's own state dicts have 122 and 218 entries, 20 and 36 of them `num_batches_tracked`
        assert_eq!(store.variables().len(), entries);
    }
}

#[test]
fn resnet_50_has_bottlenecks_with_the_stride_in_the_middle() {
    let config = ResnetConfig { depth: Depth::D50, ..ResnetConfig::imagenet() };
    let layers = trace(&config.network().unwrap(), &[3, 224, 224]).unwrap();
    let total: i64 = layers.iter().map(LayerGeometry::dense_parameters).sum();
    assert_eq!(total, 25_557_032); // torchvision's resnet50
    let of = |name: &str| layers.iter().find(|layer| layer.name == name).unwrap();
    assert_eq!(of("layer1.0.downsample.0").weight(), Some((256, 64)));
    assert_eq!(of("layer2.0.conv1").output, [56, 56]);
    assert_eq!(of("layer2.0.conv2").output, [28, 28]);
    assert_eq!(of("layer4.2.conv3").weight(), Some((2048, 512)));
}

#[test]
fn forward_shapes_and_taps() {
    let store = VarStore::new(Device::Cpu);
    let small = ResnetConfig { width: 4, classes: 7, ..ResnetConfig::default() };
    let cifar = small.init(&(store.root() / "a"), &LayerPlan::dense(), Key::new(0)).unwrap();
    let config = ResnetConfig { stem: Stem::Imagenet, depth: Depth::D50, ..small };
    let imagenet = config.init(&(store.root() / "b"), &LayerPlan::dense(), Key::new(0)).unwrap();
    let x = Key::new(1).normal(&[2, 3, 64, 64], Kind::Float, Device::Cpu);
    let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&["a.layer2.1.conv2", "a.fc"]));
    assert_eq!(cifar.forward(&x, &mut pass).unwrap().size(), [2, 7]);
    assert_eq!(pass.taps.feature("a.layer2.1.conv2").unwrap().size(), [2, 8, 32, 32]);
    assert_eq!(pass.taps.input(cifar.head().unwrap()).unwrap().size(), [2, 32]);
    let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&["b.layer1.0.conv1", "b.layer4.2.conv3"]));
    assert_eq!(imagenet.forward(&x, &mut pass).unwrap().size(), [2, 7]);
    assert_eq!(pass.taps.feature("b.layer1.0.conv1").unwrap().size(), [2, 4, 16, 16]);
    assert_eq!(pass.taps.feature("b.layer4.2.conv3").unwrap().size(), [2, 128, 2, 2]);
    let layers = trace(&config.network().unwrap(), &[3, 64, 64]).unwrap();
    assert_eq!(layers.iter().find(|layer| layer.name == "layer4.2.conv3").unwrap().output, [2, 2]);
}

#[test]
fn resnet_20_forwards_and_its_depth_is_checked() {
    let store = VarStore::new(Device::Cpu);
    let net = ResnetCifarConfig::default().init(&store.root(), &LayerPlan::dense(), Key::new(0)).unwrap();
    let total: usize = store.trainable_variables().iter().map(Tensor::numel).sum();
    assert_eq!(total, 269_722); // the 0.27 M of the paper
    let x = Key::new(1).normal(&[2, 3, 32, 32], Kind::Float, Device::Cpu);
    assert_eq!(net.forward(&x, &mut Pass::plain(Mode::Eval)).unwrap().size(), [2, 10]);
    assert_eq!(net.slots().len(), 20);
    let wrong = ResnetCifarConfig { depth: 21, ..ResnetCifarConfig::default() };
    let error = wrong.init(&store.root(), &LayerPlan::dense(), Key::new(0)).unwrap_err().to_string();
    assert!(error.contains("6n + 2"), "{error}");
}

#[test]
fn the_plan_reaches_the_layers_it_names() {
    let store = VarStore::new(Device::Cpu);
    let config = ResnetConfig { width: 8, ..ResnetConfig::default() };
    let plan = LayerPlan::only(
        &PAPER_FOUR,
        &InducingConfig { inducing_rows: 4.into(), inducing_cols: 4.into(), ..Default::default() },
    );
    let net = config.init(&(store.root() / "model"), &plan, Key::new(0)).unwrap();
    let names: Vec<_> = net.inducing().iter().map(|weight| weight.name.clone()).collect();
    assert_eq!(names, PAPER_FOUR.map(|name| format!("model.{name}")));
    let wrong = LayerPlan::only(&["layer2.1.conv3"], &InducingConfig::default());
    let error = config.init(&store.root(), &wrong, Key::new(0)).unwrap_err().to_string();
    assert!(error.contains("did you mean `layer2.1.conv1`?") && error.contains("layer4.1.conv2"), "{error}");
}

/// Draws the weights, runs a training pass and computes the gradients of the ELBO.
fn gradients(net: &dyn Network, x: &Tensor, labels: &Tensor, key: Key) {
    let factors = Factors::of(&net.inducing(), Check::Now).unwrap();
    let mut pass = Pass::draw(&net.inducing(), &factors, Mode::Train, key).unwrap();
    let nll = net.forward(x, &mut pass).unwrap().cross_entropy_for_logits(labels);
    let kl = pass.kl().iter().fold(nll.zeros_like(), |sum, (_, kl)| sum + &kl.inducing + &kl.conditional);
    (nll + kl / 1000.0).backward();
}

#[test]
fn training_reaches_every_parameter() {
    let store = VarStore::new(Device::Cpu);
    // more hidden units than columns, so that no block has only dead units
    let flow = FlowConfig::Made(MadeConfig { hidden: Some(32), ..MadeConfig::default() });
    let posterior = PosteriorConfig::Flow { flow };
    let plan = LayerPlan::all(InducingConfig {
        inducing_rows: 8.into(),
        inducing_cols: 6.into(),
        posterior,
        ..Default::default()
    });
    let plan = plan.kind_size(LayerKind::Linear, 3, 4);
    let config = ResnetConfig { width: 4, classes: 5, ..ResnetConfig::default() };
    let net = config.init(&store.root(), &plan, Key::new(0)).unwrap();
    let x = Key::new(1).normal(&[4, 3, 16, 16], Kind::Float, Device::Cpu);
    let labels = Tensor::from_slice(&[0i64, 1, 2, 3]);
    for step in 0..2 {
        gradients(&net, &x, &labels, Key::new(2).at(step));
        for (name, mut parameter) in store.variables().into_iter().filter(|(_, p)| p.requires_grad()) {
            let gradient = parameter.grad();
            assert!(gradient.defined(), "{name} has no gradient");
            let largest = gradient.abs().max().double_value(&[]);
            // A flow starts at the identity: its constant last layer hides the others from the very first gradient.
            let hidden = step == 0 && name.contains(".flow.") && !name.contains(".flow.last.");
            assert!(largest.is_finite() && (largest > 0.0 || hidden), "{name}: {largest} in step {step}");
            tch::no_grad(|| _ = parameter.g_sub_(&(gradient * 0.01)));
            parameter.zero_grad();
        }
    }
}

/// Prediction computes what stands before the first Bayesian layer once for all draws: every draw must give what a whole
/// forward pass gives.
fn shares_its_start(net: &dyn Network, first: usize, layers: &[&str]) {
    assert_eq!(blocks_before_randomness(&trace(net, &[3, 16, 16]).unwrap()), first, "{layers:?}");
    let batches: Vec<_> = (0..2).map(|i| Key::new(1).at(i).normal(&[2, 3, 16, 16], Kind::Float, Device::Cpu)).collect();
    let draws = Draws::new(net, 3, Key::new(7)).unwrap();
    let mut found: Vec<Vec<Tensor>> = vec![Vec::new(), Vec::new()];
    let keep = |index: usize, outputs| {
        found[index].push(outputs);
        Ok(())
    };
    draws.outputs(&batches, keep).unwrap();
    let factors = Factors::of(&net.inducing(), Check::Now).unwrap();
    for (batch, found) in batches.iter().zip(&found) {
        for (k, found) in (0..).zip(found) {
            let mut pass = Pass::draw(&net.inducing(), &factors, Mode::Eval, Key::new(7).at(k)).unwrap();
            let whole = tch::no_grad(|| net.forward(batch, &mut pass)).unwrap();
            assert!((whole - found).abs().max().double_value(&[]) < 1e-5, "{layers:?}, draw {k}");
        }
    }
}

#[test]
fn draws_share_what_stands_before_the_first_bayesian_layer() {
    let inducing = InducingConfig { inducing_rows: 4.into(), inducing_cols: 4.into(), ..Default::default() };
    let config = ResnetConfig { width: 8, classes: 5, ..ResnetConfig::default() };
    for (layers, first) in [(&PAPER_FOUR[..], 4), (&["layer4.1.conv2"][..], 8), (&["fc"][..], 9), (&["conv1"][..], 0)] {
        let store = VarStore::new(Device::Cpu);
        let net = config.init(&store.root(), &LayerPlan::only(layers, &inducing), Key::new(0)).unwrap();
        shares_its_start(&net, first, layers);
    }
    let config = ResnetCifarConfig { depth: 8, classes: 5, width: 8, ..ResnetCifarConfig::default() };
    for (layers, first) in [(&["layer2.0.conv2"][..], 2), (&["linear"][..], 4), (&["conv1"][..], 0)] {
        let store = VarStore::new(Device::Cpu);
        let net = config.init(&store.root(), &LayerPlan::only(layers, &inducing), Key::new(0)).unwrap();
        shares_its_start(&net, first, layers);
    }
}
