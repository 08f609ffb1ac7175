//! Networks of other frameworks: looked at, run, trained on pictures, and written again.

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use crate::{Place, fixture};

pub const CONFIG: &str = r#"
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
init_lamda = 0.3
max_lamda = 1.0
[likelihood]
kind = "categorical"
[train]
epochs = 2
batch_size = 20
optimiser = { kind = "adam", learning_rate = 0.01 }
[predict]
draws = 3
"#;

pub fn graph(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fidgp-onnx/tests/fixtures").join(name)
}

fn place() -> Place {
    let place = Place::new();
    place.write("small.toml", CONFIG);
    fs::copy(graph("pictures.dynamo.onnx"), place.path("pictures.onnx")).unwrap();
    place
}

pub fn numbers(file: &Path, name: &str) -> Vec<f32> {
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
pub fn write(file: &Path, name: &str, shape: Vec<usize>, numbers: &[f32]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, shape, &bytes).unwrap();
    fs::write(file, safetensors::serialize([(name, view)], None).unwrap()).unwrap();
}

/// A picture as `picture.png`, and its pixels, channel by channel.
pub fn picture(place: &Place) -> Vec<f32> {
    let pixels: Vec<u8> = (0..3 * 32 * 32).map(|i: u32| (i * 37 % 251) as u8).collect();
    let rgb: Vec<u8> = (0..32 * 32).flat_map(|at| (0..3).map(move |c| c * 32 * 32 + at)).map(|at| pixels[at]).collect();
    image::RgbImage::from_raw(32, 32, rgb).unwrap().save(place.path("picture.png")).unwrap();
    pixels.iter().map(|pixel| f32::from(*pixel)).collect()
}

#[test]
fn a_file_is_looked_at() {
    let place = place();
    let said = place.fidgp(&["onnx", "inspect", "pictures.onnx"]).ends(0);
    for words in ["conv 3x3 3>8 /2", "conv1 ", "batch norm 8", "linear 8>10", "gives logits", "Bayesian", "16x16"] {
        assert!(said.out.contains(words), "`{words}` is not in\n{}", said.out);
    }
    place.write("broken.onnx", "no graph");
    place.fidgp(&["onnx", "inspect", "broken.onnx"]).ends(2).says(&["broken.onnx", "is no ONNX model"]);
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
    // what lies at the place, and beside it, is not written through
    fs::write(place.path("precious"), "mine").unwrap();
    fs::remove_file(place.path("out.safetensors")).unwrap();
    for link in ["out.safetensors", "out.partial"] {
        std::os::unix::fs::symlink(place.path("precious"), place.path(link)).unwrap();
    }
    place.fidgp(&run).ends(0);
    assert_eq!(fs::read_to_string(place.path("precious")).unwrap(), "mine");
    assert_eq!(numbers(&place.path("out.safetensors"), "output"), ours);
    write(&place.path("in.safetensors"), "other", vec![1], &[1.0]);
    place.fidgp(&run).ends(1).says(&["no tensor `input`", "other"]);
}

