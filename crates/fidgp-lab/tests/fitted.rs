//! What is fitted to a run when its training is over, kept beside the checkpoint and used by whoever opens it: a temperature,
//! on validation examples; BatchNorm statistics of each draw, on training examples.

mod fixture;

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use fidgp_lab::calibrate;
use fidgp_lab::config::{Override, RunConfig, parse};
use fidgp_lab::experiment;
use fidgp_lab::files::TEMPERATURE_FILE;
use fidgp_lab::model_folder::{self, Dtype};
use fidgp_lab::predict::Trained;
use fidgp_lab::record::Metrics;
use fidgp_lab::run_folder::RunContext;
use fidgp_lab::train::checkpoint::{self, Progress};
use tch::{Device, Tensor};

use fixture::changed;

static IMAGES: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::IMAGES,
        r#"
seed = 3
data = { name = "cifar100", augment = "none", validation_fraction = 0.3 }
train.epochs = 3
"#,
    )
});

fn config(changes: &[&str]) -> RunConfig {
    fixture::config(&IMAGES, changes)
}

fn with_context<T>(run: &Path, resume: bool, work: impl FnOnce(&RunContext) -> T) -> T {
    let stop = AtomicBool::new(false);
    work(&RunContext { resume, ..fixture::context(run, &stop) })
}

fn trained(config: &RunConfig, run: &Path) -> Metrics {
    with_context(run, false, |context| experiment::run(config, context, &mut ()).unwrap().unwrap().metrics)
}

fn measured(run: &Path) -> Metrics {
    let mut predictor = Trained::open(run, Device::Cpu).unwrap();
    with_context(run, true, |context| experiment::evaluate(&mut predictor, context).unwrap().metrics)
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
        let found = calibrate::run(&config, &run, &fixture::cifar100_small(), Device::Cpu).unwrap();
        assert!(found.nll_after < found.nll_before, "{found:?}");
        let after = measured(&run);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-4 * b.abs();
        assert!(near(after["validation/cls/NLL"].unwrap(), found.nll_after), "{found:?} {after:?}");
        assert!(near(before["validation/cls/NLL"].unwrap(), found.nll_before), "{found:?} {before:?}");
        assert_ne!(before["cls/NLL"], after["cls/NLL"]);
        let predictor = Trained::open(&run, Device::Cpu).unwrap();
        assert_eq!(predictor.model.temperature, Some(found.temperature));
        let model = folder.path().join(format!("{}-model", changes[0]));
        model_folder::export(&run, &predictor, Dtype::F32, &model).unwrap();
        assert_eq!(Trained::open(&model, Device::Cpu).unwrap().model.temperature, Some(found.temperature));
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
    calibrate::run(&config, &run, &fixture::cifar100_small(), Device::Cpu).unwrap();
    set(&run, "temperature", 1.0.into());
    assert_eq!(measured(&run), plain);
    let refused = |words: &str| {
        let error = Trained::open(&run, Device::Cpu).unwrap_err().to_string();
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
    let error = calibrate::run(&config, Path::new("nowhere"), &fixture::cifar100_small(), Device::Cpu).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("never on those of training or test"), "{error}");
}

#[test]
fn a_temperature_is_for_the_classification_of_images() {
    for (name, what) in [("camvid-deterministic", "is a segmentation"), ("regression-left", "is a regression")] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../configs/{name}.toml"));
        let config = fidgp_lab::config::read(&path, &[]).unwrap();
        let error = calibrate::run(&config, Path::new("nowhere"), &fixture::cifar100_small(), Device::Cpu).unwrap_err();
        let said = error.to_string();
        assert!(
            error.is_misuse() && said.contains(what) && said.contains("for the classification of images"),
            "{said}"
        );
    }
}

const BAYESIAN: [&str; 5] = [
    "method=fidgp",
    "inducing={inducing_rows=4, inducing_cols=4, init_lamda=0.3, max_lamda=0.5}",
    "predict.draws=3",
    "predict.statistics_images=40",
    "predict.batch_size=20",
];
const NORMS_FILE: &str = "norms.safetensors";

