//! Several processes train one run.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::child::Running;
use crate::resume::{ENDLESS, epochs};
use crate::{Place, json, words_of_training};

/// `fidgp launch -n 2` with a tiny training.
fn launch(place: &Place, of_launch: &[&str], more: &[&str]) -> Running {
    let steps = ["--set", "train.batch_size=8", "--set", "train.sync_norm=true"];
    let training = words_of_training(&[&steps, more].concat());
    let words = [&["launch", "-n", "2"], of_launch, &training[..]].concat();
    let mut command = place.command(&words);
    command.env("FIDGP_GROUP_TIMEOUT", "60");
    Running::start(command)
}

/// The processes that a launcher started, by their rank.
fn children(launcher: &Running) -> Vec<String> {
    let listed = Command::new("pgrep").args(["-P", &launcher.id()]).output().unwrap();
    let mut found: Vec<u32> =
        String::from_utf8(listed.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    found.sort_unstable();
    found.iter().map(ToString::to_string).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn two_processes_leave_the_run_of_one() {
    let (two, one) = (Place::new(), Place::new());
    launch(&two, &[], &[]).said().ends(0).says(&["look at it with: fidgp report run"]);
    one.train(&["--set", "train.batch_size=8", "--set", "train.sync_norm=true"]).ends(0);
    let results = |place: &Place| json(&place.path("run/results.json"));
    for (name, value) in results(&one)["metrics"].as_object().unwrap() {
        let (alone, together) = (value.as_f64().unwrap(), results(&two)["metrics"][name].as_f64().unwrap());
        assert!((alone - together).abs() < 0.02 * alone.abs().max(1.0), "{name}: {alone}, {together}");
    }
    for ((epoch, alone, _), (_, together, _)) in epochs(&one).into_iter().zip(epochs(&two)) {
        let (alone, together) = (alone.as_f64().unwrap(), together.as_f64().unwrap());
        assert!((alone - together).abs() < 1e-3 * alone.abs().max(1.0), "epoch {epoch}: {alone}, {together}");
    }
    // what two processes left one goes on with
    let toml = fs::read_to_string(two.path("run/run.toml")).unwrap();
    fs::write(two.path("run/run.toml"), toml.replace("epochs = 3", "epochs = 5")).unwrap();
    fs::remove_file(two.path("run/results.json")).unwrap();
    two.fidgp(&["train", "--resume", "run", "--device", "cpu"]).ends(0);
    assert_eq!(epochs(&two).len(), 5);
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_process_ends_the_others_by_name() {
    let place = Place::new();
    let mut launcher = launch(&place, &[], &["--set", ENDLESS, "--set", "train.checkpoint_every=1"]);
    launcher.until("a checkpoint", |_| place.path("run/checkpoint/last.safetensors").exists());
    let victim = children(&launcher)[1].clone();
    Command::new("kill").args(["-9", &victim]).status().unwrap();
    let noticed = format!("process {victim}) died or does not answer");
    launcher.said().ends(1).says(&[&noticed, "rank 1 of 2 (", "was killed (signal: 9", "waited for the others ("]);
    assert!(!place.path("run/results.json").exists());
    let leftovers = fs::read_dir(place.path("run/checkpoint")).unwrap().count();
    assert_eq!(leftovers, 1, "a file that is not whole was left");
}

#[test]
#[cfg(target_os = "linux")]
fn with_restarts_a_killed_training_comes_to_its_end() {
    let place = Place::new();
    let more = ["--set", "train.epochs=60", "--set", "train.checkpoint_every=1"];
    let mut launcher = launch(&place, &["--restarts", "1"], &more);
    launcher.until("a checkpoint", |_| place.path("run/checkpoint/last.safetensors").exists());
    let victim = children(&launcher)[0].clone();
    Command::new("kill").args(["-9", &victim]).status().unwrap();
    launcher.said().ends(0).says(&["was killed (signal: 9", "starting again (1 of 1 restarts)"]);
    assert_eq!(epochs(&place).len(), 60);
}

#[test]
#[cfg(target_os = "linux")]
fn processes_end_with_their_launcher() {
    let place = Place::new();
    let mut launcher = launch(&place, &[], &["--set", ENDLESS, "--set", "train.checkpoint_every=1"]);
    launcher.until("a checkpoint", |_| place.path("run/checkpoint/last.safetensors").exists());
    let processes = children(&launcher);
    assert_eq!(processes.len(), 2);
    launcher.signal("-9");
    assert_eq!(launcher.said().code, None);
    let runs = |process: &String| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    };
    let begun = Instant::now();
    while processes.iter().any(runs) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{processes:?} run on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_the_environment_says_must_fit() {
    let place = Place::new();
    let said = |variables: &[(&str, &str)]| {
        let mut command = place.command(&words_of_training(&[]));
        command.envs(variables.iter().copied());
        Running::start(command).said().ends(2)
    };
    said(&[("RANK", "2"), ("WORLD_SIZE", "2")]).says(&["RANK = 2 is not below WORLD_SIZE = 2"]);
    said(&[("RANK", "0"), ("WORLD_SIZE", "2")]).says(&["MASTER_ADDR is not set"]);
    place.fidgp(&["launch", "-n", "2", "eval", "run"]).ends(2).says(&["runs `train`"]);
}
