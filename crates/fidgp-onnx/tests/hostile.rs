//! Files that are damaged, or made to do harm: an error that says where, no panic, no memory asked for before sizes are checked.

mod built;

use std::path::Path;

use built::proto::*;
use built::*;
use fidgp_onnx::{Graph, Import, Inspection, Plain, Wanted};
use proptest::prelude::*;
use tch::{Device, Kind, Tensor};

/// Everything that is done with a file: what is wrong, wherever it is noticed.
fn complaint_of(file: &Path, x: &Tensor) -> Result<Vec<i64>, String> {
    let graph = Graph::read(file).map_err(|error| error.to_string())?;
    let plain = Plain::new(&graph, Kind::Float).map_err(|error| error.to_string())?;
    _ = Inspection::new(Graph::read(file).map_err(|error| error.to_string())?, &Wanted::default(), Some(&[4]))
        .to_string();
    _ = Import::new(Graph::read(file).map_err(|error| error.to_string())?, &Wanted::default());
    let inputs: Vec<_> = plain.inputs().iter().map(|_| x.shallow_clone()).collect();
    plain.run(&inputs).map(|outputs| outputs[0].size()).map_err(|error| error.to_string())
}

fn complaint(model: &ModelProto) -> String {
    let folder = tempfile::tempdir().unwrap();
    let x = Tensor::ones([2, 4], (Kind::Float, Device::Cpu));
    complaint_of(&written(folder.path(), model), &x).expect_err("there is something wrong")
}

#[track_caller]
fn assert_complains(model: &ModelProto, words: &[&str]) {
    let complaint = complaint(model);
    assert!(words.iter().all(|word| complaint.contains(word)), "{complaint}");
    assert!(complaint.len() < 1000, "{complaint}");
}

#[test]
fn a_sound_graph_passes() {
    let folder = tempfile::tempdir().unwrap();
    let sound = model(vec![node("Relu", &["x"], &["y"])], Vec::new());
    let x = Tensor::ones([2, 4], (Kind::Float, Device::Cpu));
    assert_eq!(complaint_of(&written(folder.path(), &sound), &x), Ok(vec![2, 4]));
}

#[test]
fn graphs_that_contradict_themselves_are_refused() {
    let cycle = vec![node("Add", &["x", "b"], &["a"]), node("Relu", &["a"], &["b"]), node("Relu", &["b"], &["y"])];
    assert_complains(&model(cycle, Vec::new()), &["the Add", "Add, opset 17", "made by `the Relu`", "cycle"]);
    assert_complains(&model(vec![node("Relu", &["z"], &["y"])], Vec::new()), &["nothing makes its input `z`"]);
    assert_complains(&model(vec![node("Relu", &["x"], &["z"])], Vec::new()), &["nothing makes the output `y`"]);
    let twice = vec![node("Relu", &["x"], &["y"]), node("Relu", &["x"], &["y"])];
    assert_complains(&model(twice, Vec::new()), &["`y` is made twice"]);
    assert_complains(&model(vec![node("Relu", &["x", "x"], &["y"])], Vec::new()), &["has 2 inputs; 1 are understood"]);
    assert_complains(&model(vec![node("Relu", &[], &["y"])], Vec::new()), &["has 0 inputs"]);
}

#[test]
fn what_is_not_understood_is_named_with_a_way_out() {
    assert_complains(
        &model(vec![node("Frobnicate", &["x"], &["y"])], Vec::new()),
        &["the Frobnicate", "opset 17", "not understood"],
    );
    assert_complains(&model(vec![node("If", &["x"], &["y"])], Vec::new()), &["graphs within graphs", "export"]);
    assert_complains(&model(vec![node("QLinearConv", &["x"], &["y"])], Vec::new()), &["quantised", "floating point"]);
    assert_complains(&model(vec![node("Gelu", &["x"], &["y"])], Vec::new()), &["from opset 20 on"]);
    let strange = NodeProto { attribute: vec![int("colour", 3)], ..node("Relu", &["x"], &["y"]) };
    assert_complains(&model(vec![strange], Vec::new()), &["attribute `colour` is not understood"]);
    let foreign = NodeProto { domain: "com.microsoft".to_owned(), ..node("Relu", &["x"], &["y"]) };
    let mut foreign = model(vec![foreign], Vec::new());
    assert_complains(&foreign, &["does not say which version"]);
    foreign.opset_import.push(OperatorSetIdProto { domain: "com.microsoft".to_owned(), version: 1 });
    assert_complains(&foreign, &["com.microsoft.Relu", "other domains"]);
    for version in [0, 10, 99, i64::MAX, i64::MIN] {
        let mut old = model(vec![node("Relu", &["x"], &["y"])], Vec::new());
        old.opset_import[0].version = version;
        assert_complains(&old, &["11 to"]);
    }
}

