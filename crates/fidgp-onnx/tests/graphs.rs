//! Graphs against what onnxruntime and PyTorch make of them (`scripts/onnx-fixtures` writes the fixtures).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use fidgp::Key;
use fidgp::layer::{Layers, Mode, Network, Pass, init, trace};
use fidgp_onnx::{Graph, Import, Plain, Wanted};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

const NETWORKS: [&str; 7] = ["mlp_layer_norm", "mlp_batch_norm", "table_transformer", "lstm", "gru", "unet", "signal"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[expect(clippy::disallowed_methods, reason = "the file is ours")]
fn stored(name: &str) -> HashMap<String, Tensor> {
    Tensor::read_safetensors(fixture(&format!("{name}.safetensors"))).unwrap().into_iter().collect()
}

fn graph(name: &str) -> Graph {
    Graph::read(&fixture(&format!("{name}.onnx"))).unwrap_or_else(|error| panic!("{error}"))
}

/// The greatest difference, relative to the greatest number.
fn gap(one: &Tensor, other: &Tensor) -> f64 {
    assert_eq!(one.size(), other.size());
    assert_eq!(one.kind(), other.kind());
    if one.numel() == 0 {
        return 0.0;
    }
    let (one, other) = (one.to_kind(Kind::Double), other.to_kind(Kind::Double));
    let scale = other.abs().max().double_value(&[]).max(1e-6);
    (one - other).abs().max().double_value(&[]) / scale
}

fn compare_with_runtime(name: &str) -> usize {
    let (plain, stored) = (Plain::new(&graph(name), Kind::Float).unwrap(), stored(name));
    let inputs: Vec<_> =
        plain.inputs().iter().map(|port| stored[&format!("in.{}", port.name)].shallow_clone()).collect();
    let outputs = plain.run(&inputs).unwrap();
    for (port, ours) in plain.outputs().iter().zip(&outputs) {
        let gap = gap(ours, &stored[&format!("out.{}", port.name)]);
        assert!(gap < 1e-5, "{name}, {}: {gap:e}", port.name);
    }
    outputs.len()
}

#[test]
fn operators_give_what_onnxruntime_gives() {
    for (opset, least) in [(11, 125), (17, 125), (21, 125)] {
        let compared = compare_with_runtime(&format!("operators{opset}"));
        assert!(compared >= least, "opset {opset}: only {compared} outputs");
    }
}

#[test]
fn networks_give_what_onnxruntime_gives() {
    for name in NETWORKS {
        for exporter in ["dynamo", "script"] {
            compare_with_runtime(&format!("{name}.{exporter}"));
        }
    }
}

/// A network with the file's numbers, in a store.
fn filled(name: &str) -> (Import, VarStore) {
    let mut import = Import::new(graph(name), &Wanted::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let store = VarStore::new(Device::Cpu);
    init(&mut import.network, &store.root(), Key::new(1)).unwrap();
    let variables = store.variables();
    assert_eq!(variables.len(), import.tensors.len(), "{name}");
    for (variable, tensor) in &import.tensors {
        tch::no_grad(|| variables[variable].shallow_clone().copy_(tensor));
    }
    (import, store)
}

#[test]
fn gradients_of_every_parameter_are_pytorchs() {
    for name in NETWORKS {
        for exporter in ["dynamo", "script"] {
            let name = format!("{name}.{exporter}");
            let (import, store) = filled(&name);
            let stored = stored(&name);
            let output = import.network.forward(&stored["in.input"], &mut Pass::plain(Mode::Eval)).unwrap();
            (&output * &stored["direction"]).sum(Kind::Float).backward();
            let variables = store.variables();
            let trained = import.origins.iter().filter(|one| variables[&one.variable].grad().defined());
            let own = |one: &fidgp_onnx::Origin| one.in_framework(&variables[&one.variable].grad()).unwrap();
            let ours: HashMap<_, _> = trained.map(|one| (one.initialiser.as_str(), own(one))).collect();
            let wanted: Vec<_> =
                stored.iter().filter_map(|(key, value)| Some((key.strip_prefix("grad.")?, value))).collect();
            assert!(wanted.len() >= 6, "{name}");
            let largest = wanted.iter().map(|(_, one)| one.abs().max().double_value(&[])).fold(0.0, f64::max);
            for (parameter, theirs) in wanted {
                let found = ours.get(parameter).unwrap_or_else(|| panic!("{name}: no parameter `{parameter}`"));
                let same = if found.dim() == 2 && found.size() != theirs.size() {
                    found.tr()
                } else {
                    found.view(&theirs.size()[..])
                };
                let off = (same - theirs).abs().max().double_value(&[]);
                assert!(off < 2e-5 * largest, "{name}, {parameter}: {off:e} of {largest:e}");
            }
        }
    }
}

/// Without a start, parameters that are no layer's have numbers like those of the file, and everything learns.
#[test]
fn plain_parameters_do_not_start_at_zero() {
    for name in ["table_transformer.dynamo", "signal.dynamo", "unet.script"] {
        let mut import = Import::new(graph(name), &Wanted::default()).unwrap();
        let store = VarStore::new(Device::Cpu);
        init(&mut import.network, &store.root(), Key::new(1)).unwrap();
        let variables = store.variables();
        let values: Vec<_> = import.tensors.iter().filter(|(name, _)| name.strip_suffix(".value").is_some()).collect();
        assert!(!values.is_empty(), "{name}");
        for (variable, theirs) in values {
            let ours = &variables[variable];
            let size = |one: &Tensor| one.square().mean(Kind::Double).sqrt().double_value(&[]);
            assert!((0.3..3.0).contains(&(size(ours) / size(theirs))), "{name}, {variable}");
            let same = theirs.numel() > 1 && (ours - theirs).abs().max().double_value(&[]) < 1e-6;
            assert!(!same, "{name}, {variable}: the numbers of the file are for a start alone");
        }
        let output = import.network.forward(&stored(name)["in.input"], &mut Pass::plain(Mode::Eval)).unwrap();
        (output.square()).sum(Kind::Float).backward();
        for (variable, value) in &variables {
            let learns = !value.requires_grad() || value.grad().abs().sum(Kind::Float).double_value(&[]) > 0.0;
            assert!(learns, "{name}, {variable}");
        }
    }
}

#[test]
fn layers_are_named_after_their_weights_and_have_slots() {
    for exporter in ["dynamo", "script"] {
        let name = format!("table_transformer.{exporter}");
        let (import, _store) = filled(&name);
        let slots: Vec<_> = import.network.slots().iter().map(|slot| slot.name().to_owned()).collect();
        for layer in ["encoder.layers.0.self_attn.in_proj", "encoder.layers.1.linear2", "head"] {
            assert!(slots.iter().any(|slot| slot == layer), "{name}: {layer} not in {slots:?}");
        }
        assert_eq!(import.network.head(), Some("head"));
        let all: Vec<_> = import.network.layers().iter().map(|layer| layer.name().to_owned()).collect();
        for other in ["token", "scale", "encoder.layers.0.norm1"] {
            assert!(all.iter().any(|layer| layer == other), "{name}: {other} not in {all:?}");
        }
    }
}

/// PyTorch's newer exporter writes a zero bias for a convolution without one, computed from the weight's shape.
#[test]
fn a_bias_that_an_exporter_made_up_is_none() {
    for exporter in ["dynamo", "script"] {
        let (import, store) = filled(&format!("pictures.{exporter}"));
        let layers: Vec<_> = import.network.layers().iter().map(|layer| layer.name().to_owned()).collect();
        assert_eq!(layers, ["conv1", "bn1", "conv2", "bn2", "fc"], "{exporter}");
        assert!(!store.variables().contains_key("conv1.bias"), "{exporter}");
        assert_eq!(import.network.slots().len(), 3, "{exporter}");
    }
}

#[test]
fn batch_norm_is_a_real_one() {
    let (import, store) = filled("mlp_batch_norm.dynamo");
    let x = Key::new(2).normal(&[16, 6], Kind::Float, Device::Cpu) + 3.0;
    let before = store.variables()["body.1.running_mean"].copy();
    _ = import.network.forward(&x, &mut Pass::plain(Mode::Eval)).unwrap();
    assert_eq!(before, store.variables()["body.1.running_mean"]);
    _ = import.network.forward(&x, &mut Pass::plain(Mode::Train)).unwrap();
    assert_ne!(before, store.variables()["body.1.running_mean"]);
}

#[test]
fn a_head_for_other_classes_starts_afresh() {
    let wanted = Wanted { outputs: Some(7), ..Wanted::default() };
    let mut import = Import::new(graph("unet.dynamo"), &wanted).unwrap();
    assert!(
        import.notes.iter().any(|note| note.contains("`head` has 7 outputs here, 5 in the file")),
        "{:?}",
        import.notes
    );
    assert!(import.tensors.iter().all(|(name, _)| !name.starts_with("head.")));
    let origin = |name: &str| import.origins.iter().find(|one| one.variable == name).unwrap();
    assert_eq!(origin("head.weight").shape, [7, 2, 1, 1]);
    assert_eq!(origin("head.bias").shape, [7]);
    let layers = trace(&import.network, &[3, 16, 16]).unwrap();
    assert!(layers.iter().any(|layer| layer.name == "head" && layer.is_head));
    let store = VarStore::new(Device::Cpu);
    init(&mut import.network, &store.root(), Key::new(1)).unwrap();
    let output = import
        .network
        .forward(&Tensor::zeros([1, 3, 16, 16], (Kind::Float, Device::Cpu)), &mut Pass::plain(Mode::Eval));
    assert_eq!(output.unwrap().size(), [1, 7, 16, 16]);
}

#[test]
fn a_softmax_at_the_end_is_left_out() {
    let (import, store) = filled("pictures.dynamo");
    assert!(import.notes.iter().any(|note| note.contains("gives logits")), "{:?}", import.notes);
    let stored = stored("pictures.dynamo");
    let logits = import.network.forward(&stored["in.input"], &mut Pass::plain(Mode::Eval)).unwrap();
    assert!(gap(&logits.softmax(1, Kind::Float), &stored["out.output"]) < 1e-5);
    assert!(gap(&logits, &stored["out.output"]) > 1e-2);
    // momentum and ε are the file's: the second normalisation moves ten times slower
    let before: Vec<_> = ["bn1", "bn2"].map(|name| store.variables()[&format!("{name}.running_mean")].copy()).into();
    _ = import.network.forward(&(&stored["in.input"] * 3.0 + 2.0), &mut Pass::plain(Mode::Train)).unwrap();
    let slow = |name: &str, before: &Tensor| {
        (&store.variables()[&format!("{name}.running_mean")] - before).abs().max().double_value(&[])
    };
    assert!(
        slow("bn1", &before[0]) > 0.01 && slow("bn2", &before[1]) < 0.05,
        "{} {}",
        slow("bn1", &before[0]),
        slow("bn2", &before[1])
    );
}

#[test]
fn weights_that_can_be_bayesian_are_not_said_to_be_none() {
    for name in ["lstm.script", "gru.script", "unet.dynamo", "pictures.dynamo"] {
        let import = Import::new(graph(name), &Wanted::default()).unwrap();
        assert!(!import.notes.join("\n").contains("plain parameters"), "{name}");
    }
}

#[test]
fn double_precision_goes_through() {
    let plain = Plain::new(&graph("table_transformer.dynamo"), Kind::Double).unwrap();
    let output = plain.run(&[stored("table_transformer.dynamo")["in.input"].shallow_clone()]).unwrap();
    assert_eq!(output[0].kind(), Kind::Double);
}

/// The output that a graph of another exporter has for these inputs, and how many numbers of it are trained.
fn foreign(name: &str, output: Option<&str>, x: &Tensor) -> (Tensor, Vec<String>, usize, Import) {
    let wanted = Wanted { output: output.map(str::to_owned), logits: true, ..Wanted::default() };
    let mut import = Import::new(graph(name), &wanted).unwrap_or_else(|error| panic!("{name}: {error}"));
    let store = VarStore::new(Device::Cpu);
    init(&mut import.network, &store.root(), Key::new(1)).unwrap();
    let variables = store.variables();
    for (variable, tensor) in &import.tensors {
        tch::no_grad(|| variables[variable].shallow_clone().copy_(tensor));
    }
    let output = import.network.forward(x, &mut Pass::plain(Mode::Eval)).unwrap();
    let layers = import.network.slots().iter().map(|slot| slot.name().to_owned()).collect();
    (output, layers, store.trainable_variables().iter().map(Tensor::numel).sum(), import)
}

/// What tf2onnx writes: pictures with their channels last, turned at the start; a BatchNorm within a convolution.
#[test]
fn a_network_of_keras_is_trained_on_pictures() {
    let stored = stored("keras.tf2onnx");
    let wanted = stored.iter().find(|(key, _)| key.starts_with("out.")).unwrap().1;
    let x = &stored["in.picture"];
    let (output, layers, trained, import) = foreign("keras.tf2onnx", None, x);
    assert!(gap(&output.softmax(1, Kind::Float), wanted) < 1e-5);
    let first = import.network.forward(&x.permute([0, 3, 1, 2]), &mut Pass::plain(Mode::Eval)).unwrap();
    assert!(gap(&first, &output) < 1e-6, "pictures come with the channels first");
    assert!(import.network.has_channels_last(3) && !import.network.has_channels_last(1));
    assert_eq!((layers.len(), trained), (4, 112 + 222 + 56 + 45), "{layers:?}");
    assert!(import.notes.iter().any(|note| note.contains("BatchNorm seems folded into")), "{:?}", import.notes);
    let named = ["first", "second", "hidden", "scores"];
    assert!(named.iter().zip(&layers).all(|(name, layer)| layer.contains(name)), "{layers:?}");
}

/// What skl2onnx writes: biases that are rows, labels beside the probabilities.
#[test]
fn networks_of_scikit_learn_are_trained() {
    let stored_classes = stored("classifier.skl2onnx");
    let (logits, layers, trained, import) =
        foreign("classifier.skl2onnx", Some("probabilities"), &stored_classes["in.X"]);
    assert!(gap(&logits.softmax(1, Kind::Float), &stored_classes["out.probabilities"]) < 1e-5);
    assert_eq!((layers.len(), trained), (3, 30 + 35 + 18), "{layers:?}");
    assert_eq!(import.network.head(), Some(layers[2].as_str()));
    let numbers = stored("regression.skl2onnx");
    let (output, layers, trained, import) = foreign("regression.skl2onnx", None, &numbers["in.X"]);
    assert!(gap(&output, &numbers["out.variable"]) < 1e-5);
    assert_eq!((layers.len(), trained), (3, 30 + 35 + 6), "{layers:?}");
    let two = Wanted { outputs: Some(2), ..Wanted::default() };
    let wide = Import::new(graph("regression.skl2onnx"), &two).unwrap();
    let bias = wide.origins.iter().find(|one| one.variable == format!("{}.bias", layers[2])).unwrap();
    assert_eq!(bias.shape.iter().product::<i64>(), 2, "{bias:?}");
    assert_eq!(import.network.head(), Some(layers[2].as_str()));
}

/// What PyTorch writes when nothing is said: the numbers in a file beside the graph, BatchNorm within the convolutions.
#[test]
fn an_export_with_the_settings_of_pytorch_is_trained() {
    let stored = stored("usual");
    let of = |start: &str| stored.iter().find(|(key, _)| key.starts_with(start)).unwrap().1;
    assert!(fixture("usual.onnx.data").exists(), "the numbers lie beside the graph");
    let (output, layers, trained, import) = foreign("usual", None, of("in."));
    assert!(gap(&output.softmax(1, Kind::Float), of("out.")) < 1e-5);
    assert_eq!((layers.as_slice(), trained), (&["conv1", "conv2", "fc"].map(str::to_owned)[..], 224 + 584 + 90));
    let said = import.notes.join("\n");
    assert!(said.contains("BatchNorm seems folded into 2 convolutions") && said.contains("optimize=False"), "{said}");
}