#[test]
fn statistics_of_draws_are_kept_used_and_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let own = trained(&config(&BAYESIAN), &run);
    // not to the last bit: parameters lie elsewhere in memory than in training, and sums take another order
    let same = |found: &Metrics| own.iter().all(|(name, value)| (found[name].unwrap() - value.unwrap()).abs() < 1e-6);
    assert!(same(&measured(&run)), "read from the run folder");
    let model = folder.path().join("model");
    let opened = Trained::open(&run, Device::Cpu).unwrap();
    assert_eq!(opened.model.norms.len(), 3);
    model_folder::export(&run, &opened, Dtype::F32, &model).unwrap();
    assert!(same(&measured(&model)), "read from the model folder");
    let found = calibrate::run(&opened.config, &run, &fixture::cifar100_small(), Device::Cpu).unwrap();
    assert!((found.nll_before - own["validation/cls/NLL"].unwrap()).abs() < 1e-5, "{found:?} {own:?}");
    std::fs::remove_file(run.join(TEMPERATURE_FILE)).unwrap();
    std::fs::remove_file(run.join(NORMS_FILE)).unwrap();
    assert!(same(&measured(&run)), "estimated anew on the same training images");
    let running = folder.path().join("running");
    let without: Vec<_> = BAYESIAN.iter().copied().filter(|change| !change.contains("statistics")).collect();
    assert!(!same(&trained(&config(&without), &running)));
    // a model without them, exported over one that had them, does not inherit them
    model_folder::export(&running, &Trained::open(&running, Device::Cpu).unwrap(), Dtype::F32, &model).unwrap();
    assert!(Trained::open(&model, Device::Cpu).unwrap().model.norms.is_empty());
}

#[test]
fn statistics_of_draws_that_do_not_fit_are_refused_and_more_draws_get_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    trained(&config(&BAYESIAN), &run);
    let opened = Trained::open(&run, Device::Cpu).unwrap();
    let error = opened.model.draws(4, fidgp::Key::new(0)).unwrap_err().to_string();
    assert!(error.contains("more than the 3"), "{error}");
    let mut more = Trained::open(&run, Device::Cpu).unwrap();
    more.config.predict.draws = 4;
    with_context(&run, true, |context| experiment::evaluate(&mut more, context).unwrap());
    assert_eq!(more.model.norms.len(), 4);
    let path = run.join(NORMS_FILE);
    let refused = |words: &str| {
        let error = Trained::open(&run, Device::Cpu).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(NORMS_FILE), "{error}");
    };
    let saved = checkpoint::load(&path).unwrap();
    let tensors: Vec<_> = saved.tensors.into_iter().collect();
    let write = |tensors: &[(String, Tensor)], step: u64| {
        let progress = serde_json::to_string(&Progress { step, ..saved.progress.clone() }).unwrap();
        checkpoint::write(&path, tensors, ("progress", progress)).unwrap(); // `save` would refuse NaN
    };
    write(&tensors, saved.progress.step + 1);
    refused("belongs to the weights of step");
    write(&tensors[1..], saved.progress.step);
    refused("not every draw has the statistics of the same layers");
    let with_first = |name: &str, value: &Tensor| -> Vec<_> {
        let first = (name.to_owned(), value.shallow_clone());
        std::iter::once(first).chain(tensors[1..].iter().map(|(name, t)| (name.clone(), t.shallow_clone()))).collect()
    };
    let (name, value) = &tensors[0];
    write(&with_first("bn1.running_mean", value), saved.progress.step);
    refused("does not begin with a draw's number");
    write(&with_first("0.nowhere.running_mean", value), saved.progress.step);
    refused("nothing in the network");
    write(&with_first(name, &(value * f64::NAN)), saved.progress.step);
    refused("holds a number that is no statistic");
    write(&with_first(name, &value.to_kind(tch::Kind::Half)), saved.progress.step);
    measured(&run); // another type is no harm
    std::fs::write(&path, "short").unwrap();
    refused("");
    // a run that goes on without them keeps none
    with_context(&run, true, |context| {
        let without: Vec<_> = BAYESIAN.iter().copied().filter(|change| !change.contains("statistics")).collect();
        experiment::run(&config(&without), context, &mut ()).unwrap();
    });
    assert!(!path.exists());
}