#[test]
fn sizes_are_checked_before_memory_is_asked_for() {
    let relu = || vec![node("Relu", &["c"], &["y"])];
    for dims in [vec![-1], vec![1 << 40, 1 << 40], vec![1_000_000_000], vec![i64::MAX], vec![3, -4]] {
        let mut claim = floats("c", &dims);
        claim.float_data = vec![0.0; 3];
        assert_complains(&model(relu(), vec![claim]), &["initialiser `c`"]);
    }
    let large = |operator: &str, inputs: &[&str], constants: Vec<TensorProto>| {
        model(vec![node(operator, inputs, &["y"])], constants)
    };
    let shape = [1 << 20, 1 << 20];
    assert_complains(&large("Expand", &["x", "s"], vec![whole("s", &[1 << 40, 1, 1])]), &["Expand", "limit"]);
    assert_complains(&large("ConstantOfShape", &["s"], vec![whole("s", &shape)]), &["limit", "FIDGP_LIMIT_ELEMENTS"]);
    assert_complains(&large("Tile", &["x", "s"], vec![whole("s", &shape)]), &["limit"]);
    assert_complains(&large("Pad", &["x", "s"], vec![whole("s", &[1 << 40; 4])]), &["limit"]);
    assert_complains(&large("Resize", &["x", "", "", "s"], vec![whole("s", &[1 << 30, 1 << 30])]), &["limit"]);
    assert_complains(
        &large(
            "Range",
            &["a", "b", "a"],
            vec![floats("a", &[]), TensorProto { float_data: vec![1e30], ..floats("b", &[]) }],
        ),
        &["limit"],
    );
    let long = TensorProto { dims: vec![1 << 12, 1], float_data: vec![1.0; 1 << 12], ..floats("l", &[1]) };
    let chain =
        |name: &str, from: &str, to: &str| NodeProto { name: name.to_owned(), ..node("Mul", &[from, to], &[name]) };
    let turned = NodeProto { attribute: vec![ints("perm", &[1, 0])], ..node("Transpose", &["l"], &["t"]) };
    let cube = vec![turned, chain("m", "l", "t"), node("Reshape", &["m", "s"], &["r"]), chain("y", "r", "l")];
    assert_complains(&model(cube, vec![long, whole("s", &[-1])]), &["Mul", "limit"]);
    let conv = NodeProto { attribute: vec![ints("pads", &[1 << 19; 4])], ..node("Conv", &["c", "w"], &["y"]) };
    assert_complains(&model(vec![conv], vec![floats("c", &[1, 1, 3, 3]), floats("w", &[1, 1, 3, 3])]), &["limit"]);
}

#[test]
fn settings_out_of_range_are_refused() {
    let image = || vec![floats("c", &[1, 2, 5, 5]), floats("w", &[2, 2, 3, 3])];
    for attribute in [
        ints("strides", &[0, 0]),
        ints("strides", &[-1, 2]),
        ints("dilations", &[0, 1]),
        ints("pads", &[-9; 4]),
        int("group", 0),
    ] {
        let conv = NodeProto { attribute: vec![attribute], ..node("Conv", &["c", "w"], &["y"]) };
        assert_complains(&model(vec![conv], image()), &["the Conv"]);
    }
    let pool = NodeProto { attribute: vec![ints("kernel_shape", &[0, 0])], ..node("MaxPool", &["c"], &["y"]) };
    assert_complains(&model(vec![pool], image()), &["kernel_shape"]);
    let gather = |places: &[i64]| model(vec![node("Gather", &["x", "i"], &["y"])], vec![whole("i", places)]);
    assert_complains(&gather(&[9, 9, 9]), &["the Gather"]);
    assert_complains(&gather(&[i64::MIN]), &["the Gather"]);
    let slice = |step| {
        model(
            vec![node("Slice", &["x", "s", "e", "a", "t"], &["y"])],
            vec![whole("s", &[0]), whole("e", &[i64::MAX]), whole("a", &[0]), whole("t", &[step])],
        )
    };
    assert_complains(&slice(0), &["step of 0"]);
    let lstm = NodeProto { attribute: vec![int("hidden_size", 1 << 40)], ..node("LSTM", &["c", "w", "w"], &["y"]) };
    assert_complains(&model(vec![lstm], image()), &["hidden_size"]);
    let softmax = NodeProto { attribute: vec![int("axis", 77)], ..node("Softmax", &["x"], &["y"]) };
    assert_complains(&model(vec![softmax], Vec::new()), &["axis 77"]);
}