/// What is trained on a graph goes out as a graph that gives what `predict` gives, and as a plain state dict.
#[test]
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
    for draws in ["0", "linearised"] {
        let words = ["export", "run", "--format", "onnx", "--draws", draws, "--out", "no.onnx", "--data", data];
        place.fidgp(&words).ends(2).says(&["--draws", draws]);
    }
    place.fidgp(&["export", "run", "--out", "model", "--data", data]).ends(0);
    assert_eq!(numbers(&place.path("mean.safetensors"), "fc.weight").len(), 800);
    assert_eq!(numbers(&place.path("mean.safetensors"), "bn2.running_var").len(), 8);

    let floats = picture(&place);
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
    assert!(out("epistemic")[0] > 1e-3, "draws differ: {:?}", out("epistemic"));

    let half = ["export", "run", "--format", "onnx", "--dtype", "f16", "--out", "half.onnx", "--data", data];
    place.fidgp(&half).ends(0);
    let size = |file: &str| fs::metadata(place.path(file)).unwrap().len();
    assert!(size("half.onnx") < size("draws.onnx"), "{} {}", size("half.onnx"), size("draws.onnx"));
    let whole = out("probabilities");
    place.fidgp(&["onnx", "run", "half.onnx", "--inputs", "in.safetensors", "--out", "out.safetensors"]).ends(0);
    let apart = whole.iter().zip(out("probabilities")).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart > 0.0 && apart < 1e-3, "{apart}");
    let said = place.fidgp(&["onnx", "inspect", "draws.onnx"]).ends(1).out; // which output is not clear
    assert!(said.contains("say which with"), "{said}");
    for words in ["fidgp.source_sha256: ", "fidgp.weights: 3 posterior draws", "fidgp.commit: "] {
        assert!(said.contains(words), "`{words}` is not in\n{said}");
    }
    place.fidgp(&["fit-posterior", "run", "--device", "cpu", "--data", data]).ends(0);
    place.fidgp(&["predict", "run", "picture.png", "--device", "cpu"]).ends(0);
}

/// A graph without a config: wrapped, trained, scored, reported.
#[test]
fn a_graph_is_wrapped_trained_scored_and_reported() {
    let place = place();
    let (data, pictures) = (fixture("cifar100-small"), fixture("cifar100-pictures"));
    let on = ["--device", "cpu", "--threads", "1", "--data", data.to_str().unwrap()];
    let wrap = |more: &[&str]| place.fidgp(&[&["wrap", "pictures.onnx"], &on[..], more].concat());
    wrap(&[]).ends(2).says(&["data.name", "--set data.name=cifar10", "normalisation"]);
    let set = ["--set", "data.name=cifar100"];
    wrap(&set).ends(2).says(&["normalisation", "a graph does not say how its images are normalised"]);
    let small = ["normalisation=imagenet", "train.epochs=1", "train.batch_size=20", "start.statistics_images=16"];
    let small = small.into_iter().flat_map(|change| ["--set", change]);
    let words: Vec<_> = set.into_iter().chain(small).chain(["--out", "run"]).collect();
    let said = wrap(&words).ends(0).says(&["head `fc`", "fidgp train --resume run"]);
    assert!(said.out.contains("conv1") && said.out.contains("energy %"), "{}", said.out);
    place.fidgp(&[&["train", "--resume", "run"], &on[..]].concat()).ends(0);
    let ood = ["ood", "run", "--ood", pictures.to_str().unwrap(), "--draws", "0", "--batch", "16", "--device", "cpu"];
    let said = place.fidgp(&[&ood[..], &["--data", data.to_str().unwrap()]].concat()).ends(0);
    assert!(said.out.contains("mahalanobis"), "{}", said.out);
    place.fidgp(&["report", "run"]).ends(0);
    assert!(fs::read_to_string(place.path("run/report.html")).unwrap().contains("pictures"));
}

/// Ten classes, as the file's head has them: the pictures of CIFAR-100, their labels by the last digit.
pub fn ten_classes(place: &Place) {
    for part in ["train", "test"] {
        let content = fs::read(fixture("cifar100-small").join(format!("cifar-100-binary/{part}.bin"))).unwrap();
        let records = content.chunks_exact(3074);
        let labels: Vec<u8> = records.clone().map(|record| record[1] % 10).collect();
        let pixels: Vec<u8> = records.flat_map(|record| record[2..].to_vec()).collect();
        let (labels, n) = (&labels, labels.len());
        let view = |shape: Vec<usize>, bytes| TensorView::new(Dtype::U8, shape, bytes).unwrap();
        let all = [("labels", view(vec![n], labels)), ("images", view(vec![n, 3, 32, 32], &pixels))];
        fs::create_dir_all(place.path("mine")).unwrap();
        fs::write(place.path(&format!("mine/{part}.safetensors")), safetensors::serialize(all, None).unwrap()).unwrap();
    }
}

