//! Files and folders of strangers: refused with their names, and nothing of the user's is touched.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use fidgp_lab::train::checkpoint;
use tch::Tensor;

use crate::{Place, contents, deploy, fixture, json};

/// Numbers that f32 cannot hold, or whose squares it cannot, and sizes that no machine has.
#[test]
fn numbers_of_a_config_that_cannot_be_are_refused_at_reading() {
    let place = Place::new();
    for (change, key) in [
        ("train.kl={weight=1e39}", "train.kl.weight"),
        ("likelihood.noise={kind=\"fixed\", sd=1e30}", "likelihood.noise.sd"),
        ("train.groups=[{parameters=[\"fc1.*\"], rate=1e39}]", "train.groups.rate"),
        ("train.optimiser.learning_rate=1e300", "train.optimiser.learning_rate"),
        ("data.train=10000000000", "FIDGP_LIMIT_ROWS"),
        ("data.test=9223372036854775807", "FIDGP_LIMIT_ROWS"),
        ("network.hidden=[4611686018427387904]", "FIDGP_LIMIT_SIZE"),
        ("train.batch_size=4611686018427387904", "FIDGP_LIMIT_ROWS"),
        ("predict.draws=4611686018427387904", "FIDGP_LIMIT_SIZE"),
    ] {
        place.train(&["--set", change]).ends(2).says(&[key]);
    }
    let config = fs::read_to_string(crate::left()).unwrap();
    let line = config.lines().find(|line| line.starts_with("hidden")).unwrap();
    place.write("deep.toml", &config.replace(line, &format!("hidden = {:?}", vec![1; 100_000])));
    place.fidgp(&["train", "deep.toml"]).ends(2).says(&["FIDGP_LIMIT_LAYERS"]);
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/table.toml");
    let large = ["--set", "method=deterministic", "--set", "network.hidden=[90000, 90000]"];
    place.train(&large).ends(2).says(&["a layer called", "FIDGP_LIMIT_PARAMETERS"]);
    let inputs = ["train", table, "--set", "data.inputs=4611686018427387904"];
    place.fidgp(&inputs).ends(2).says(&["FIDGP_LIMIT_COLUMNS"]);
    assert!(!place.path("run").exists());
    let unsound = place.command(&["data"]).env("FIDGP_LIMIT_ROWS", "many").output().unwrap();
    crate::Said::by(&unsound).ends(2).says(&["FIDGP_LIMIT_ROWS = `many` is no bound"]);
}

/// What is written stays in the run folder: links in it are replaced or refused.
#[test]
fn links_in_a_run_folder_are_not_written_through() {
    let place = Place::new();
    place.train(&[]).ends(0);
    place.write("precious", "mine\n");
    let precious = || fs::read_to_string(place.path("precious")).unwrap();
    for name in [".lock", "metrics.jsonl", "checkpoint", "ood"] {
        let (own, aside) = (place.path("run").join(name), place.path("aside"));
        if own.exists() {
            fs::rename(&own, &aside).unwrap();
        }
        symlink(place.path("precious"), &own).unwrap();
        place.fidgp(&["train", "--resume", "run", "--device", "cpu"]).ends(1).says(&[&format!("`{name}` is a link")]);
        assert_eq!(precious(), "mine\n", "{name}");
        fs::remove_file(&own).unwrap();
        if aside.exists() {
            fs::rename(&aside, &own).unwrap();
        }
    }
    for name in ["results.json", "run.toml", "command.txt"] {
        fs::remove_file(place.path("run").join(name)).unwrap();
        symlink(place.path("precious"), place.path("run").join(name)).unwrap();
    }
    place.train(&["--force"]).ends(0);
    assert_eq!(precious(), "mine\n");
}

/// `fidgp ood` writes beside the model it measures: not where a link there leads.
#[test]
fn links_beside_a_model_are_not_written_through() {
    let place = Place::new();
    place.train(&[]).ends(0);
    fs::create_dir(place.path("precious")).unwrap();
    symlink(place.path("precious"), place.path("run/ood")).unwrap();
    let ood = |more: &[&str]| place.fidgp(&[&["ood", "run", "--ood", "svhn"][..], more].concat());
    ood(&[]).ends(1).says(&["`ood` is a link"]);
    fs::create_dir(place.path("out")).unwrap();
    symlink(place.path("precious"), place.path("out/scores")).unwrap();
    ood(&["--out", "out"]).ends(1).says(&["`scores` is a link"]);
    assert_eq!(contents(&place.path("precious")), []);
}

/// Standard input is read where its limit is lifted, too.
#[test]
fn a_limit_may_be_none() {
    let place = Place::new();
    place.train(&[]).ends(0);
    place.write("points.csv", "0.6\n1.3\n");
    let command = format!("{} predict run - --device cpu < points.csv", env!("CARGO_BIN_EXE_fidgp"));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &command]).current_dir(place.path(".")).env("FIDGP_LIMIT_TEXT_BYTES", "none");
    let said = crate::Said::by(&shell.output().unwrap()).ends(0);
    let of_file = place.fidgp(&["predict", "run", "points.csv", "--device", "cpu"]).ends(0).out;
    assert_eq!(said.out.strip_prefix('-'), of_file.strip_prefix("points.csv"));
}