#[test]
fn functions_do_not_grow_without_end() {
    let import = OperatorSetIdProto { domain: "own".to_owned(), version: 1 };
    let call = |name: &str, from: &str, to: &str| NodeProto { domain: "own".to_owned(), ..node(name, &[from], &[to]) };
    let function = |name: &str, nodes: Vec<NodeProto>| FunctionProto {
        name: name.to_owned(),
        domain: "own".to_owned(),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        node: nodes,
        opset_import: vec![import.clone(), OperatorSetIdProto { domain: String::new(), version: 17 }],
        ..FunctionProto::default()
    };
    let mut endless = model(vec![call("F", "x", "y")], Vec::new());
    endless.opset_import.push(import.clone());
    endless.functions = vec![function("F", vec![call("F", "a", "b")])];
    assert_complains(&endless, &["without end"]);
    let mut bomb = model(vec![call("F0", "x", "y")], Vec::new());
    bomb.opset_import.push(import.clone());
    let ten = |next: String| {
        let name = |k: usize| {
            if k == 0 {
                "a".to_owned()
            } else if k == 10 {
                "b".to_owned()
            } else {
                format!("t{k}")
            }
        };
        (0..10).map(|k| call(&next, &name(k), &name(k + 1))).collect::<Vec<_>>()
    };
    bomb.functions = (0..9).map(|k| function(&format!("F{k}"), ten(format!("F{}", k + 1)))).collect();
    bomb.functions.push(function("F9", vec![node("Relu", &["a"], &["b"])]));
    assert_complains(&bomb, &["nodes of one graph"]);
    let mut sound = model(vec![call("F", "x", "y")], Vec::new());
    sound.opset_import.push(import.clone());
    sound.functions = vec![function("F", vec![node("Relu", &["a"], &["t"]), node("Neg", &["t"], &["b"])])];
    let folder = tempfile::tempdir().unwrap();
    let x = Tensor::ones([2, 4], (Kind::Float, Device::Cpu));
    assert_eq!(complaint_of(&written(folder.path(), &sound), &x), Ok(vec![2, 4]));
}

#[test]
fn functions_that_hold_nothing_are_counted_too() {
    let import = OperatorSetIdProto { domain: "own".to_owned(), version: 1 };
    let call = |name: String| NodeProto { domain: "own".to_owned(), ..node(&name, &[], &[]) };
    let function = |k: usize, nodes: Vec<NodeProto>| FunctionProto {
        name: format!("F{k}"),
        domain: "own".to_owned(),
        node: nodes,
        opset_import: vec![import.clone()],
        ..FunctionProto::default()
    };
    let mut bomb = model(vec![call("F0".to_owned()), node("Relu", &["x"], &["y"])], Vec::new());
    bomb.opset_import.push(import.clone());
    bomb.functions = (0..15).map(|k| function(k, (0..10).map(|_| call(format!("F{}", k + 1))).collect())).collect();
    bomb.functions.push(function(15, Vec::new()));
    assert_complains(&bomb, &["nodes of one graph"]);
}

#[test]
fn functions_of_one_name_are_told_apart() {
    let import = OperatorSetIdProto { domain: "own".to_owned(), version: 1 };
    let function = |overload: &str, operator: &str| FunctionProto {
        name: "F".to_owned(),
        domain: "own".to_owned(),
        overload: overload.to_owned(),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        node: vec![node(operator, &["a"], &["b"])],
        opset_import: vec![import.clone(), OperatorSetIdProto { domain: String::new(), version: 17 }],
        ..FunctionProto::default()
    };
    let call = NodeProto { domain: "own".to_owned(), overload: "one".to_owned(), ..node("F", &["x"], &["y"]) };
    let mut both = model(vec![call], Vec::new());
    both.opset_import.push(import.clone());
    both.functions = vec![function("one", "Neg"), function("two", "Relu")];
    let folder = tempfile::tempdir().unwrap();
    let graph = Graph::read(&written(folder.path(), &both)).unwrap();
    let x = Tensor::ones([2, 4], (Kind::Float, Device::Cpu));
    let y = Plain::new(&graph, Kind::Float).unwrap().run(&[x]).unwrap();
    assert!(y[0].double_value(&[0, 0]) < 0.0);
    both.functions[1].overload = "one".to_owned();
    assert_complains(&both, &["`F` is there twice"]);
}