/// A table of six columns, and a network for it that another framework made.
const TABLE: &str = r#"
name = "six"
method = "fidgp"
seed = 2
[data]
set = "table"
path = "six.csv"
target = "y"
test_fraction = 0.2
validation_fraction = 0.2
[network]
kind = "onnx"
path = "six.onnx"
[inducing]
inducing_rows = 6
inducing_cols = 6
init_lamda = 0.1
max_lamda = 1.0
[posterior]
kind = "linearised"
[likelihood]
kind = "gaussian"
noise = { kind = "learnt", init_sd = 0.3 }
[train]
epochs = 20
batch_size = 32
optimiser = { kind = "adam", learning_rate = 0.01 }
"#;

/// Mean, deviation and what the weights leave open, in closed form from any runtime: near the data and far from them.
#[test]
fn a_linearised_posterior_goes_out_as_one_graph() {
    let place = Place::new();
    place.write("six.toml", TABLE);
    fs::copy(graph("mlp_batch_norm.dynamo.onnx"), place.path("six.onnx")).unwrap();
    let rows = (0..200).map(|row| {
        let x: Vec<f64> = [37, 59, 83, 17, 29, 71].iter().map(|factor| f64::from(row * factor % 101) / 20.0).collect();
        format!("{},{}\n", x.iter().map(f64::to_string).collect::<Vec<_>>().join(","), 3.0 * x[0] - x[1] * x[2])
    });
    place.write("data/six.csv", &("a,b,c,d,e,f,y\n".to_owned() + &rows.collect::<String>()));
    let train = |run: &str, more: &[&str]| {
        let words = ["train", "six.toml", "--device", "cpu", "--data", "data", "--out", run];
        place.fidgp(&[&words[..], more].concat()).ends(0)
    };
    let given: [f32; 18] =
        [1.0, 2.0, 3.0, 1.0, 2.0, 0.5, 4.0, 0.2, 1.3, 2.5, 3.0, 1.0, 40.0, -20.0, 9.0, 30.0, 2.0, -50.0];
    let text = given.chunks(6).map(|row| row.iter().map(f32::to_string).collect::<Vec<_>>().join(",") + "\n");
    place.write("rows.csv", &("a,b,c,d,e,f\n".to_owned() + &text.collect::<String>()));
    write(&place.path("in.safetensors"), "input", vec![3, 6], &given);
    for (run, more) in [
        ("dropped", &[][..]),
        ("kept", &["--set", "posterior.conditional=kept", "--set", "posterior.structure=low-rank"]),
    ] {
        train(run, more);
        let file = format!("{run}.onnx");
        let export =
            |more: &[&str]| place.fidgp(&[&["export", run, "--format", "onnx", "--out", &file], more].concat());
        export(&[]).ends(2).says(&["--draws", "linearised posterior"]);
        export(&["--draws", "linearised"]).ends(0);
        place.fidgp(&["onnx", "run", &file, "--inputs", "in.safetensors", "--out", "out.safetensors"]).ends(0);
        let said = place.fidgp(&["predict", run, "rows.csv", "--device", "cpu", "--json"]).ends(0);
        let said: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        let far = numbers(&place.path("out.safetensors"), "epistemic");
        assert!(far[2] > 3.0 * far[0], "far from the data there is more uncertainty: {far:?}");
        for (name, field) in [("mean", "mean"), ("sd", "sd"), ("epistemic", "epistemic_sd"), ("aleatoric", "noise_sd")]
        {
            let ours = numbers(&place.path("out.safetensors"), name);
            for (row, ours) in ours.iter().enumerate() {
                let wanted = said["inputs"][row]["prediction"][field].as_f64().unwrap();
                let apart = (f64::from(*ours) - wanted).abs();
                assert!(apart < 1e-4 * wanted.abs().max(1.0), "{run}, {name}, {row}: {ours} {wanted}");
            }
        }
    }
}

