//! Networks of other frameworks: looked at, run, trained on pictures, and written again.

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use crate::{Place, fixture};

const CONFIG: &str = r#"
name = "small"
method = "fidgp"
seed = 5
normalisation = "imagenet"
[data]
set = "images"
name = "cifar100"
[network]
kind = "onnx"
path = "pictures.onnx"
[start]
weights = "pictures.onnx"
statistics_images = 0
[inducing]
inducing_rows = 4
inducing_cols = 4
[likelihood]
kind = "categorical"
[train]
epochs = 2
batch_size = 20
optimiser = { kind = "adam", learning_rate = 0.01 }
[predict]
draws = 3
"#;

fn graph(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fidgp-onnx/tests/fixtures").join(name)
}

fn place() -> Place {
    let place = Place::new();
    place.write("small.toml", CONFIG);
    fs::copy(graph("pictures.dynamo.onnx"), place.path("pictures.onnx")).unwrap();
    place
}

fn numbers(file: &Path, name: &str) -> Vec<f32> {
    let bytes = fs::read(file).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    tensors
        .tensor(name)
        .unwrap()
        .data()
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
        .collect()
}

/// A file with one tensor in f32.
fn write(file: &Path, name: &str, shape: Vec<usize>, numbers: &[f32]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, shape, &bytes).unwrap();
    fs::write(file, safetensors::serialize([(name, view)], None).unwrap()).unwrap();
}

#[test]
#[ignore = "fails: convolutions of this fixture are taken for plain parameters by the command"]
fn a_file_is_looked_at() {
    let place = place();
    let said = place.fidgp(&["onnx", "inspect", "pictures.onnx"]).ends(0);
    for words in ["conv 3x3 3>8 /2", "conv1 ", "batch norm 8", "linear 8>10", "gives logits", "Bayesian", "16x16"] {
        assert!(said.out.contains(words), "`{words}` is not in\n{}", said.out);
    }
    place.write("broken.onnx", "no graph");
    place.fidgp(&["onnx", "inspect", "broken.onnx"]).ends(1).says(&["broken.onnx", "is no ONNX model"]);
    assert!(place.fidgp(&["onnx", "operators"]).ends(0).out.contains("\nConvTranspose\n"));
}

#[test]
fn a_graph_is_run_as_it_is() {
    let place = place();
    let stored = graph("pictures.dynamo.safetensors");
    write(&place.path("in.safetensors"), "input", vec![2, 3, 32, 32], &numbers(&stored, "in.input"));
    let run = ["onnx", "run", "pictures.onnx", "--inputs", "in.safetensors", "--out", "out.safetensors"];
    place.fidgp(&run).ends(0);
    let (ours, theirs) = (numbers(&place.path("out.safetensors"), "output"), numbers(&stored, "out.output"));
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < 1e-5), "{ours:?} {theirs:?}");
    write(&place.path("in.safetensors"), "other", vec![1], &[1.0]);
    place.fidgp(&run).ends(1).says(&["no tensor `input`", "other"]);
}

/// What is trained on a graph goes out as a graph that gives what `predict` gives, and as a plain state dict.
#[test]
#[ignore = "fails: the exported graph has 10 outputs where the run has 100 classes"]
fn a_graph_is_trained_and_written_again() {
    let place = place();
    let data = fixture("cifar100-small");
    let data = data.to_str().unwrap();
    let on = ["--device", "cpu", "--threads", "1", "--data", data];
    place.fidgp(&[&["train", "small.toml", "--out", "run"], &on[..]].concat()).ends(0).says(&["head `fc`"]);
    place.fidgp(&[&["wrap", "small.toml"], &on[..]].concat()).ends(0);

    for (format, out) in [("onnx", "draws.onnx"), ("torch", "mean.safetensors")] {
        place.fidgp(&["export", "run", "--format", format, "--out", out, "--data", data]).ends(0);
    }
    place
        .fidgp(&["export", "run", "--format", "onnx", "--draws", "mean", "--out", "mean.onnx", "--data", data])
        .ends(0);
    place.fidgp(&["export", "run", "--format", "onnx", "--draws", "0", "--out", "no.onnx", "--data", data]).ends(2);
    place.fidgp(&["export", "run", "--out", "model", "--data", data]).ends(0);
    assert_eq!(numbers(&place.path("mean.safetensors"), "fc.weight").len(), 800);
    assert_eq!(numbers(&place.path("mean.safetensors"), "bn2.running_var").len(), 8);

    let pixels: Vec<u8> = (0..3 * 32 * 32).map(|i: u32| (i * 37 % 251) as u8).collect();
    let rgb: Vec<u8> = (0..32 * 32).flat_map(|at| (0..3).map(move |c| c * 32 * 32 + at)).map(|at| pixels[at]).collect();
    image::RgbImage::from_raw(32, 32, rgb).unwrap().save(place.path("picture.png")).unwrap();
    let floats: Vec<f32> = pixels.iter().map(|pixel| f32::from(*pixel)).collect();
    write(&place.path("in.safetensors"), "input", vec![1, 3, 32, 32], &floats);
    place.fidgp(&["onnx", "run", "draws.onnx", "--inputs", "in.safetensors", "--out", "out.safetensors"]).ends(0);
    let said = place.fidgp(&["predict", "model", "picture.png", "--device", "cpu", "--json", "--top", "100"]).ends(0);
    let said: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let said = &said["inputs"][0];
    let out = |name: &str| numbers(&place.path("out.safetensors"), name);
    for top in said["top"].as_array().unwrap() {
        let (index, probability) = (top["index"].as_u64().unwrap() as usize, top["probability"].as_f64().unwrap());
        assert!((f64::from(out("probabilities")[index]) - probability).abs() < 1e-4, "class {index}: {said}");
    }
    for name in ["total", "aleatoric", "epistemic"] {
        assert!(
            (f64::from(out(name)[0]) - said[name].as_f64().unwrap()).abs() < 1e-4,
            "{name}: {:?} {said}",
            out(name)
        );
    }
    assert!(out("epistemic")[0] > 0.0);
}

#[test]
fn a_network_that_is_no_graph_goes_out_as_a_state_dict_alone() {
    let place = Place::new();
    place.train(&[]).ends(0);
    place.fidgp(&["export", "run", "--format", "onnx", "--out", "a.onnx"]).ends(2).says(&["--format torch"]);
    place.fidgp(&["export", "run", "--format", "torch", "--out", "a.safetensors"]).ends(0);
    assert_eq!(numbers(&place.path("a.safetensors"), "fc1.weight").len(), 10);
}
