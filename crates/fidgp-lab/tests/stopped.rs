//! A run that is stopped before a validation, or before its evaluation, goes on as if it had not been.

mod fixture;

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use fidgp_lab::LabError;
use fidgp_lab::experiment::{fit_posterior, run};
use fidgp_lab::predict::Trained;
use fidgp_lab::record::Results;
use fidgp_lab::run_folder::RunContext;
use fidgp_lab::train::Watch;

use fixture::changed;
use tch::Device;

static CONFIG: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::CURVE,
        r#"
method = "fidgp"
seed = 4
inducing = { inducing_rows = 4, inducing_cols = 4 }
train.select = "best"
predict.draws = 3
"#,
    )
});

/// Asks to stop at the last step of an epoch, counted from 0.
struct StopAt<'a>(Option<u64>, &'a AtomicBool);

impl Watch for StopAt<'_> {
    fn step(&mut self, epoch: u64, step: u64, steps: u64, _: f64) {
        if Some(epoch) == self.0 && step == steps {
            self.1.store(true, Ordering::Relaxed);
        }
    }
}

fn train(folder: &Path, changes: &[&str], resume: bool, stop_at: Option<u64>) -> Result<Option<Results>, LabError> {
    let stop = AtomicBool::new(false);
    let (config, context) = (fixture::config(&CONFIG, changes), fixture::context(folder, &stop));
    let context = RunContext { resume, ..context };
    run(&config, &context, &mut StopAt(stop_at, &stop))
}

#[test]
fn what_was_left_is_made_up_for() {
    let place = tempfile::tempdir().unwrap();
    let without = ["data.validation=0", "train.select=last"];
    for (name, changes, epoch, left) in [
        ("validation", &[][..], 1, "everything is saved"),
        ("last-validation", &[], 2, "everything is saved"),
        ("evaluation", &without, 2, "its evaluation is left"),
    ] {
        let (stopped, whole) = (place.path().join(name), place.path().join(format!("{name}-whole")));
        let expected = train(&whole, changes, false, None).unwrap().unwrap();
        let said = train(&stopped, changes, false, Some(epoch)).expect_err("it was stopped").to_string();
        assert!(said.contains(left) && said.contains("go on"), "{name}: {said}");
        assert!(!stopped.join("results.json").exists(), "{name}");
        let found = train(&stopped, changes, true, None).unwrap().unwrap();
        assert_eq!(found.metrics, expected.metrics, "{name}");
        let losses = |run: &Path| {
            let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
            let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
            let keys = ["epoch", "loss", "learning_rate", "metrics"];
            text.lines().map(|text| keys.map(|key| line(text)[key].clone())).collect::<Vec<_>>()
        };
        assert_eq!(losses(&stopped), losses(&whole), "{name}");
    }
}

/// A posterior belongs to the weights that it was fitted to: one from before a training goes on is not left beside new ones.
#[test]
fn a_posterior_of_before_goes_when_the_training_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path();
    train(run, &[], false, Some(0)).expect_err("it was stopped");
    let opened = || Trained::open(run, Device::Cpu);
    let mut trained = opened().unwrap();
    let changes = ["train.select=\"best\"", "posterior.kind=linearised"];
    let stop = AtomicBool::new(false);
    let asked = fixture::config(&CONFIG, &changes);
    let fitted = fit_posterior(&mut trained, &asked, &fixture::context(run, &stop), false).unwrap();
    let step = fitted.record.expect("was fitted").step;
    assert!(step > 0 && opened().unwrap().model.posterior.is_some());

    let goes_on = |stop_at: Option<u64>| train(run, &[], true, stop_at);
    goes_on(Some(1)).expect_err("it was stopped");
    assert!(!run.join("posterior.json").exists() && !run.join("posterior.safetensors").exists());
    assert!(opened().unwrap().model.posterior.is_none(), "predicts by draws of the weights there are");

    goes_on(None).unwrap().unwrap();
    fit_posterior(&mut opened().unwrap(), &asked, &fixture::context(run, &stop), false).unwrap();
    goes_on(None).unwrap().unwrap();
    assert!(opened().unwrap().model.posterior.is_some(), "a training that is over leaves it");
}