/// Names may hold what steers a terminal.
#[test]
fn control_signs_in_names_are_spelt_out() {
    let place = Place::new();
    let said = place.fidgp(&["report", "a\u{1b}]0;owned\u{7}b"]).ends(2);
    assert!(said.err.contains("a\\u{1b}]0;owned\\u{7}b") && !said.err.contains('\u{1b}'), "{said:?}");
}

/// Makes the `config.json` of a model folder one from before the parts' digests were remembered.
pub fn forget_digests(path: &Path) {
    let mut config = json(path);
    assert!(config.as_object_mut().unwrap().remove("sha256").is_some());
    fs::write(path, serde_json::to_string_pretty(&config).unwrap()).unwrap();
}

/// A model folder whose parts are of several models is refused; one from before digests is read.
#[test]
fn a_mixed_model_folder_is_refused() {
    let place = Place::new();
    place.train(&[]).ends(0);
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    place.fidgp(&["export", "run", "--out", "same"]).ends(0);
    let named = |folder: &str| {
        let relative = |path: &Path| path.strip_prefix(place.path(folder)).unwrap().to_owned();
        contents(&place.path(folder)).into_iter().map(|(path, bytes)| (relative(&path), bytes)).collect::<Vec<_>>()
    };
    assert!(named("model") == named("same"), "two exports of one run differ");
    place.train(&["--force", "--set", "seed=9"]).ends(0);
    place.fidgp(&["export", "run", "--out", "other"]).ends(0);
    place.write("points.csv", "0.6\n1.3\n");
    let predict = || place.fidgp(&["predict", "model", "points.csv"]);
    predict().ends(0);
    let weights = |folder: &str| place.path(folder).join("model.safetensors");
    fs::copy(weights("other"), weights("model")).unwrap();
    predict().ends(1).says(&["model/model.safetensors", "SHA-256 differ", "a mixture", "fidgp export"]);
    forget_digests(&place.path("model/config.json"));
    predict().ends(0);
    place.fidgp(&["export", "run", "--out", "model", "--force"]).ends(0);
    assert!(named("model") == named("other"));

    // what such a folder may say of its sizes
    for (hidden, words) in [
        (serde_json::json!([1_u64 << 62]), "FIDGP_LIMIT_SIZE"),
        (serde_json::json!(vec![1; 100_000]), "FIDGP_LIMIT_LAYERS"),
    ] {
        let path = place.path("model/config.json");
        let mut config = json(&path);
        config["run"]["network"]["hidden"] = hidden;
        fs::write(path, config.to_string()).unwrap();
        predict().ends(1).says(&["model/config.json", words]);
    }
}

/// A temperature belongs to the weights it was fitted to.
#[test]
fn a_temperature_of_other_weights_is_refused() {
    let place = Place::new();
    let data = fixture("cifar100-small");
    let place_of_data = ["--data", data.to_str().unwrap(), "--device", "cpu", "--threads", "1"];
    let words = |command| [&[command, "run"][..], &place_of_data].concat();
    place.write("small.toml", &deploy::CONFIG);
    let changes = ["--out", "run", "--set", "data.validation_fraction=0.2", "--set", "train.epochs=2"];
    place.fidgp(&[&["train", "small.toml"][..], &place_of_data, &changes].concat()).ends(0);
    place.fidgp(&words("calibrate")).ends(0);
    place.fidgp(&words("eval")).ends(0);
    let path = place.path("run/temperature.json");
    let mut fitted = json(&path);
    assert_eq!(fitted["weights_sha256"].as_str().unwrap().len(), 64);
    fitted["weights_sha256"] = "0".repeat(64).into();
    fs::write(&path, fitted.to_string()).unwrap();
    place.fidgp(&words("eval")).ends(1).says(&["temperature.json", "other weights"]);
}

