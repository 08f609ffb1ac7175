//! Weights by what is done with them: used twice, without a name, folded.

mod built;

use std::collections::BTreeMap;
use std::path::Path;

use built::proto::*;
use built::*;
use fidgp::Key;
use fidgp::layer::{Mode, Network, Pass, init, trace_to_output};
use fidgp_onnx::{Exported, Graph, Import, Inspection, Outputs, Plain, Source, Wanted, self_contained};
use prost::Message;
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

fn read(model: &ModelProto) -> Graph {
    let folder = tempfile::tempdir().unwrap();
    Graph::read(&written(folder.path(), model)).unwrap_or_else(|error| panic!("{error}"))
}

/// Numbers that differ.
fn numbers(name: &str, dims: &[i64]) -> TensorProto {
    let count: i64 = dims.iter().product();
    TensorProto { float_data: (0..count).map(|k| (k * 7 % 11) as f32 / 11.0 - 0.4).collect(), ..floats(name, dims) }
}

fn filled(model: &ModelProto) -> (Import, VarStore) {
    let mut import = Import::new(read(model), &Wanted::default()).unwrap_or_else(|error| panic!("{error}"));
    let store = VarStore::new(Device::Cpu);
    init(&mut import.network, &store.root(), Key::new(1)).unwrap();
    let variables = store.variables();
    assert_eq!(variables.len(), import.tensors.len());
    for (variable, tensor) in &import.tensors {
        tch::no_grad(|| variables[variable].shallow_clone().copy_(tensor));
    }
    (import, store)
}

/// Asserts that the network is what the graph is, and has these variables, all with a gradient; its notes.
#[track_caller]
fn assert_same(model: &ModelProto, x: &Tensor, variables: &[&str]) -> String {
    let (import, store) = filled(model);
    let plain = Plain::new(&read(model), Kind::Float).unwrap().run(&[x.shallow_clone()]).unwrap();
    let ours = import.network.forward(x, &mut Pass::plain(Mode::Eval)).unwrap();
    assert_eq!(ours.size(), plain[0].size());
    assert!((&ours - &plain[0]).abs().max().double_value(&[]) < 1e-6, "{:?}", import.notes);
    let names: Vec<_> = store.variables().into_iter().collect::<BTreeMap<_, _>>().into_keys().collect();
    assert_eq!(names, variables, "{:?}", import.notes);
    ours.square().sum(Kind::Float).backward();
    assert!(store.variables().values().all(|one| one.grad().abs().sum(Kind::Float).double_value(&[]) > 0.0));
    import.notes.join("\n")
}

fn rows() -> Tensor {
    Key::new(3).normal(&[3, 4], Kind::Float, Device::Cpu)
}

#[test]
fn a_kernel_with_two_windows_is_one_parameter() {
    let two = |name: &str, stride, to: &str| NodeProto {
        name: name.to_owned(),
        attribute: vec![ints("strides", &[stride; 2]), ints("pads", &[1; 4])],
        ..node("Conv", &["x", "conv.weight"], &[to])
    };
    let sum = NodeProto { attribute: vec![ints("axes", &[2, 3])], ..node("ReduceMean", &["a"], &["p"]) };
    let other = NodeProto { attribute: vec![ints("axes", &[2, 3])], ..node("ReduceMean", &["b"], &["q"]) };
    let nodes = vec![two("one", 1, "a"), two("half", 2, "b"), sum, other, node("Sub", &["p", "q"], &["y"])];
    let graph = model(nodes, vec![numbers("conv.weight", &[2, 2, 3, 3])]);
    let x = Key::new(2).normal(&[2, 2, 6, 6], Kind::Float, Device::Cpu);
    let said = assert_same(&graph, &x, &["conv.weight.value"]);
    assert!(said.contains("`conv.weight` is used in several ways"), "{said}");
}

#[test]
fn a_matrix_and_its_transpose_are_one_parameter() {
    let turned = node("Transpose", &["fc.weight"], &["t"]);
    let nodes = vec![turned, node("MatMul", &["x", "t"], &["h"]), node("MatMul", &["h", "fc.weight"], &["y"])];
    let graph = model(nodes, vec![numbers("fc.weight", &[4, 4])]);
    let said = assert_same(&graph, &rows(), &["fc.weight.value"]);
    assert!(said.contains("`fc.weight` is used in several ways"), "{said}");
}

#[test]
fn a_matrix_with_two_biases_is_one_parameter() {
    let gemm = |bias: &str, from: &str, to: &str| node("Gemm", &[from, "fc.weight", bias], &[to]);
    let nodes = vec![gemm("a.bias", "x", "h"), gemm("b.bias", "h", "y")];
    let graph = model(nodes, vec![numbers("fc.weight", &[4, 4]), numbers("a.bias", &[4]), numbers("b.bias", &[4])]);
    assert_same(&graph, &rows(), &["a.bias.value", "b.bias.value", "fc.weight.value"]);
}

