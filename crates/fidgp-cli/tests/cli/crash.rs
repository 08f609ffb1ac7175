//! Killed at any moment: nothing is lost, nothing is mixed. `scripts/crash N` kills each command N times and keeps a record.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::child::Running;
use crate::resume::{epochs, tensors};
use crate::{Place, contents, deploy, fixture, json, tables, words_of_training};

/// How often each command is killed, and the seed of the moments.
fn kills(usual: u64) -> impl Iterator<Item = u64> {
    let count = std::env::var("FIDGP_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    (0..count).map(|kill: u64| (kill.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 1000) // thousandths, evenly spread
}

/// Says for the record how often a command was killed, and what held afterwards.
fn record(command: &str, kills: usize, held: &str) {
    println!("record: {}", serde_json::json!({"command": command, "kills": kills, "held": held}));
}

/// Runs a command as long as it takes, and then kills it at moments within that time; `after` looks at what is left.
fn killed(place: &Place, words: &[&str], times: impl Iterator<Item = u64>, held: &str, mut after: impl FnMut()) {
    let mut count = 0;
    let begun = Instant::now();
    place.fidgp(words).ends(0);
    let whole = begun.elapsed();
    for thousandths in times {
        let child = Running::start(place.command(words));
        std::thread::sleep(whole.mul_f64(thousandths as f64 / 1000.0).max(Duration::from_millis(1)));
        drop(child); // with SIGKILL
        after();
        count += 1;
    }
    record(words[0], count, held);
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
    let (mut command, mut count) = (&words[..], 0);
    for thousandths in kills(6) {
        count += 1;
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
    record("train", count, "resumed bit for bit, one line an epoch, no leftovers");
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
    killed(&place, &words, kills(6), "the old model or the new one", || {
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
    killed(&place, &words("calibrate"), kills(3), "a temperature with its rules, or neither", || {
        place.fidgp(&words("eval")).ends(0);
        let _ = std::fs::remove_file(&temperature); // the next one starts without
    });
}

/// Calibrated anew again and again: the rules of before, or the new ones, never one file of each.
#[test]
fn rules_that_are_replaced_by_a_killed_calibration_are_the_old_or_the_new() {
    let place = tables::place();
    let fold = ["run", "--set", "train.epochs=2", "--set", "data.validation_fraction=0.4"];
    place.fidgp(&[&tables::TRAIN[..], &fold].concat()).ends(0);
    place.write("rows.csv", "\"size, m2\",age\n0.5,0.5\n0.2,0.7\n");
    let said = || place.fidgp(&["predict", "run", "rows.csv", "--device", "cpu", "--json"]).ends(0).out;
    let calibrate = |error: &'static str| {
        ["calibrate", "run", "--data", "data", "--device", "cpu", "--wrong-beyond", "40", "--error", error]
    };
    let known = ["0.1", "0.3"].map(|error| {
        place.fidgp(&calibrate(error)).ends(0);
        said()
    });
    assert_ne!(known[0], known[1]);
    place.fidgp(&calibrate("0.1")).ends(0);
    killed(&place, &calibrate("0.3"), kills(4), "the old rules or the new ones", || {
        assert!(known.contains(&said()), "neither the old rules nor the new ones");
        place.fidgp(&["report", "run"]).ends(0);
        place.fidgp(&calibrate("0.1")).ends(0);
    });
}

#[test]
fn a_fit_that_is_killed_leaves_the_old_posterior_or_the_new() {
    let place = tables::place();
    place.fidgp(&[&tables::TRAIN[..], &["run", "--set", "train.epochs=2"]].concat()).ends(0);
    place.write("rows.csv", "\"size, m2\",age\n0.5,0.5\n12,-9\n");
    let said = || place.fidgp(&["predict", "run", "rows.csv", "--device", "cpu", "--json"]).ends(0).out;
    let fit = ["fit-posterior", "run", "--data", "data", "--device", "cpu"];
    let before = said();
    place.fidgp(&fit).ends(0);
    let known = [before, said()];
    let flow = ["--set", "posterior.kind=flow"];
    place.fidgp(&[&fit[..], &flow].concat()).ends(0);
    killed(
        &place,
        &fit,
        kills(4),
        "weight draws or the whole posterior; results.json of the one that predicts",
        || {
            assert!(known.contains(&said()), "neither without a posterior nor with the whole of it");
            place.fidgp(&["report", "run"]).ends(0);
            place.fidgp(&[&fit[..], &flow].concat()).ends(0);
        },
    );
}

/// What only reads leaves a folder as it is, killed or not.
#[test]
fn an_evaluation_and_a_server_that_are_killed_change_nothing() {
    let place = tables::place();
    place.fidgp(&[&tables::TRAIN[..], &["run", "--set", "train.epochs=2"]].concat()).ends(0);
    let before = contents(&place.path("run"));
    let eval = ["eval", "run", "--data", "data", "--device", "cpu"];
    killed(&place, &eval, kills(4), "the folder is unchanged", || {
        assert!(contents(&place.path("run")) == before, "an evaluation changed the folder");
    });
    let mut count = 0;
    for thousandths in kills(4) {
        let child =
            Running::start(place.command(&["serve", "run", "--port", "0", "--device", "cpu", "--threads", "1"]));
        std::thread::sleep(Duration::from_millis(2 * thousandths));
        drop(child);
        assert!(contents(&place.path("run")) == before, "a server changed the folder");
        count += 1;
    }
    record("serve", count, "the folder is unchanged");
}

/// `ood` writes beside the model: statistics whole or none, and the record of a repeat is that of a run that was let alone.
#[test]
fn a_benchmark_that_is_killed_can_be_repeated() {
    let place = Place::new();
    deploy::copied(&place);
    let (data, pictures) = (fixture("cifar100-small"), fixture("cifar100-pictures"));
    let words = ["ood", "run", "--device", "cpu", "--data", data.to_str().unwrap(), "--out", "ood", "--draws", "0"];
    let words = [&words[..], &["--ood", pictures.to_str().unwrap(), "--threads", "1"]].concat();
    let scores = || json(&place.path("ood/ood.json"))["scores"].clone();
    let mut known = None;
    killed(&place, &words, kills(2), "ood.json whole, statistics whole, a repeat gives the same scores", || {
        let known = known.get_or_insert_with(scores);
        assert!(scores() == *known, "the record of before does not stand");
    });
    let _ = std::fs::remove_file(place.path("ood/ood.json"));
    place.fidgp(&words).ends(0);
    assert!(Some(scores()) == known);
    assert_eq!(leftovers(&place.path("run")), Vec::<std::path::PathBuf>::new());
}
