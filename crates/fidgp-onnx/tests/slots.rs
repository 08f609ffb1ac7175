//! Transposed convolutions, LSTM and GRU as layers with slots.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use fidgp::Key;
use fidgp::layer::{Factors, Layer, Layers, Mode, Network, Operation, Pass, SlotConfig, Taps, init, trace};
use fidgp::linalg::Check;
use fidgp::weight::InducingConfig;
use fidgp_onnx::{Exported, Graph, Import, Outputs, Plain, Source, Wanted};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

const GRAPHS: [&str; 6] = ["lstm.dynamo", "lstm.script", "gru.dynamo", "gru.script", "unet.dynamo", "unet.script"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[expect(clippy::disallowed_methods, reason = "the file is ours")]
fn stored(name: &str) -> HashMap<String, Tensor> {
    Tensor::read_safetensors(fixture(&format!("{name}.safetensors"))).unwrap().into_iter().collect()
}

fn import(name: &str) -> Import {
    let graph = Graph::read(&fixture(&format!("{name}.onnx"))).unwrap();
    Import::new(graph, &Wanted::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A network with the file's numbers, in a store.
fn filled(name: &str) -> (Import, VarStore) {
    let mut import = import(name);
    let store = VarStore::new(Device::Cpu);
    init(&mut import.network, &store.root(), Key::new(1)).unwrap();
    let variables = store.variables();
    for (variable, tensor) in &import.tensors {
        tch::no_grad(|| variables[variable].shallow_clone().copy_(tensor));
    }
    (import, store)
}

/// A network whose layers are all Bayesian, or those of the names that are given.
fn bayesian(name: &str, only: Option<&[&str]>) -> (Import, VarStore) {
    let mut import = import(name);
    let store = VarStore::new(Device::Cpu);
    let config = InducingConfig { inducing_rows: 4.into(), inducing_cols: 3.into(), ..InducingConfig::default() };
    for layer in import.network.layers_mut() {
        let is_wanted = only.is_none_or(|names| names.contains(&layer.name()));
        if let Some(slot) = layer.slot_mut().filter(|_| is_wanted) {
            slot.set(SlotConfig::Inducing(Box::new(config.clone()))).unwrap();
        }
    }
    init(&mut import.network, &store.root(), Key::new(1)).unwrap();
    (import, store)
}

fn gap(one: &Tensor, other: &Tensor) -> f64 {
    assert_eq!(one.size(), other.size());
    (one - other).abs().max().double_value(&[]) / other.abs().max().double_value(&[]).max(1e-6)
}

/// Names and sizes of the weights.
fn layers(import: &Import) -> BTreeMap<String, [i64; 2]> {
    let matrix = |layer: &dyn Layer| {
        let (d_out, d_in) = layer.operation().weight()?;
        Some((layer.name().to_owned(), [d_out, d_in]))
    };
    import.network.layers().into_iter().filter_map(matrix).collect()
}

#[test]
fn the_parts_of_recurrent_networks_are_layers_under_the_names_of_their_weights() {
    for exporter in ["dynamo", "script"] {
        let lstm = layers(&import(&format!("lstm.{exporter}")));
        let both =
            [("cell.ih_l0", [48, 6]), ("cell.hh_l0", [48, 13]), ("cell.ih_l1", [48, 13]), ("cell.hh_l1", [48, 13])];
        let wanted: BTreeMap<_, _> = both.into_iter().map(|(name, size)| (name.to_owned(), size)).collect();
        let found: BTreeMap<_, _> = lstm.into_iter().filter(|(name, _)| name != "head").collect();
        assert_eq!(found, wanted, "{exporter}");
        let gru = layers(&import(&format!("gru.{exporter}")));
        assert_eq!(gru["cell.hh_l1_reverse"], [36, 13], "{exporter}: {gru:?}");
        assert_eq!(gru.len(), 9, "{exporter}: two layers, two directions, two sides, and the head");
    }
}

#[test]
fn transposed_convolutions_are_layers() {
    for exporter in ["dynamo", "script"] {
        let found = layers(&import(&format!("unet.{exporter}")));
        assert_eq!(found["up2"], [4 * 4, 8], "{exporter}"); // every place of a patch is a row
    }
}

#[test]
fn networks_give_what_onnxruntime_gives_at_once_and_step_by_step() {
    for name in GRAPHS {
        let (import, store) = filled(name);
        let stored = stored(name);
        let x = &stored["in.input"];
        let names: Vec<String> = layers(&import).into_keys().collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut gradients = Vec::new();
        for taps in [Taps::default(), Taps::on(&names)] {
            let mut pass = Pass::plain(Mode::Eval).with_taps(taps);
            let output = import.network.forward(x, &mut pass).unwrap();
            let apart = gap(&output, &stored["out.output"]);
            assert!(apart < 1e-5, "{name}: {apart:e}");
            (&output * &stored["direction"]).sum(Kind::Float).backward();
            let variables = store.variables();
            let mut trained: Vec<_> = variables.into_iter().filter(|(_, one)| one.requires_grad()).collect();
            trained.sort_by(|one, other| one.0.cmp(&other.0));
            gradients.push(trained.iter().map(|(_, one)| one.grad().copy()).collect::<Vec<_>>());
            for (_, one) in &mut trained {
                one.zero_grad();
            }
        }
        for (one, other) in gradients[0].iter().zip(&gradients[1]) {
            assert!(gap(one, other) < 1e-4, "{name}");
        }
    }
}

#[test]
fn every_part_can_be_bayesian_and_learns() {
    for name in GRAPHS {
        let (import, store) = bayesian(name, None);
        let weights = import.network.inducing();
        assert_eq!(weights.len(), layers(&import).len(), "{name}");
        let factors = Factors::of(&weights, Check::Now).unwrap();
        let x = &stored(name)["in.input"];
        let run = |key: u64| {
            let mut pass = Pass::draw(&weights, &factors, Mode::Train, Key::new(key)).unwrap();
            import.network.forward(x, &mut pass).unwrap()
        };
        let output = run(3);
        assert!(gap(&run(3), &output) < 1e-6, "{name}: one key is one draw");
        assert!(gap(&run(4), &output) > 1e-3, "{name}: another is another");
        output.square().sum(Kind::Float).backward();
        for (variable, tensor) in store.variables() {
            let learns = !tensor.requires_grad() || tensor.grad().defined();
            assert!(learns, "{name}: {variable}");
        }
    }
}

/// A draw that is taken at once is the one that is taken step by step: taps make the steps.
#[test]
fn a_draw_is_the_same_at_once_and_step_by_step() {
    for name in GRAPHS {
        let (import, _store) = bayesian(name, None);
        let weights = import.network.inducing();
        let factors = Factors::of(&weights, Check::Now).unwrap();
        let x = &stored(name)["in.input"];
        let names: Vec<&str> = weights.iter().map(|weight| weight.name.as_str()).collect();
        let run = |taps: Taps| {
            let mut pass = Pass::mean(&weights, &factors, Mode::Eval).unwrap().with_taps(taps);
            import.network.forward(x, &mut pass).unwrap()
        };
        let apart = gap(&run(Taps::on(&names)), &run(Taps::default()));
        assert!(apart < 1e-5, "{name}: {apart:e}");
    }
}

#[test]
fn steps_are_counted() {
    let import = import("lstm.dynamo");
    let traced = trace(&import.network, &[7, 5]).unwrap();
    let found = |name: &str| traced.iter().find(|layer| layer.name == name).unwrap();
    let (input, state) = (found("cell.ih_l0"), found("cell.hh_l0"));
    assert_eq!((input.uses, input.macs()), (1, 7 * 48 * 5));
    assert_eq!((state.uses, state.macs()), (7, 7 * 48 * 12));
    assert!(matches!(state.operation, Operation::Linear { inputs: 12, outputs: 48, bias: true }));
}

#[test]
fn an_export_holds_the_weights_as_the_file_does() {
    for name in GRAPHS {
        let (import, store) = filled(name);
        let path = fixture(&format!("{name}.onnx"));
        let exported = Exported {
            source: Source::File(&path),
            import: &import,
            draws: vec![store.variables().into_iter().collect()],
            normalisation: None,
            axes: 2,
            outputs: Outputs::Classes { classes: 3, temperature: 1.0, map: None },
            rules: None,
            metadata: BTreeMap::new(),
            half: false,
            linearised: None,
        };
        let graph = Graph::of_bytes(&exported.bytes().unwrap_or_else(|error| panic!("{name}: {error}"))).unwrap();
        let plain = Plain::new(&graph, Kind::Float).unwrap();
        let place = plain.outputs().iter().position(|port| port.name == "probabilities").unwrap();
        let stored = stored(name);
        let ours = plain.run(&[stored["in.input"].shallow_clone()]).unwrap().swap_remove(place);
        let theirs = stored["out.output"].softmax(1, Kind::Float);
        let theirs = if theirs.size() == ours.size() { theirs } else { theirs.permute([0, 2, 3, 1]) };
        assert!(gap(&ours, &theirs) < 1e-5, "{name}");
    }
}