#[test]
fn an_embedding_that_is_the_head_too_is_one_parameter() {
    let place = NodeProto { attribute: vec![int("to", 7)], ..node("Cast", &["x"], &["i"]) };
    let turned = node("Transpose", &["table.weight"], &["t"]);
    let found = node("Gather", &["table.weight", "i"], &["h"]);
    let nodes = vec![place, found, turned, node("MatMul", &["h", "t"], &["y"])];
    let graph = model(nodes, vec![numbers("table.weight", &[5, 3])]);
    let x = Tensor::from_slice(&[0.0_f32, 2.0, 4.0]).view([1, 3]);
    assert_same(&graph, &x, &["table.weight.value"]);
}

#[test]
fn a_layer_that_is_used_twice_alike_stays_one() {
    let gemm = |from: &str, to: &str| node("Gemm", &[from, "fc.weight", "fc.bias"], &[to]);
    let nodes = vec![gemm("x", "h"), gemm("h", "y")];
    let graph = model(nodes, vec![numbers("fc.weight", &[4, 4]), numbers("fc.bias", &[4])]);
    let said = assert_same(&graph, &rows(), &["fc.bias", "fc.weight"]);
    assert!(said.contains("layer `fc` is used more than once"), "{said}");
}

#[test]
fn a_bias_of_two_layers_is_said_to_be_two() {
    let gemm = |name: &str, from: &str, to: &str| node("Gemm", &[from, name, "shared.bias"], &[to]);
    let nodes = vec![gemm("a.weight", "x", "h"), gemm("b.weight", "h", "y")];
    let constants = vec![numbers("a.weight", &[4, 4]), numbers("b.weight", &[4, 4]), numbers("shared.bias", &[4])];
    let said = assert_same(&model(nodes, constants), &rows(), &["a.bias", "a.weight", "b.bias", "b.weight"]);
    assert!(said.contains("`shared.bias` is the bias of several layers"), "{said}");
}

#[test]
fn batch_norms_that_look_folded_are_said_to_be() {
    let with_bias = |bias: &str| {
        let conv = node("Conv", &["x", "conv.weight", bias], &["y"]);
        let graph = model(vec![conv], vec![numbers("conv.weight", &[2, 2, 3, 3]), numbers(bias, &[2])]);
        Import::new(read(&graph), &Wanted::default()).unwrap().notes.join("\n")
    };
    assert!(with_bias("conv.weight_bias").contains("BatchNorm seems folded into 1 convolutions"));
    assert!(with_bias("onnx::Conv_12").contains("optimize=False"));
    assert_eq!(with_bias("conv.bias"), "");
}

fn fixture(name: &str) -> ModelProto {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.onnx"));
    ModelProto::decode(&*std::fs::read(file).unwrap()).unwrap()
}

fn trained(model: &ModelProto) -> usize {
    filled(model).1.variables().values().map(Tensor::numel).sum()
}

/// PyTorch's older exporter renames what it folded, other frameworks' names are paths: the numbers are weights all the same.
#[test]
fn weights_without_a_name_are_trained() {
    for name in ["lstm.script", "gru.script", "unet.script", "mlp_batch_norm.script"] {
        let own = fixture(name);
        let mut renamed = own.clone();
        let graph = renamed.graph.as_mut().unwrap();
        let floats =
            graph.initializer.iter_mut().filter(|one| one.data_type == 1 && one.dims.iter().product::<i64>() > 1);
        for (k, tensor) in floats.enumerate() {
            let (old, new) = (tensor.name.clone(), format!("onnx::W_{k}"));
            let inputs = graph.node.iter_mut().flat_map(|node| &mut node.input);
            inputs.filter(|input| **input == old).for_each(|input| input.clone_from(&new));
            tensor.name = new;
        }
        assert_eq!(trained(&renamed), trained(&own), "{name}");
    }
}

#[test]
fn weights_that_are_constant_nodes_are_trained() {
    for name in ["lstm.script", "unet.script", "mlp_layer_norm.script"] {
        let own = fixture(name);
        let mut moved = own.clone();
        let graph = moved.graph.as_mut().unwrap();
        let constants = std::mem::take(&mut graph.initializer).into_iter().map(|tensor| NodeProto {
            attribute: vec![AttributeProto {
                name: "value".to_owned(),
                r#type: AttributeKind::Tensor as i32,
                t: Some(tensor.clone()),
                ..AttributeProto::default()
            }],
            ..node("Constant", &[], &[&tensor.name])
        });
        graph.node = constants.collect::<Vec<_>>().into_iter().chain(std::mem::take(&mut graph.node)).collect();
        assert_eq!(trained(&moved), trained(&own), "{name}");
    }
}