#[test]
fn settings_of_statistics_are_checked() {
    for (changes, words) in [
        (&["predict.statistics_images=3"][..], "at least 16"),
        (&["predict.statistics_images=100", "train.freeze_norm_epoch=1"], "choose one"),
    ] {
        let overrides: Vec<Override> = changes.iter().map(|change| change.parse().unwrap()).collect();
        let error = parse(&IMAGES, &overrides).and_then(|config| config.check()).unwrap_err();
        assert!(error.is_misuse() && error.to_string().contains(words), "{error}");
    }
}

/// What is fitted to a trained network needs no training: with no epochs the start is the network.
#[test]
fn a_trained_network_is_taken_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    let before = trained(&config(&[]), &plain);
    let start = format!("start={{weights={:?}, statistics_images=0}}", plain.join("checkpoint/last.safetensors"));
    let same = trained(&config(&[&start, "train.epochs=0"]), &folder.path().join("same"));
    assert_eq!(same, before);
    let laplace = |name: &str, precision: &str| {
        let run = folder.path().join(name);
        let changes = ["method=laplace", &start, "train.epochs=0", precision];
        (trained(&config(&changes), &run), measured(&run))
    };
    let (narrow, again) = laplace("narrow", "baseline.prior_precision=1e12");
    assert!((narrow["cls/NLL"].unwrap() - before["cls/NLL"].unwrap()).abs() < 1e-3, "{narrow:?} {before:?}");
    assert_eq!(narrow, again);
    let (wide, _) = laplace("wide", "baseline.prior_precision=1.0");
    assert!(wide["test/ens_MI"].unwrap() > 100.0 * narrow["test/ens_MI"].unwrap(), "{wide:?}");
    let without = parse(&IMAGES, &["train.epochs=0".parse().unwrap()]).and_then(|config| config.check());
    assert!(without.unwrap_err().to_string().contains("[start]"));
}

/// A temperature is fitted to what predicts; a posterior that is fitted later makes it stale, and it says so.
#[test]
fn a_temperature_belongs_to_the_posterior_that_predicts() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let small = ["method=fidgp", "inducing={inducing_rows=4, inducing_cols=4}", "predict.draws=2"];
    let config = config(&small);
    trained(&config, &run);
    let refit = |variance: &str| {
        let mut trained = Trained::open_to_fit(&run, Device::Cpu).unwrap();
        let set = ["posterior.kind=linearised".to_owned(), format!("posterior.variance={variance}")];
        let set: Vec<Override> = set.iter().map(|set| set.parse().unwrap()).collect();
        let config = parse(&trained.config.to_toml().unwrap(), &set).unwrap();
        with_context(&run, true, |context| experiment::fit_posterior(&mut trained, &config, context, true).unwrap())
    };
    let fitted = refit("9");
    let results = fitted.results.unwrap();
    assert!(fitted.outdated.is_empty() && results.predicts_with.unwrap().contains("features"));
    let found = calibrate::run(&config, &run, &fixture::cifar100_small(), Device::Cpu).unwrap();
    assert!(found.posterior_sha256.is_some() && found.nll_after <= found.nll_before, "{found:?}");
    let of_law = results.metrics["validation/cls/NLL"].unwrap();
    assert!((found.nll_before - of_law).abs() < 0.1, "32 draws of the logits and 256: {found:?} {of_law}");
    let cooled = measured(&run)["validation/cls/NLL"].unwrap();
    assert!((found.nll_after - cooled).abs() < 0.1, "{found:?} {cooled}");
    let again = refit("1");
    assert_eq!(again.outdated, [TEMPERATURE_FILE]);
    let error = Trained::open(&run, Device::Cpu).unwrap_err().to_string();
    assert!(error.contains(TEMPERATURE_FILE) && error.contains("another posterior"), "{error}");
    assert_eq!(refit("9").outdated, [TEMPERATURE_FILE]);
    let opened = Trained::open(&run, Device::Cpu).unwrap(); // the same posterior again
    let model = folder.path().join("model");
    model_folder::export(&run, &opened, Dtype::F32, &model).unwrap();
    let error = Trained::open_to_fit(&model, Device::Cpu).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("temperature"), "{error}");
}
