//! A trained network measured again; and images from files to metrics.

use std::fs;
use std::sync::LazyLock;

use serde_json::Value;

use crate::Place;
use crate::configs::{self, changed};

fn metrics(text: &str) -> Value {
    serde_json::from_str::<Value>(text).unwrap()["metrics"].clone()
}

/// The same metrics up to the rounding of f32: parameters lie elsewhere in memory than in training.
fn alike(a: &Value, b: &Value) -> bool {
    let (a, b) = (a.as_object().unwrap(), b.as_object().unwrap());
    let close = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-4 * b.abs().max(1e-2),
        (a, b) => a == b,
    };
    a.len() == b.len() && a.iter().all(|(name, value)| b.get(name).is_some_and(|other| close(value, other)))
}

#[test]
fn the_same_draws_give_the_recorded_numbers_and_nothing_is_written() {
    let place = Place::new();
    place.train(&[]).ends(0);
    let run = place.0.path().join("run");
    let before = crate::contents(&run);
    let again = place.fidgp(&["eval", "run", "--device", "cpu", "--json"]).ends(0);
    let recorded = fs::read_to_string(run.join("results.json")).unwrap();
    assert!(alike(&metrics(&again.out), &metrics(&recorded)), "{} {recorded}", again.out);
    let more = place.fidgp(&["eval", "run", "--device", "cpu", "--json", "--draws", "9"]).ends(0);
    assert!(!alike(&metrics(&more.out), &metrics(&recorded)));
    assert_eq!(crate::contents(&run), before);
}

#[test]
fn what_cannot_be_measured_is_said() {
    let place = Place::new();
    place.fidgp(&["eval", "nowhere"]).ends(2).says(&["`nowhere` is neither a run folder"]);
    place.train(&[]).ends(0);
    place.fidgp(&["eval", "run", "--draws", "0"]).ends(2).says(&["predict.draws"]);
    let checkpoint = place.0.path().join("run/checkpoint/last.safetensors");
    let whole = fs::read(&checkpoint).unwrap();
    fs::write(&checkpoint, &whole[..whole.len() / 2]).unwrap();
    place.fidgp(&["eval", "run"]).ends(1).says(&["last.safetensors"]);
}

/// Twenty images in each file; class k is brighter than class k − 1, so there is something to learn.
pub(crate) fn write_cifar10(place: &Place) {
    let folder = place.0.path().join("data/cifar-10-batches-bin");
    fs::create_dir_all(&folder).unwrap();
    let names: Vec<_> = (1..=5).map(|i| format!("data_batch_{i}.bin")).chain(["test_batch.bin".to_owned()]).collect();
    for (file, name) in names.iter().enumerate() {
        let image = |row: usize| {
            let label = (row % 10) as u8;
            let pixels = (0..3072).map(move |pixel| 25 * label + ((pixel * 7 + row * 3 + file) % 20) as u8);
            std::iter::once(label).chain(pixels)
        };
        fs::write(folder.join(name), (0..20).flat_map(image).collect::<Vec<u8>>()).unwrap();
    }
    let classes: Vec<_> = (0..10).map(|class| format!("class{class}")).collect();
    fs::write(folder.join("batches.meta.txt"), classes.join("\n") + "\n").unwrap();
}

pub(crate) static IMAGES: LazyLock<String> = LazyLock::new(|| {
    changed(
        configs::IMAGES,
        r#"
method = "fidgp"
seed = 3
data.validation_fraction = 0.2
network = { kind = "resnet-cifar", depth = 8 }
inducing = { inducing_rows = 8, inducing_cols = 8 }
likelihood.smoothing = 0.05
train = { epochs = 12, kl.weight = 0.01, select = "best" }
predict.draws = 2
"#,
    )
});

/// Chance is 0.1; brightness alone tells the classes apart, so a network that learns at all is far above it.
#[test]
fn images_are_learnt_from_files_to_metrics_and_back() {
    let place = Place::new();
    write_cifar10(&place);
    fs::write(place.0.path().join("images.toml"), &*IMAGES).unwrap();
    place.fidgp(&["train", "images.toml", "--device", "cpu", "--data", "data", "--out", "run"]).ends(0);
    let recorded = fs::read_to_string(place.0.path().join("run/results.json")).unwrap();
    let values = metrics(&recorded);
    assert!(values["cls/Acc"].as_f64().unwrap() >= 0.3, "{values}");
    assert!(values["validation/cls/NLL"].as_f64().is_some() && values["cal/ECE"].as_f64().is_some(), "{values}");
    let again = place.fidgp(&["eval", "run", "--device", "cpu", "--data", "data", "--json"]).ends(0);
    assert!(alike(&metrics(&again.out), &values), "{} {values}", again.out);
    place.fidgp(&["report", "run"]).ends(0);
    // without the training images the test images are left to be measured
    fs::remove_file(place.path("data/cifar-10-batches-bin/data_batch_3.bin")).unwrap();
    let again = place.fidgp(&["eval", "run", "--device", "cpu", "--data", "data", "--json"]).ends(0);
    let (again, told) = (metrics(&again.out), again.says(&["only the test images are measured", "data_batch_3.bin"]));
    assert!((again["cls/NLL"].as_f64().unwrap() / values["cls/NLL"].as_f64().unwrap() - 1.0).abs() < 1e-4, "{told:?}");
    assert!(again["validation/cls/NLL"].is_null());
}

