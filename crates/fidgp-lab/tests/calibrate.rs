//! Temperature scaling of whole runs: fitted on validation examples, kept beside the checkpoint, used by whoever opens it.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fidgp_lab::calibrate::{self, TEMPERATURE_FILE};
use fidgp_lab::config::{Override, RunConfig, parse};
use fidgp_lab::experiment::{self, Setting};
use fidgp_lab::model_folder::{self, Dtype};
use fidgp_lab::predict::Predictor;
use fidgp_lab::record::Metrics;
use tch::Device;

const IMAGES: &str = r#"
name = "images"
method = "deterministic"
seed = 3
[data]
set = "images"
name = "cifar100"
augment = "none"
validation_fraction = 0.3
[network]
kind = "resnet"
depth = 18
stem = "cifar"
width = 4
[likelihood]
kind = "categorical"
[train]
epochs = 3
batch_size = 20
optimiser = { kind = "adam", learning_rate = 0.01 }
"#;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fidgp-cli/tests/fixtures/cifar100-small")
}

fn config(changes: &[&str]) -> RunConfig {
    let overrides: Vec<Override> = changes.iter().map(|change| change.parse().unwrap()).collect();
    parse(IMAGES, &overrides).unwrap()
}

fn with_setting<T>(run: &Path, resume: bool, work: impl FnOnce(&Setting) -> T) -> T {
    tch::set_num_threads(1);
    let stop = AtomicBool::new(false);
    let (splits, run) = (Vec::new(), run.to_owned());
    let device = Device::Cpu;
    work(&Setting {
        device,
        data_root: data(),
        run,
        resume,
        force: false,
        splits,
        parallel: 1,
        stop: &stop,
        command: None,
    })
}

fn trained(config: &RunConfig, run: &Path) -> Metrics {
    with_setting(run, false, |setting| experiment::run(config, setting, &mut ()).unwrap().metrics)
}

fn measured(run: &Path) -> Metrics {
    let mut predictor = Predictor::open(run, Device::Cpu).unwrap();
    with_setting(run, true, |setting| experiment::evaluate(&mut predictor, setting).unwrap().metrics)
}

fn set(run: &Path, key: &str, value: serde_json::Value) {
    let path = run.join(TEMPERATURE_FILE);
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    json[key] = value;
    std::fs::write(&path, json.to_string()).unwrap();
}

#[test]
fn a_temperature_lowers_the_validation_nll_is_used_and_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    // a network with one pass, and one whose members are tempered each
    for changes in [&["method=deterministic"][..], &["method=batch-ensemble", "baseline.members=2"]] {
        let (config, run) = (config(changes), folder.path().join(changes[0]));
        let before = trained(&config, &run);
        let found = calibrate::run(&config, &run, &data(), Device::Cpu).unwrap();
        assert!(found.nll_after < found.nll_before, "{found:?}");
        let after = measured(&run);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-4 * b.abs();
        assert!(near(after["validation/cls/NLL"].unwrap(), found.nll_after), "{found:?} {after:?}");
        assert!(near(before["validation/cls/NLL"].unwrap(), found.nll_before), "{found:?} {before:?}");
        assert_ne!(before["cls/NLL"], after["cls/NLL"]);
        let predictor = Predictor::open(&run, Device::Cpu).unwrap();
        assert_eq!(predictor.model.temperature, Some(found.temperature));
        let model = folder.path().join(format!("{}-model", changes[0]));
        model_folder::export(&run, &predictor, Dtype::F32, &model).unwrap();
        assert_eq!(Predictor::open(&model, Device::Cpu).unwrap().model.temperature, Some(found.temperature));
        if config.members() == 1 {
            assert_eq!(before["cls/Acc"], after["cls/Acc"]); // one pass: the order of the classes stays
        }
    }
}

#[test]
fn temperature_one_changes_nothing_and_a_stale_or_broken_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (config, run) = (config(&[]), folder.path().join("run"));
    trained(&config, &run);
    let plain = measured(&run);
    calibrate::run(&config, &run, &data(), Device::Cpu).unwrap();
    set(&run, "temperature", 1.0.into());
    assert_eq!(measured(&run), plain);
    let refused = |words: &str| {
        let error = Predictor::open(&run, Device::Cpu).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(TEMPERATURE_FILE), "{error}");
    };
    set(&run, "temperature", (-2.0).into());
    refused("greater than 0");
    set(&run, "temperature", 1.5.into());
    set(&run, "step", 1.into());
    refused("other weights, these are of step".split(',').next_back().unwrap().trim());
    std::fs::write(run.join(TEMPERATURE_FILE), "{").unwrap();
    refused("EOF");
}

#[test]
fn without_validation_examples_there_is_nothing_to_fit_on() {
    let config = config(&["data.validation_fraction=0.0"]);
    let error = calibrate::run(&config, Path::new("nowhere"), &data(), Device::Cpu).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("never on those of training or test"), "{error}");
}