/// An axis of 0 makes a tensor without numbers; what is made on the way has the lengths of the others.
#[test]
fn empty_tensors_excuse_no_sizes() {
    for dims in [[0, 1 << 62], [0, 10_000_000_000]] {
        let split = NodeProto { attribute: vec![int("axis", 1)], ..node("SplitToSequence", &["c"], &["s"]) };
        let at = vec![split, node("SequenceAt", &["s", "i"], &["y"])];
        let zero = TensorProto { dims: Vec::new(), ..whole("i", &[0]) };
        assert_complains(&model(at, vec![floats("c", &dims), zero]), &["initialiser `c`"]);
        let made = vec![node("ConstantOfShape", &["d"], &["c"]), node("Relu", &["c"], &["y"])];
        assert_complains(&model(made, vec![whole("d", &dims)]), &["limit"]);
    }
    let split = NodeProto { attribute: vec![int("axis", 1)], ..node("SplitToSequence", &["c"], &["s"]) };
    let at = vec![split, node("SequenceAt", &["s", "i"], &["y"])];
    let zero = TensorProto { dims: Vec::new(), ..whole("i", &[0]) };
    assert_complains(&model(at, vec![floats("c", &[0, 1 << 30]), zero]), &["1073741824 parts"]);
    let depth = TensorProto { dims: Vec::new(), ..whole("depth", &[10_000_000_000]) };
    let hot = vec![node("OneHot", &["places", "depth", "values"], &["y"])];
    assert_complains(&model(hot, vec![whole("places", &[]), depth, whole("values", &[0, 1])]), &["limit"]);
}

#[test]
fn blocks_that_no_number_counts_are_refused() {
    for operator in ["DepthToSpace", "SpaceToDepth"] {
        let turn = NodeProto { attribute: vec![int("blocksize", 1 << 32)], ..node(operator, &["c"], &["y"]) };
        assert_complains(&model(vec![turn], vec![floats("c", &[1, 0, 2, 2])]), &["blocksize"]);
    }
    let turn = NodeProto { attribute: vec![int("blocksize", 2)], ..node("DepthToSpace", &["c"], &["y"]) };
    assert_complains(&model(vec![turn], vec![floats("c", &[1, 0, 2, 2])]), &["0 channels"]);
}

/// The processor stops a program that divides the smallest whole number by −1.
#[test]
fn the_smallest_whole_number_is_divided() {
    for (operator, like_c, wanted) in
        [("Div", false, [i64::MIN, -3, 2]), ("Mod", false, [0, 0, 1]), ("Mod", true, [0, 0, 1])]
    {
        let attribute = if like_c { vec![int("fmod", 1)] } else { Vec::new() };
        let divide = NodeProto { attribute, ..node(operator, &["a", "b"], &["q"]) };
        let sum = vec![divide, node("Cast", &["x"], &["w"]), node("Add", &["w", "q"], &["y"])];
        let mut divided = model(sum, vec![whole("a", &[i64::MIN, 3, 7]), whole("b", &[-1, -1, 3])]);
        divided.graph.as_mut().unwrap().node[1].attribute = vec![int("to", 7)];
        let folder = tempfile::tempdir().unwrap();
        let graph = Graph::read(&written(folder.path(), &divided)).unwrap();
        let x = Tensor::zeros([1, 3], (Kind::Float, Device::Cpu));
        let y = Plain::new(&graph, Kind::Float).unwrap().run(&[x]).unwrap();
        assert_eq!(Vec::<i64>::try_from(y[0].reshape([-1])).unwrap(), wanted, "{operator}");
    }
}

#[test]
fn a_declared_input_is_checked_before_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let mut large = model(vec![node("Relu", &["x"], &["y"])], Vec::new());
    let axis = |size| DimensionProto { value: Some(Length::Fixed(size)) };
    let shape = Some(TensorShapeProto { dim: vec![axis(1), axis(10_000_000_000)] });
    let tensor_type = Some(TensorTypeProto { elem_type: 1, shape });
    large.graph.as_mut().unwrap().input[0].r#type = Some(TypeProto { tensor_type });
    let graph = Graph::read(&written(folder.path(), &large)).unwrap();
    let said = Inspection::new(graph, &Wanted::default(), None).to_string();
    assert!(said.contains("FIDGP_LIMIT_ELEMENTS"), "{said}");
}

