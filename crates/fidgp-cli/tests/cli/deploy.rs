//! A trained network passed on as a folder, and used on real pictures.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use serde_json::Value;
use tempfile::TempDir;

use crate::configs::{self, changed};
use crate::{Place, fixture, json};

pub static CONFIG: LazyLock<String> = LazyLock::new(|| {
    changed(
        configs::IMAGES,
        r#"
name = "small"
method = "fidgp"
seed = 5
data.name = "cifar100"
network = { kind = "resnet-cifar", depth = 8 }
inducing = { inducing_rows = 24, inducing_cols = 24 }
train = { epochs = 15, schedule = { kind = "cosine", warmup_epochs = 1.0 }, kl.weight = 0.001 }
predict.draws = 4
"#,
    )
});

/// One small training on real images of CIFAR-100, shared by the tests below.
pub fn trained() -> &'static Path {
    static RUN: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, run) = RUN.get_or_init(|| {
        // statics are never dropped: what stays behind is in Cargo's own folder
        let place = Place(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder"));
        place.write("small.toml", &CONFIG);
        let data = fixture("cifar100-small");
        place
            .fidgp(&[
                "train",
                "small.toml",
                "--device",
                "cpu",
                "--data",
                data.to_str().unwrap(),
                "--out",
                "run",
                "--threads",
                "1",
            ])
            .ends(0);
        let run = place.path("run");
        (place.0, run)
    });
    run
}

/// What a trained network is, as `run` in a folder of its own: for commands that write beside it.
pub fn copied(place: &Place) -> PathBuf {
    let run = place.path("run");
    fs::create_dir_all(run.join("checkpoint")).unwrap();
    for file in ["run.toml", "classes.json", "results.json", "checkpoint/last.safetensors"] {
        fs::copy(trained().join(file), run.join(file)).unwrap();
    }
    run
}

fn words(path: &Path) -> &str {
    path.to_str().expect("a readable path")
}

/// Four classes of a hundred: 0.25 is chance for who knows the four, 0.01 for who does not. Bound: 0.6.
#[test]
fn real_images_are_learnt() {
    let metrics = json(&trained().join("results.json"))["metrics"].clone();
    assert!(metrics["cls/Acc"].as_f64().unwrap() >= 0.6, "{metrics}");
}

#[test]
fn a_run_becomes_a_model_folder_that_predicts_the_same() {
    let place = Place::new();
    let pictures = fixture("cifar100-pictures");
    let predict = |model: &str| -> Value {
        let said =
            place.fidgp(&["predict", model, words(&pictures), "--json", "--device", "cpu", "--top", "2"]).ends(0);
        serde_json::from_str(&said.out).unwrap()
    };
    place.fidgp(&["export", words(trained()), "--out", "model"]).ends(0);
    let (of_run, of_model) = (predict(words(trained())), predict("model"));
    assert_eq!(of_run["inputs"], of_model["inputs"]);
    assert_eq!(of_run["inputs"].as_array().unwrap().len(), 8);

    let config = json(&place.path("model/config.json"));
    assert_eq!((&config["id2label"]["0"], &config["dtype"]), (&"apple".into(), &"float32".into()));
    let preprocessor = json(&place.path("model/preprocessor_config.json"));
    assert_eq!(preprocessor["crop_size"], serde_json::json!({"height": 32, "width": 32}));
    assert_eq!(preprocessor["image_mean"].as_array().unwrap().len(), 3);
    let card = fs::read_to_string(place.path("model/README.md")).unwrap();
    assert!(card.contains("| accuracy | 0.") && card.contains("bins 15") && card.contains("tempered"), "{card}");
}

#[test]
fn a_run_and_its_model_folder_measure_the_same() {
    let place = Place::new();
    let data = fixture("cifar100-small");
    place.fidgp(&["export", words(trained()), "--out", "model"]).ends(0);
    let metrics = |model: &str| -> Value {
        let said = place.fidgp(&["eval", model, "--json", "--device", "cpu", "--data", words(&data)]).ends(0);
        serde_json::from_str::<Value>(&said.out).unwrap()["metrics"].clone()
    };
    let of_model = metrics("model");
    assert!(of_model["cls/Acc"].as_f64().unwrap() >= 0.6 && of_model == metrics(words(trained())), "{of_model}");
    place
        .fidgp(&["eval", words(&data), "--device", "cpu"])
        .ends(2)
        .says(&["neither a run folder", "nor a model folder"]);
}