#[test]
fn what_may_be_a_weight_and_stays_fixed_is_named() {
    let nodes = vec![node("Gemm", &["x", "fc.weight"], &["h"]), node("Mul", &["h", "val_7"], &["y"])];
    let graph = model(nodes, vec![numbers("fc.weight", &[4, 4]), numbers("val_7", &[4])]);
    let said = assert_same(&graph, &rows(), &["fc.weight"]);
    assert!(said.contains("1 constants (`val_7`) may be weights"), "{said}");
}

/// A network that was exported in training mode goes out as one that predicts: with the statistics that were trained.
#[test]
fn norms_of_a_training_go_out_with_their_statistics() {
    let attribute = vec![int("training_mode", 1)];
    let norm = NodeProto {
        attribute,
        ..node(
            "BatchNormalization",
            &["h", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"],
            &["y", "mean", "var"],
        )
    };
    let vectors = ["bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"];
    let constants = [numbers("fc.weight", &[4, 2])].into_iter().chain(vectors.map(|name| floats(name, &[2])));
    let source = model(vec![node("MatMul", &["x", "fc.weight"], &["h"]), norm], constants.collect());
    let folder = tempfile::tempdir().unwrap();
    let (import, store) = filled(&source);
    let path = written(folder.path(), &source);
    let exported = Exported {
        source: Source::File(&path),
        import: &import,
        draws: vec![store.variables().into_iter().collect()],
        normalisation: None,
        axes: 2,
        outputs: Outputs::Classes { classes: 2, temperature: 1.0, map: None },
        rules: None,
        metadata: BTreeMap::new(),
        half: false,
        linearised: None,
    };
    let graph = Plain::new(&Graph::of_bytes(&exported.bytes().unwrap()).unwrap(), Kind::Float).unwrap();
    let place = graph.outputs().iter().position(|port| port.name == "probabilities").unwrap();
    let out = |x: &Tensor| graph.run(&[x.shallow_clone()]).unwrap().swap_remove(place);
    let ours = import.network.forward(&rows(), &mut Pass::plain(Mode::Eval)).unwrap().softmax(-1, Kind::Float);
    assert!((out(&rows()) - ours).abs().max().double_value(&[]) < 1e-6);
    let alone = out(&rows().narrow(0, 0, 1));
    assert!((alone - out(&rows()).narrow(0, 0, 1)).abs().max().double_value(&[]) < 1e-6, "no row depends on others");
}

#[test]
fn data_of_other_files_come_along() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(here.path().join("data"), [1.5_f32, 2.5, 3.5, 4.5].map(f32::to_le_bytes).concat()).unwrap();
    let entry = StringStringEntryProto { key: "location".to_owned(), value: "data".to_owned() };
    let apart =
        TensorProto { float_data: Vec::new(), data_location: 1, external_data: vec![entry], ..floats("c", &[4]) };
    let file = written(here.path(), &model(vec![node("Add", &["x", "c"], &["y"])], vec![apart]));
    let copy = there.path().join("network.onnx");
    std::fs::write(&copy, self_contained(&file).unwrap()).unwrap();
    let x = Tensor::zeros([1, 4], (Kind::Float, Device::Cpu));
    let run = |file: &Path| Plain::new(&Graph::read(file).unwrap(), Kind::Float).unwrap().run(&[x.copy()]).unwrap();
    assert_eq!(run(&copy)[0], run(&file)[0]);
}

fn import(model: &ModelProto, wanted: &Wanted) -> Import {
    Import::new(read(model), wanted).unwrap_or_else(|error| panic!("{error}"))
}

/// The layer that can have other outputs, and how many outputs the network has when it is asked for seven.
#[track_caller]
fn asked_for_seven(nodes: Vec<NodeProto>, constants: Vec<TensorProto>) -> (Option<String>, i64, String) {
    let wanted = Wanted { outputs: Some(7), ..Wanted::default() };
    let import = import(&model(nodes, constants), &wanted);
    let (_, output) = trace_to_output(&import.network, &[4]).unwrap();
    (import.network.head().map(str::to_owned), output[1], import.notes.join("\n"))
}