#[test]
fn formats_and_types_that_do_not_fit_are_refused() {
    let mut old = model(vec![node("Relu", &["x"], &["y"])], Vec::new());
    old.ir_version = 2;
    assert_complains(&old, &["IR", "version 2"]);
    let folder = tempfile::tempdir().unwrap();
    let weight =
        TensorProto { data_type: 11, float_data: Vec::new(), double_data: vec![0.5; 8], ..floats("w", &[4, 2]) };
    let double = model(vec![node("MatMul", &["x", "w"], &["y"])], vec![weight]);
    let graph = Graph::read(&written(folder.path(), &double)).unwrap();
    let said = Import::new(graph, &Wanted::default()).unwrap_err().to_string();
    assert!(said.contains("`w` is in f64"), "{said}");
}

#[test]
fn values_used_twice_again_and_again_take_no_time() {
    let sums = (0..60).map(|k| {
        let from = if k == 0 { "c".to_owned() } else { format!("s{}", k - 1) };
        node("Add", &[&from, &from], &[&format!("s{k}")])
    });
    let nodes = sums.chain([node("Add", &["x", "s59"], &["y"])]).collect();
    let folder = tempfile::tempdir().unwrap();
    let x = Tensor::ones([2, 4], (Kind::Float, Device::Cpu));
    let graph = model(nodes, vec![floats("c", &[4])]);
    assert_eq!(complaint_of(&written(folder.path(), &graph), &x), Ok(vec![2, 4]));
}

#[test]
fn external_data_stays_in_the_folder() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("model");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(outer.path().join("secret"), [0u8; 64]).unwrap();
    std::fs::write(folder.join("data"), [0u8; 16]).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(outer.path().join("secret"), folder.join("link")).unwrap();
    let entry = |key: &str, value: &str| StringStringEntryProto { key: key.to_owned(), value: value.to_owned() };
    let with = |entries: Vec<StringStringEntryProto>, dims: &[i64]| {
        let tensor =
            TensorProto { float_data: Vec::new(), data_location: 1, external_data: entries, ..floats("c", dims) };
        model(vec![node("Add", &["x", "c"], &["y"])], vec![tensor])
    };
    let x = Tensor::ones([2, 4], (Kind::Float, Device::Cpu));
    let said = |model: &ModelProto| complaint_of(&written(&folder, model), &x);
    let secret = outer.path().join("secret");
    for location in ["../secret", "/etc/passwd", "a/../../secret", secret.to_str().unwrap()] {
        let complaint = said(&with(vec![entry("location", location)], &[4])).unwrap_err();
        assert!(complaint.contains("outside the model's folder"), "{complaint}");
    }
    let link = said(&with(vec![entry("location", "link")], &[4])).unwrap_err();
    assert!(link.contains("link out of the model's folder"), "{link}");
    let missing = said(&with(vec![entry("location", "none")], &[4])).unwrap_err();
    assert!(missing.contains("copy it beside the model"), "{missing}");
    let short = said(&with(vec![entry("location", "data"), entry("offset", "8")], &[4])).unwrap_err();
    assert!(short.contains("past its end"), "{short}");
    for (key, value) in
        [("offset", "18446744073709551615"), ("offset", "-3"), ("length", "99999999999999"), ("offset", "x")]
    {
        assert!(said(&with(vec![entry("location", "data"), entry(key, value)], &[4])).is_err(), "{key} {value}");
    }
    let huge = said(&with(vec![entry("location", "data")], &[1_000_000_000])).unwrap_err();
    assert!(huge.contains("past its end"), "{huge}");
    assert_eq!(said(&with(vec![entry("location", "data")], &[4])), Ok(vec![2, 4]));
}

fn small() -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mlp_batch_norm.script.onnx");
    std::fs::read(file).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_files_never_panic(place in 0usize..4000, byte in any::<u8>(), length in 0usize..4000) {
        let mut bytes = small();
        let size = bytes.len();
        bytes[place % size] = byte;
        bytes.truncate(size - length % size * usize::from(byte % 3 == 0));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.onnx");
        std::fs::write(&file, bytes).unwrap();
        _ = complaint_of(&file, &Tensor::ones([2, 6], (Kind::Float, Device::Cpu)));
    }
}