/// A run without its list of classes: the data set's own files have the names, else classes are numbered.
#[test]
fn class_names_are_found_or_numbered() {
    let place = Place::new();
    copied(&place);
    fs::remove_file(place.path("run/classes.json")).unwrap();
    let name = |model: &str| json(&place.path(&format!("{model}/config.json")))["id2label"]["17"].clone();
    place.fidgp(&["export", "run", "--out", "numbered"]).ends(0);
    assert_eq!(name("numbered"), "class 17");
    place.fidgp(&["export", "run", "--out", "named", "--data", words(&fixture("cifar100-small"))]).ends(0);
    assert_eq!(name("named"), "castle");
}

/// Counted on the weights themselves: those of the posterior mean are a plain network's.
fn plain_bytes(place: &Place) -> Value {
    place.fidgp(&["export", words(trained()), "--out", "plain.safetensors", "--format", "torch"]).ends(0);
    let file = fs::read(place.path("plain.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
    let (mut f32, mut int8) = (0, 0);
    for (name, tensor) in tensors.iter().filter(|(name, _)| !name.ends_with("num_batches_tracked")) {
        let (numbers, matrix) = (tensor.shape().iter().product::<usize>(), tensor.shape().len() >= 2);
        assert_eq!(tensor.data().len(), 4 * numbers, "{name}");
        f32 += 4 * numbers;
        int8 += if matrix { numbers + 4 * tensor.shape()[0] } else { 4 * numbers };
    }
    serde_json::json!({"f32": f32, "int8": int8})
}

/// A quarter of the size from the run, and from a folder of another type: the same bytes of parameters, measured, and read back
/// as they were measured.
#[test]
fn bytes_are_measured_and_read_back() {
    let place = Place::new();
    let data = fixture("cifar100-small");
    place.fidgp(&["export", words(trained()), "--out", "full"]).ends(0);
    let more = ["--dtype", "int8", "--measure", "--json", "--data", words(&data), "--device", "cpu"];
    let export = |from: &str, out: &str| -> Value {
        let said = place.fidgp(&[&["export", from, "--out", out], &more[..]].concat()).ends(0);
        serde_json::from_str(&said.out).unwrap()
    };
    let (bytes, again) = (export(words(trained()), "bytes"), export("full", "again"));
    assert_eq!(bytes["after"], again["after"]);
    let nll = |said: &Value| said["cls/NLL"].as_f64().unwrap();
    assert!((nll(&bytes["before"]) - nll(&bytes["after"])).abs() < 0.1 && bytes["before"] != bytes["after"], "{bytes}");
    for metric in ["cls/Acc", "cls/NLL", "cal/ECE", "cls/Entropy", "test/ens_MI"] {
        let found = ["before", "after"].map(|side| bytes[side][metric].is_f64());
        assert_eq!(found, [true, true], "{metric} is missing in {bytes}");
    }
    let measured =
        ["export", "full", "--out", "half", "--dtype", "bf16", "--measure", "--data", words(&data), "--device", "cpu"];
    let said = place.fidgp(&measured).ends(0);
    assert!(said.out.contains("\ntest/ens_MI "), "its uncertainty is missing in {}", said.out);
    said.says(&["of parameters; the plain network takes"]);
    assert_eq!(bytes["plain_bytes"], plain_bytes(&place), "{bytes}");
    let weights = |model: &str| fs::read(place.path(&format!("{model}/model.safetensors"))).unwrap();
    assert!(weights("bytes") == weights("again") && 10 * weights("bytes").len() < 4 * weights("full").len());
    let eval = ["eval", "bytes", "--data", words(&data), "--device", "cpu", "--json"];
    let found: Value = serde_json::from_str(&place.fidgp(&eval).ends(0).out).unwrap();
    assert!((nll(&found["metrics"]) - nll(&bytes["after"])).abs() < 1e-6, "{found}");
    assert!(fs::read_to_string(place.path("again/README.md")).unwrap().contains("stored in int8"));
    assert_eq!(json(&place.path("bytes/config.json"))["dtype"], "int8");
    place.fidgp(&["export", "full", "--out", "full", "--force"]).ends(2).says(&["is the model itself"]);
    place.fidgp(&["export", words(trained()), "--out", "x.st", "--format", "torch", "--measure"]).ends(2);

    // bytes without what they count
    let found = safetensors::SafeTensors::deserialize(&weights("bytes")).map(|_| ());
    assert!(found.is_ok());
    let tensors = weights("bytes");
    let tensors = safetensors::SafeTensors::deserialize(&tensors).unwrap();
    let without =
        tensors.tensors().into_iter().filter(|(name, _)| !name.starts_with("conv1.") || !name.ends_with("_scale"));
    let without = safetensors::serialize(without, None).unwrap();
    fs::write(place.path("bytes/model.safetensors"), without).unwrap();
    let mut config = json(&place.path("bytes/config.json"));
    config["sha256"]["model.safetensors"] =
        fidgp_data::file_sha256(&place.path("bytes/model.safetensors")).unwrap().into();
    fs::write(place.path("bytes/config.json"), config.to_string()).unwrap();
    let picture = fixture("cifar100-pictures/bicycle.png");
    place.fidgp(&["predict", "bytes", words(&picture)]).ends(1).says(&["model.safetensors", "conv1.", "int8_scale"]);
}

/// Half the size, and the same answers to about three digits.
#[test]
fn half_precision_keeps_the_predictions() {
    let place = Place::new();
    place.fidgp(&["export", words(trained()), "--out", "full"]).ends(0);
    place.fidgp(&["export", words(trained()), "--out", "half", "--dtype", "f16"]).ends(0).says(&["rounding changes"]);
    let size = |model: &str| fs::metadata(place.path(&format!("{model}/model.safetensors"))).unwrap().len() as f64;
    assert!(size("half") < 0.62 * size("full"), "{} of {}", size("half"), size("full"));
    let pictures = fixture("cifar100-pictures");
    let predict = |model: &str| -> Value {
        let said = place.fidgp(&["predict", model, words(&pictures), "--json", "--device", "cpu"]).ends(0);
        serde_json::from_str(&said.out).unwrap()
    };
    let (full, half) = (predict("full"), predict("half"));
    for (a, b) in full["inputs"].as_array().unwrap().iter().zip(half["inputs"].as_array().unwrap()) {
        let probability = |said: &Value| said["top"][0]["probability"].as_f64().unwrap();
        assert!((probability(a) - probability(b)).abs() < 0.02, "{a} {b}");
    }
}

/// Models of CIFAR-100 that are shipped under `models/`; each must work as it lies there and know most of the pictures.
#[test]
fn every_shipped_model_predicts_real_pictures() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let is_one = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("cifar100-");
    let shipped: Vec<_> = fs::read_dir(models).unwrap().flatten().filter(is_one).collect();
    assert!(!shipped.is_empty());
    for model in shipped {
        let said = Place::new()
            .fidgp(&[
                "predict",
                words(&model.path()),
                words(&fixture("cifar100-pictures")),
                "--json",
                "--device",
                "cpu",
            ])
            .ends(0);
        let said: Value = serde_json::from_str(&said.out).unwrap();
        let right = |input: &&Value| {
            let file = Path::new(input["input"].as_str().unwrap()).file_stem().unwrap().to_str().unwrap().to_owned();
            input["top"][0]["class"] == file.as_str()
        };
        let right = said["inputs"].as_array().unwrap().iter().filter(right).count();
        assert!(right >= 4, "{}: {right} of 8 right\n{said}", model.path().display());
        // a bound that would need more draws than there are is said to be missed
        let apple = fixture("cifar100-pictures/apple.png");
        let model = model.path();
        let strict = ["predict", words(&model), words(&apple), "--tolerance", "1e-6", "--draws", "64", "--json"];
        let said = Place::new().fidgp(&strict).ends(0).says(&["--tolerance 0.000001 is missed: after 256 draws"]);
        let said: Value = serde_json::from_str(&said.out).unwrap();
        assert!(said["inputs"][0]["error"].as_f64().unwrap() > 1e-6, "{said}");
    }
}

#[test]
fn bad_pictures_are_named_and_the_rest_is_predicted() {
    let place = Place::new();
    place.write("words.png", "not a picture");
    place.write("empty/notes.txt", "nothing");
    fs::copy(fixture("cifar100-pictures/apple.png"), place.path("apple.png")).unwrap();
    let run = words(trained());
    let said = place
        .fidgp(&["predict", run, "words.png", "apple.png", "nowhere.jpg", "empty", "--device", "cpu"])
        .ends(1)
        .says(&["words.png, byte 0: cannot be decoded", "nowhere.jpg: cannot be read", "empty: holds no .jpg"]);
    assert!(said.out.contains("apple.png") && said.out.contains("epistemic"), "{}", said.out);
    let said = place.fidgp(&["predict", run, "words.png", "--json", "--device", "cpu"]).ends(1);
    let said: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said["inputs"].as_array().unwrap().len(), &said["failed"][0]["input"]), (0, &"words.png".into()));
}

