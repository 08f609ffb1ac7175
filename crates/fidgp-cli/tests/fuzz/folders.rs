//! What lies in the folders of a run and a model, one file changed at a time beside the others as they were made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fidgp_decision::Calibration;
use fidgp_decision::monitor::monitor;
use fidgp_lab::predict::Trained;
use fidgp_report::record::MeasuredOod;
use tch::Device;
use tempfile::TempDir;

use crate::crates;
use crate::targets::{Target, of_file};

const SMALL: [&str; 8] = [
    "train.epochs=1",
    "train.kl={}",
    "network.hidden=[4]",
    "inducing.inducing_rows=2",
    "inducing.inducing_cols=2",
    "data.train=20",
    "data.test=200",
    "predict.draws=2",
];

/// A run with a linearised posterior and rules, and the model folder that it is exported to.
struct Made {
    home: TempDir,
    run: PathBuf,
    model: PathBuf,
}

fn fidgp(home: &Path, words: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_fidgp")).args(words).current_dir(home).output();
    let done = done.expect("the program starts");
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn made() -> Made {
    let home = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| home.path().join(name);
    let config = crates().join("../configs/regression-left.toml");
    let words = ["train", config.to_str().expect("a readable path"), "--device", "cpu", "--out", "run"];
    fidgp(home.path(), &words.into_iter().chain(SMALL.iter().flat_map(|change| ["--set", change])).collect::<Vec<_>>());
    fidgp(home.path(), &["fit-posterior", "run", "--device", "cpu"]);
    fidgp(home.path(), &["calibrate", "run", "--examples", "test", "--wrong-beyond", "0.5", "--device", "cpu"]);
    fidgp(home.path(), &["export", "run", "--out", "model"]);
    Made { run: at("run"), model: at("model"), home }
}

/// A file of a folder changed, and the folder opened as a model.
fn opened(name: &'static str, made: &Arc<Made>, folder: &Path, file: &str) -> Target {
    let (path, folder, made) = (folder.join(file), folder.to_owned(), Arc::clone(made));
    let whole = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let before = whole.clone();
    let read = move |_: &Path, input: &[u8]| {
        let _made = &made;
        fs::write(&path, input).expect("a file to write");
        let opened = Trained::open(&folder, Device::Cpu).map(drop).map_err(|error| error.to_string());
        fs::write(&path, &before).expect("a file to write");
        opened
    };
    Target { name, weight: 10, corpus: vec![whole], read: Box::new(read), mend: |input| input }
}

/// Lines of a training's log, made a page of.
fn of_epochs(made: &Arc<Made>) -> Target {
    let (run, made) = (made.run.clone(), Arc::clone(made));
    let path = run.join("metrics.jsonl");
    let corpus = vec![fs::read(&path).expect("a log")];
    let read = move |place: &Path, input: &[u8]| {
        let _made = &made;
        fs::write(&path, input).expect("a file to write");
        let run = fidgp_report::Run::read(&run).map_err(|error| error.to_string())?;
        fidgp_report::write_report(&[run], &place.join("page.html")).map(drop).map_err(|error| error.to_string())
    };
    Target { name: "epochs", weight: 3, corpus, read: Box::new(read), mend: |input| input }
}

/// Lines of a log of predictions, as `fidgp monitor` reads them.
fn of_log(made: &Made) -> Target {
    let rules = Calibration::read(&made.model, None).expect("rules").expect("rules");
    let line = |i: usize| {
        format!(
            "{{\"mean\": {i}.5, \"sd\": 2, \"epistemic\": 0.25, \"features\": [{i}], \"decision\": \"accept\", \"label\": {i}}}\n"
        )
    };
    let corpus = vec![(0..20).map(line).collect::<String>().into_bytes(), line(3).into_bytes()];
    let read = move |_: &Path, input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        let lines = text.lines().enumerate().map(|(number, line)| (format!("line {number}"), line));
        let found = monitor(&rules, lines, 0.01).map_err(|error| error.to_string())?;
        let text = serde_json::to_string(&found).map_err(|error| error.to_string())?;
        assert!(
            !text.contains(":null") && !text.contains("[null") && !text.contains(",null"),
            "no number is null: {text}"
        );
        Ok(())
    };
    Target { name: "log", weight: 1, corpus, read: Box::new(read), mend: |input| input }
}

/// Tables of out-of-distribution scores, those of the repository.
fn of_ood() -> Target {
    let folder = crates().join("../results/ood");
    let one = |name: &str| fs::read(folder.join(name)).expect("a record");
    let corpus = ["fidgp-all-own-s1.json", "deterministic-s1.json"].map(one).to_vec();
    Target { weight: 3, ..of_file("ood", "ood.json", corpus, MeasuredOod::read) }
}

pub fn of_folders() -> Vec<Target> {
    let made = Arc::new(made());
    // a folder from before parts had digests: what is changed is looked into
    let config = made.model.join("config.json");
    let text = fs::read_to_string(&config).expect("a config");
    let mut older: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    older.as_object_mut().expect("an object").remove("sha256").expect("digests");
    fs::write(&config, older.to_string()).expect("a file to write");
    let (run, model) = (made.run.clone(), made.model.clone());
    assert!(made.home.path().exists());
    vec![
        opened("checkpoint", &made, &run, "checkpoint/last.safetensors"),
        opened("run", &made, &run, "run.toml"),
        opened("posterior", &made, &model, "posterior.safetensors"),
        opened("weights", &made, &model, "model.safetensors"),
        opened("preprocessor", &made, &model, "preprocessor_config.json"),
        of_epochs(&made),
        of_log(&made),
        of_ood(),
    ]
}
