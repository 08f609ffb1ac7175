//! Killed at any moment: nothing is lost, nothing is mixed. `scripts/crash N` kills each command N times.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::child::Running;
use crate::resume::{epochs, tensors};
use crate::{Place, contents, deploy, fixture, json, words_of_training};

/// How often each command is killed, and the seed of the moments.
fn kills(usual: u64) -> impl Iterator<Item = u64> {
    let count = std::env::var("FIDGP_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    (0..count).map(|kill: u64| (kill.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 1000) // thousandths, evenly spread
}

/// Runs a command as long as it takes, and then kills it at moments within that time; `after` looks at what is left.
fn killed(place: &Place, words: &[&str], times: impl Iterator<Item = u64>, mut after: impl FnMut()) {
    let begun = Instant::now();
    place.fidgp(words).ends(0);
    let whole = begun.elapsed();
    for thousandths in times {
        let child = Running::start(place.command(words));
        std::thread::sleep(whole.mul_f64(thousandths as f64 / 1000.0).max(Duration::from_millis(1)));
        drop(child); // with SIGKILL
        after();
    }
}

fn leftovers(folder: &Path) -> Vec<std::path::PathBuf> {
    let files = contents(folder).into_iter().map(|(path, _)| path);
    files
        .filter(|path| path.strip_prefix(folder).is_ok_and(|name| name.display().to_string().contains(".tmp")))
        .collect()
}

#[test]
fn a_training_that_is_killed_goes_on_as_if_nothing_had_been() {
    let (place, whole) = (Place::new(), Place::new());
    let words = words_of_training(&["--set", "train.epochs=40", "--set", "train.checkpoint_every=3"]);
    let begun = Instant::now();
    whole.fidgp(&words).ends(0);
    let length = begun.elapsed();
    let resume = ["train", "--resume", "run", "--device", "cpu"];
    let mut command = &words[..];
    for thousandths in kills(6) {
        let child = Running::start(place.command(command));
        std::thread::sleep(length.mul_f64(thousandths as f64 / 1500.0));
        drop(child);
        if place.path("run/run.toml").exists() {
            command = &resume;
        }
    }
    place.fidgp(command).ends(0);
    let last = "run/checkpoint/last.safetensors";
    assert!(tensors(&place.path(last)) == tensors(&whole.path(last)), "the last checkpoints differ");
    let metrics = |place: &Place| json(&place.path("run/results.json"))["metrics"].clone();
    assert_eq!(metrics(&place), metrics(&whole));
    assert_eq!(epochs(&place), epochs(&whole));
    let lines = std::fs::read_to_string(place.path("run/metrics.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 40, "one line an epoch");
    place.fidgp(&resume).ends(0); // whoever comes next clears up
    assert_eq!(leftovers(&place.path("run")), Vec::<std::path::PathBuf>::new());
}

#[test]
fn an_export_that_is_killed_leaves_one_model_whole() {
    let place = Place::new();
    place.train(&[]).ends(0);
    let other = words_of_training(&["--set", "seed=2"]);
    let other: Vec<_> = other.into_iter().map(|word| if word == "run" { "other" } else { word }).collect();
    place.fidgp(&other).ends(0);
    place.write("points.csv", "0.6\n1.3\n");
    let said = |model: &str| place.fidgp(&["predict", model, "points.csv"]).ends(0).out;
    let known = [said("run"), said("other")];
    place.fidgp(&["export", "other", "--out", "model"]).ends(0);
    let words = ["export", "run", "--out", "model", "--force"];
    killed(&place, &words, kills(6), || {
        assert!(known.contains(&said("model")), "neither the old model nor the new one");
    });
    place.fidgp(&words).ends(0);
    assert_eq!(leftovers(place.0.path()), Vec::<std::path::PathBuf>::new());
    assert_eq!(said("model"), known[0]);
}

#[test]
fn a_calibration_that_is_killed_leaves_a_temperature_or_none() {
    let place = Place::new();
    let data = fixture("cifar100-small");
    let place_of_data = ["--data", data.to_str().unwrap(), "--device", "cpu", "--threads", "1"];
    let words = |command| [&[command, "run"][..], &place_of_data].concat();
    place.write("small.toml", &deploy::CONFIG);
    let changes = ["--out", "run", "--set", "data.validation_fraction=0.2", "--set", "train.epochs=2"];
    place.fidgp(&[&["train", "small.toml"][..], &place_of_data, &changes].concat()).ends(0);
    let temperature = place.path("run/temperature.json");
    killed(&place, &words("calibrate"), kills(3), || {
        place.fidgp(&words("eval")).ends(0);
        let _ = std::fs::remove_file(&temperature); // the next one starts without
    });
}