/// Names of files are bytes, and commands hold them too.
#[test]
#[cfg(target_os = "linux")]
fn names_that_are_no_text_and_folders_in_folders_are_taken() {
    use std::os::unix::ffi::OsStrExt;

    let place = Place::new();
    fs::create_dir(place.path("pictures")).unwrap();
    let odd = place.path("pictures").join(std::ffi::OsStr::from_bytes(b"\xff.png"));
    fs::copy(fixture("cifar100-pictures/apple.png"), &odd).unwrap();
    fs::create_dir_all(place.path("pictures/class/inner")).unwrap();
    fs::copy(fixture("cifar100-pictures/apple.png"), place.path("pictures/class/inner/apple.png")).unwrap();
    let run = words(trained());
    for more in [&[][..], &["--json"]] {
        let said = place.fidgp(&[&["predict", run, "pictures", "--device", "cpu"][..], more].concat()).ends(0);
        assert!(said.out.contains("pictures/class/inner/apple.png"), "{}", said.out);
    }
    let mut command =
        place.command(&["train", crate::left(), "--set", "train.epochs=1", "--set", "train.kl={}", "--out"]);
    let output = command.arg(std::ffi::OsStr::from_bytes(b"run\xfe")).args(["--device", "cpu"]).output().unwrap();
    crate::Said::by(&output).ends(0);
    let output = place.command(&["data", "check", "--json"]).arg(odd.parent().unwrap()).output().unwrap();
    crate::Said::by(&output);
}