#[test]
fn a_sum_of_two_layers_has_no_head() {
    let gemm = |name: &str, to: &str| node("Gemm", &["x", name], &[to]);
    let nodes = |last| vec![gemm("a.weight", "a"), gemm("b.weight", "b"), node(last, &["a", "b"], &["y"])];
    // `b` with one output would be added to seven of `a` without a word
    let constants = || vec![numbers("a.weight", &[4, 3]), numbers("b.weight", &[4, 1])];
    for last in ["Add", "Mul"] {
        let (head, outputs, said) = asked_for_seven(nodes(last), constants());
        assert_eq!((head, outputs), (None, 3));
        assert!(said.contains("no single layer decides them"), "{said}");
    }
}

#[test]
fn what_is_learnt_behind_a_layer_makes_it_no_head() {
    let gemm = node("Gemm", &["x", "fc.weight", "fc.bias"], &["h"]);
    let fc = || vec![numbers("fc.weight", &[4, 3]), numbers("fc.bias", &[3])];
    let scaled = vec![gemm.clone(), node("Mul", &["h", "head.scale"], &["y"])];
    let (head, outputs, _) = asked_for_seven(scaled, [fc(), vec![numbers("head.scale", &[3])]].concat());
    assert_eq!((head, outputs), (None, 3), "the scale of each output is learnt too");
    let equation = NodeProto { attribute: vec![text("equation", "ni,io->no")], ..node("Einsum", &["h", "m"], &["y"]) };
    let einsum = vec![gemm.clone(), node("Transpose", &["mix"], &["m"]), equation];
    let (head, outputs, _) = asked_for_seven(einsum, [fc(), vec![numbers("mix", &[2, 3])]].concat());
    assert_eq!((head, outputs), (None, 2));
    let gated = vec![gemm, node("Sigmoid", &["h"], &["s"]), node("Mul", &["h", "s"], &["y"])];
    let (head, outputs, said) = asked_for_seven(gated, fc());
    assert_eq!((head.as_deref(), outputs), (Some("fc"), 7), "{said}");
}

#[test]
fn every_parameter_of_a_concat_is_trained() {
    let names: Vec<_> = (0..6).map(|k| format!("token{k}.part")).collect();
    let all: Vec<_> = names.iter().map(String::as_str).chain(["x"]).collect();
    let join = NodeProto { attribute: vec![int("axis", 0)], ..node("Concat", &all, &["y"]) };
    let variables: Vec<_> = names.iter().map(|name| format!("{name}.value")).collect();
    let variables: Vec<_> = variables.iter().map(String::as_str).collect();
    assert_same(&model(vec![join], names.iter().map(|name| numbers(name, &[1, 4])).collect()), &rows(), &variables);
}

#[test]
fn a_sigmoid_at_the_end_is_left_out_for_logits_alone() {
    let nodes = vec![node("Gemm", &["x", "fc.weight"], &["h"]), node("Sigmoid", &["h"], &["y"])];
    let graph = model(nodes, vec![numbers("fc.weight", &[4, 3])]);
    for (logits, word) in [(true, "is left out: the network gives logits"), (false, "stays: for classes")] {
        let import = import(&graph, &Wanted { logits, ..Wanted::default() });
        assert!(import.notes.iter().any(|note| note.contains(word)), "{:?}", import.notes);
        let mut network = import.network;
        let store = VarStore::new(Device::Cpu);
        init(&mut network, &store.root(), Key::new(1)).unwrap();
        let most = network.forward(&(rows() * 100.0), &mut Pass::plain(Mode::Eval)).unwrap().abs().max();
        assert_eq!(most.double_value(&[]) > 1.0, logits);
    }
}

#[test]
fn an_inspection_fails_on_what_the_output_needs_and_on_nothing_else() {
    let nodes = vec![node("Gemm", &["x", "fc.weight"], &["y"]), node("Unheard", &["x"], &["z"])];
    let mut graph = model(nodes, vec![numbers("fc.weight", &[4, 3])]);
    graph.graph.as_mut().unwrap().output.push(value("z"));
    let seen = |output: Option<&str>| {
        let wanted = Wanted { output: output.map(str::to_owned), ..Wanted::default() };
        Inspection::new(read(&graph), &wanted, Some(&[4]))
    };
    let unclear = seen(None);
    assert!(!unclear.is_understood() && unclear.problems.len() == 1, "{unclear}");
    let good = seen(Some("y"));
    assert!(good.is_understood() && good.problems.is_empty(), "{good}");
    assert!(!seen(Some("z")).is_understood());
    graph.graph.as_mut().unwrap().node.pop();
    graph.graph.as_mut().unwrap().node.push(node("Relu", &["x"], &["z"]));
    let several = Inspection::new(read(&graph), &Wanted::default(), Some(&[4]));
    assert!(several.problems.is_empty() && !several.is_understood(), "{several}");
}