/// With as many inducing rows and columns as weights the graph that goes out is the one that came in; with fewer, every
/// weight is as far from it as was reported.
#[test]
fn what_goes_out_is_what_came_in_but_for_the_truncation() {
    let place = place();
    ten_classes(&place);
    let wrap = |run: &str, sizes: &str| {
        let sizes = [format!("inducing.inducing_rows={sizes}"), format!("inducing.inducing_cols={sizes}")];
        let mine = "data={set=\"arrays\", path=\"mine\", classes=10, image=[3,32,32]}";
        let words = ["wrap", "pictures.onnx", "--set", mine, "--set", "normalisation=imagenet", "--set", &sizes[0]];
        let more = ["--set", &sizes[1], "--set", "start.statistics_images=0", "--out", run, "--json", "--data", "."];
        let said = place.fidgp(&[&words[..], &more[..], &["--device", "cpu"]].concat()).ends(0);
        assert!(!said.err.contains("head `fc`"), "{}", said.err);
        for (format, out) in [("onnx", "onnx"), ("torch", "safetensors")] {
            let out = format!("{run}.{out}");
            place.fidgp(&["export", run, "--format", format, "--draws", "mean", "--out", &out]).ends(0);
        }
        serde_json::from_str::<serde_json::Value>(&said.out).unwrap()
    };
    let pixels: Vec<f32> = (0..2 * 3 * 32 * 32).map(|i: u32| (i * 37 % 251) as f32).collect();
    let (mean, sd) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
    let normalised = |(i, x): (usize, &f32)| (x / 255.0 - mean[i / 1024 % 3]) / sd[i / 1024 % 3];
    let normalised: Vec<f32> = pixels.iter().enumerate().map(normalised).collect();
    let outputs = |file: &str, pixels: &[f32], name: &str| {
        write(&place.path("in.safetensors"), "input", vec![2, 3, 32, 32], pixels);
        place.fidgp(&["onnx", "run", file, "--inputs", "in.safetensors", "--out", "out.safetensors"]).ends(0);
        numbers(&place.path("out.safetensors"), name)
    };
    let before = outputs("pictures.onnx", &normalised, "output");
    let apart = |after: &[f32]| before.iter().zip(after).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);

    wrap("whole", "100");
    let after = outputs("whole.onnx", &pixels, "probabilities");
    assert!(after.len() == 20 && apart(&after) < 1e-5, "{}", apart(&after));
    let report = wrap("low", "3");
    assert!(apart(&outputs("low.onnx", &pixels, "probabilities")) > 1e-4);
    for layer in report["start"]["layers"].as_array().unwrap() {
        let weight = format!("{}.weight", layer["name"].as_str().unwrap());
        let [low, whole] = ["low", "whole"].map(|run| numbers(&place.path(&format!("{run}.safetensors")), &weight));
        let square = |numbers: &[f32]| numbers.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
        let difference: Vec<f32> = low.iter().zip(&whole).map(|(a, b)| a - b).collect();
        let (error, reported) = ((square(&difference) / square(&whole)).sqrt(), layer["error"].as_f64().unwrap());
        let with_bias = weight.starts_with("fc"); // reported for weight and bias together
        assert!(reported > 0.05 && (with_bias || (error / reported - 1.0).abs() < 1e-2), "{error} {layer}");
    }
}

#[test]
fn a_curve_goes_out_as_a_graph_and_as_a_state_dict() {
    let place = Place::new();
    place.train(&[]).ends(0);
    place.fidgp(&["export", "run", "--format", "onnx", "--out", "a.onnx"]).ends(0).says(&["outputs: mean, sd"]);
    place.fidgp(&["export", "run", "--format", "torch", "--out", "a.safetensors"]).ends(0);
    assert_eq!(numbers(&place.path("a.safetensors"), "fc1.weight").len(), 10);
}