/// A trained network for other classes: all layers but the head.
#[test]
fn a_head_for_other_classes_is_left_behind() {
    let place = Place::new();
    write_cifar10(&place);
    place.write("plain.toml", &crate::wrap::PLAIN);
    let data = crate::fixture("cifar100-small");
    let plain = ["train", "plain.toml", "--device", "cpu", "--data", data.to_str().unwrap(), "--out", "plain"];
    place.fidgp(&plain).ends(0);
    place.write(
        "images.toml",
        &(IMAGES.clone() + "[start]\nweights = \"plain/checkpoint/last.safetensors\"\nstatistics_images = 0\n"),
    );
    let train = |out: &str, more: &[&str]| {
        let words =
            ["train", "images.toml", "--device", "cpu", "--data", "data", "--out", out, "--set", "train.epochs=1"];
        place.fidgp(&[&words[..], more].concat())
    };
    train("whole", &[]).ends(2).says(&["start.weights", "other classes", "start.backbone = true", "[100"]);
    let still = [
        "--set",
        "start.backbone=true",
        "--set",
        "train.optimiser.learning_rate=1e-9",
        "--set",
        "method=deterministic",
    ];
    train("started", &still).ends(0);
    let stem =
        |run: &str| crate::resume::tensor(&place.path(&format!("{run}/checkpoint/last.safetensors")), "conv1.weight");
    let (from, to) = (stem("plain"), stem("started"));
    assert!(!from.is_empty() && from.iter().zip(&to).all(|(a, b)| (a - b).abs() < 1e-5));
}

/// A covariance needs two images of a class: said before the training, not after it.
#[test]
fn ddu_asks_for_two_images_of_a_class_first() {
    let place = Place::new();
    write_cifar10(&place);
    place.write("images.toml", &IMAGES);
    let words = ["train", "images.toml", "--device", "cpu", "--data", "data", "--out", "run", "--set", "method=ddu"];
    let few = ["--set", "data.limit=11", "--set", "data.augment=none"];
    place.fidgp(&[&words[..], &few].concat()).ends(2).says(&["ddu", "has one training image"]);
    assert!(!place.path("run").exists());
}

/// Test images made worse: severity by severity, the same again from the same seed, refused where there are none.
#[test]
fn a_classifier_is_measured_on_corrupted_images() {
    let place = Place::new();
    write_cifar10(&place);
    place.write("run.toml", &changed(configs::IMAGES, "data.name = \"cifar10\"\ntrain.epochs = 1"));
    place.fidgp(&["train", "run.toml", "--device", "cpu", "--data", "data", "--out", "run"]).ends(0);
    let eval = |more: &[&str]| place.fidgp(&[&["eval", "run", "--device", "cpu", "--data", "data"], more].concat());
    let said = eval(&["--corrupt=gaussian-noise,jpeg", "--limit", "12"]).ends(0);
    assert!(said.out.lines().count() == 8 && said.out.starts_with("severity"), "{}", said.out);
    let document = crate::json(&place.path("run/corruptions/corruptions.json"));
    assert_eq!((&document["schema"], &document["images"]), (&"fidgp-corruptions/1".into(), &12.into()));
    assert_eq!(document["corruptions"][1]["name"], "jpeg");
    assert_eq!(document["corruptions"][0]["severities"].as_array().unwrap().len(), 5);
    let page = fs::read_to_string(place.path("run/corruptions/report.html")).unwrap();
    assert!(page.contains("gaussian-noise") && place.path("run/corruptions/corruptions.svg").exists());
    let again = eval(&["--corrupt=gaussian-noise,jpeg", "--limit", "12", "--json", "--out", "other"]).ends(0);
    let again: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!((&again["clean"], &again["mean"]), (&document["clean"], &document["mean"]));
    let plain = eval(&["--json"]).ends(0);
    let accuracy = metrics(&plain.out)["cls/Acc"].as_f64().unwrap();
    let whole = eval(&["--corrupt=fog", "--json"]).ends(0);
    let whole: Value = serde_json::from_str(&whole.out).unwrap();
    assert!((whole["clean"]["accuracy"].as_f64().unwrap() - accuracy).abs() < 1e-9, "{whole}");

    eval(&["--corrupt=snow"]).ends(2).says(&["snow", "fog"]);
    eval(&["--limit", "3"]).ends(2).says(&["--corrupt"]);
    let table = Place::new();
    table.train(&[]).ends(0);
    table.fidgp(&["eval", "run", "--corrupt"]).ends(2).says(&["--corrupt", "for pictures"]);
}