#[test]
fn a_model_is_not_mixed_with_a_run() {
    let place = Place::new();
    place.train(&[]).ends(0);
    place.fidgp(&["export", "run", "--out", "run"]).ends(2).says(&["holds a run", "choose another --out"]);
}

#[test]
fn the_rows_of_a_table_are_predicted_by_a_regression() {
    let place = Place::new();
    place.train(&[]).ends(0);
    place.write("points.csv", "x\n0.6\n1.0\n5\n");
    let said = place.fidgp(&["predict", "run", "points.csv", "--device", "cpu"]).ends(0);
    assert!(said.out.contains("epistemic") && said.out.lines().count() >= 6, "{}", said.out);
    place.fidgp(&["export", "run", "--out", "model", "--dtype", "f16"]).ends(0);
    let said = place.fidgp(&["predict", "model", "points.csv", "--json", "--device", "cpu"]).ends(0);
    let said: Value = serde_json::from_str(&said.out).unwrap();
    let row = &said["inputs"][2]["prediction"];
    assert!(row["sd"].as_f64().unwrap() >= row["epistemic_sd"].as_f64().unwrap(), "{said}");
    place.write("wide.csv", "1,2\n");
    place.fidgp(&["predict", "run", "wide.csv"]).ends(1).says(&["wide.csv: has 2 columns, the model takes 1"]);
    place.write("hole.csv", "1\nabc\n");
    place.fidgp(&["predict", "run", "hole.csv"]).ends(1).says(&["hole.csv, line 2: `abc` is not a number"]);
}

#[test]
fn what_is_no_model_is_said() {
    let place = Place::new();
    place.fidgp(&["predict", "nowhere", "a.png"]).ends(2).says(&["neither a run folder (run.toml) nor a model folder"]);
    place.fidgp(&["predict", words(trained()), "a.png", "--draws", "0"]).ends(2).says(&["draws"]);
    place.fidgp(&["export", "nowhere", "--out", "model"]).ends(2).says(&["nowhere/run.toml"]);
    place.fidgp(&["export", words(trained()), "--out", "model"]).ends(0);
    place
        .fidgp(&["export", words(trained()), "--out", "model"])
        .ends(2)
        .says(&["holds a config.json already", "--force"]);
    place.fidgp(&["export", words(trained()), "--out", "model", "--force"]).ends(0);
    crate::strangers::forget_digests(&place.path("model/config.json"));
    let picture = fixture("cifar100-pictures/apple.png");
    let predict = || place.fidgp(&["predict", "model", words(&picture), "--device", "cpu"]);
    for (file, from, to, named) in [
        ("config.json", "fidgp-model/1", "fidgp-model/9", "`format` is `fidgp-model/9`"),
        ("preprocessor_config.json", "\"resample\": 2", "\"resample\": 3", "something this program does not do"),
        ("preprocessor_config.json", "image_mean", "mean", "preprocessor_config.json"),
        ("config.json", "\"inducing_rows\": 24", "\"inducing_rows\": 23", "in the configured network"),
    ] {
        let path = place.path(&format!("model/{file}"));
        let whole = fs::read_to_string(&path).unwrap();
        assert!(whole.contains(from), "{whole}");
        fs::write(&path, whole.replace(from, to)).unwrap();
        let said = predict();
        assert!(matches!(said.code, Some(1 | 2)) && said.err.contains(named), "{named}: {said:?}");
        fs::write(&path, whole).unwrap();
    }
    predict().ends(0);
    fs::remove_file(place.path("model/model.safetensors")).unwrap();
    predict().ends(1).says(&["model.safetensors"]);
}