/// Logits, features and a head that hold what is no number, and labels that are no classes.
#[test]
fn arrays_for_ood_are_looked_at() {
    let place = Place::new();
    let (rows, classes, columns) = (40, 3, 4);
    let numbers = |name: &str, columns: i64| {
        (name.to_owned(), Tensor::rand([rows, columns], (tch::Kind::Float, tch::Device::Cpu)))
    };
    let sets = ["id", "fit", "svhn"];
    let labels =
        || ("fit.labels".to_owned(), Tensor::arange(rows, (tch::Kind::Int64, tch::Device::Cpu)).remainder(classes));
    let logits = || sets.iter().map(|name| numbers(name, classes)).chain([labels()]).collect::<Vec<_>>();
    let head = || {
        [
            ("head.weight".to_owned(), Tensor::rand([classes, columns], (tch::Kind::Float, tch::Device::Cpu))),
            ("head.bias".to_owned(), Tensor::zeros([classes], (tch::Kind::Float, tch::Device::Cpu))),
        ]
    };
    let features = || sets.iter().map(|name| numbers(name, columns)).chain(head()).collect::<Vec<_>>();
    let run = |logits: &[(String, Tensor)], features: &[(String, Tensor)]| {
        for (file, tensors) in [("l.safetensors", logits), ("f.safetensors", features)] {
            checkpoint::write(&place.path(file), tensors, ("of", "a test".to_owned())).unwrap();
        }
        place.fidgp(&[
            "ood",
            "--logits",
            "l.safetensors",
            "--features",
            "f.safetensors",
            "--ood",
            "svhn",
            "--unsafe-skip-controls",
        ])
    };
    let broken = |mut tensors: Vec<(String, Tensor)>, name: &str, at: &[i64], value: f64| {
        let tensor = &tensors.iter().find(|(own, _)| own == name).unwrap().1;
        let mut cell = at.iter().fold(tensor.shallow_clone(), |tensor, &i| tensor.get(i));
        let _ = cell.fill_(value);
        tensors.sort_by(|a, b| a.0.cmp(&b.0));
        tensors
    };
    run(&logits(), &features()).ends(0);
    let nan = f64::NAN;
    run(&broken(logits(), "fit", &[7, 1], nan), &features())
        .ends(1)
        .says(&["l.safetensors: `fit`", "logits, row 7, column 1"]);
    run(&logits(), &broken(features(), "fit", &[7, 1], nan))
        .ends(1)
        .says(&["f.safetensors: `fit`", "features, row 7, column 1"]);
    run(&logits(), &broken(features(), "svhn", &[0, 0], f64::INFINITY)).ends(1).says(&["`svhn`", "row 0"]);
    run(&logits(), &broken(features(), "head.weight", &[1, 2], nan)).ends(1).says(&["f.safetensors: `head.weight`"]);
    run(&broken(logits(), "fit.labels", &[5], 2_147_483_648.0), &features())
        .ends(1)
        .says(&["label 2147483648 in row 5"]);
    run(&broken(logits(), "fit.labels", &[5], 3.0), &features()).ends(1).says(&["label 3 in row 5", "classes 0 to 2"]);
}

/// A cell of 1e308 has a variance that is no number: a network trained on it could not be used.
#[test]
fn a_table_whose_moments_overflow_is_refused() {
    let place = Place::new();
    let rows: String =
        (0..40).map(|i| format!("{},{}\n", if i == 3 { "1e308".to_owned() } else { i.to_string() }, i * 2)).collect();
    place.write("t.csv", &format!("a,b\n{rows}"));
    place.write("c.csv", &format!("a,b\n{}", (0..40).map(|i| format!("{i},7\n")).collect::<String>()));
    let config = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/table.toml")).unwrap();
    place.write("table.toml", &config);
    let train = |file: &str| {
        let file = format!("data.path={file:?}");
        let words = ["train", "table.toml", "--device", "cpu", "--out", "run", "--data", "."];
        let more = ["--set", &file, "--set", "data.target=\"b\"", "--set", "train.epochs=2", "--set", "train.kl={}"];
        place.fidgp(&[&words[..], &more].concat())
    };
    train("t.csv").ends(1).says(&["feature column 0 has mean", "another unit"]);
    assert!(!place.path("run").exists());
    train("c.csv").ends(0).says(&["the target `b` is the same in every training row"]);
}

/// Rules are for numbers on a scale: beside another one they are refused, as are older ones only where weights differ.
#[test]
fn rules_beside_another_scale_are_refused() {
    let place = crate::decisions::place();
    let calibrate = ["calibrate", "run", "--data", "data", "--device", "cpu", "--wrong-beyond", "40"];
    place.fidgp(&calibrate).ends(0);
    place.write("rows.csv", "\"size, m2\",age\n0.5,0.5\n");
    let predict = |folder: &str| place.fidgp(&["predict", folder, "rows.csv", "--device", "cpu"]);
    predict("run").ends(0);
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    predict("model").ends(0);
    let path = place.path("run/table.json");
    let mut view = json(&path);
    let mean = view["scale"]["target_mean"].as_f64().unwrap();
    view["scale"]["target_mean"] = (mean + 50.0).into();
    fs::write(&path, view.to_string()).unwrap();
    predict("run").ends(1).says(&["calibration.json", "belongs to other weights"]);

    // in a model folder the digests of config.json say so first
    let path = place.path("model/trust.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text} ")).unwrap();
    predict("model").ends(1).says(&["trust.json", "a mixture"]);
    fs::remove_file(&path).unwrap(); // who removes what was fitted predicts without
    predict("model").ends(0);
    let again = ["calibrate", "model", "--examples", "data/houses.csv", "--device", "cpu", "--wrong-beyond", "40"];
    place.fidgp(&again).ends(0);
    predict("model").ends(0);
    assert!(json(&place.path("model/config.json"))["sha256"]["trust.json"].is_string());
}
