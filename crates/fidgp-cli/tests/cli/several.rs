//! Several processes train one run.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::child::Running;
use crate::mishap::{uci_training, write_uci};
use crate::resume::{ENDLESS, epochs};
use crate::{Place, TINY, json, left, words_of_training};

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
    place.fidgp(&["launch", "-n", "2", "export", "run"]).ends(2).says(&["runs `train`", "`eval`"]);
}

/// All processes of a launcher would do the whole of it, into the same files.
#[test]
fn what_one_process_does_is_refused_to_several() {
    let place = Place::new();
    let said = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = place.command(words);
        command.envs(variables.iter().copied());
        Running::start(command).said()
    };
    let slurm = [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_STEP_NODELIST", "a")];
    let words = ["this is rank 1 of 4 (Slurm)", "env -u SLURM_PROCID fidgp export"];
    said(&["export", "run", "--out", "model"], &slurm).ends(2).says(&words);
    let torchrun = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "a")];
    said(&["ood", "--logits", "a.npy", "--ood", "svhn"], &torchrun).ends(2).says(&["--logits", "one process"]);
    said(&["report", "run"], &torchrun).ends(2).says(&["fidgp report", "rank 0 of 2", "env -u RANK"]);
    let step_of_one = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")];
    said(&["eval", "run"], &step_of_one).ends(2).says(&["run"]);
}

/// The environment says how many threads, the option says it louder, and a launcher's processes do not divide what was said.
#[test]
fn threads_are_those_that_the_user_names() {
    let threads = |variable: &str, more: &[&str]| {
        let place = Place::new();
        let mut command = place.command(&words_of_training(more));
        command.env("OMP_NUM_THREADS", variable);
        Running::start(command).said().ends(0);
        json(&place.path("run/results.json"))["hardware"]["threads"].as_u64().unwrap()
    };
    assert_eq!((threads("2", &[]), threads("2", &["--threads", "3"]), threads("", &[])), (2, 3, 1));
}

/// `torchrun` gives every process one thread where the user says nothing; on a machine with cores left that is said.
#[test]
#[cfg(target_os = "linux")]
fn a_thread_each_as_torchrun_has_it_is_said() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let place = Place::new();
    let mut command = place.command(&words_of_training(&[]));
    let step = [("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1")];
    command.envs(step).envs([("OMP_NUM_THREADS", "1"), ("FIDGP_GROUP_TIMEOUT", "1"), ("MASTER_PORT", "0")]);
    let said = Running::start(command).said();
    assert_eq!(said.err.contains("OMP_NUM_THREADS = 1: each process computes with 1 thread"), cores > 1, "{said:?}");
}

/// Both processes of an attempt, in the environment that `torchrun` without an agent's store gives them.
fn as_torchrun(place: &Place, attempt: &str) -> [Running; 2] {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    ["0", "1"].map(|rank| {
        let more = ["--set", "train.epochs=60", "--set", "train.checkpoint_every=1", "--set", "train.batch_size=8"];
        let mut command = place.command(&words_of_training(&[&more[..], &["--set", "train.sync_norm=true"]].concat()));
        command.envs([("RANK", rank), ("LOCAL_RANK", rank), ("ROLE_RANK", rank), ("MASTER_PORT", port.as_str())]);
        for size in ["WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"] {
            command.env(size, "2");
        }
        command.envs([("GROUP_RANK", "0"), ("MASTER_ADDR", "127.0.0.1"), ("OMP_NUM_THREADS", "1")]);
        command.envs([("TORCHELASTIC_RESTART_COUNT", attempt), ("TORCHELASTIC_MAX_RESTARTS", "3")]);
        command.envs([("TORCHELASTIC_RUN_ID", "none"), ("FIDGP_GROUP_TIMEOUT", "60")]);
        Running::start(command)
    })
}

/// After a restart the same command goes on with its run, and ends like the training that was not disturbed.
#[test]
#[cfg(target_os = "linux")]
fn what_torchrun_restarts_goes_on() {
    let (whole, killed) = (Place::new(), Place::new());
    for child in as_torchrun(&whole, "0") {
        child.said().ends(0);
    }
    let [mut first, second] = as_torchrun(&killed, "0");
    first.until("a checkpoint", |_| killed.path("run/checkpoint/last.safetensors").exists());
    second.signal("-9");
    first.said().ends(1).says(&["rank 1 of 2 (", "died or does not answer"]);
    assert_eq!(second.said().code, None);
    let [first, second] = as_torchrun(&killed, "1");
    first.said().ends(0);
    second.said().ends(0);
    let metrics = |place: &Place| json(&place.path("run/results.json"))["metrics"].clone();
    assert_eq!(metrics(&killed), metrics(&whole));
    let losses = |place: &Place| epochs(place).into_iter().map(|(epoch, loss, _)| (epoch, loss)).collect::<Vec<_>>();
    assert_eq!(losses(&killed), losses(&whole));
}

fn splits(place: &Place) -> serde_json::Value {
    let mut splits = json(&place.path("run/results.json"))["splits"].clone();
    for run in splits["runs"].as_array_mut().unwrap() {
        run.as_object_mut().unwrap().remove("train_seconds");
    }
    splits
}

/// Processes of a launcher share the splits of a table out; processes of a job array fill one folder.
#[test]
fn splits_are_shared_out() {
    let [alone, launched, array] = [(); 3].map(|()| {
        let place = Place::new();
        write_uci(&place, None);
        place
    });
    alone.fidgp(&uci_training(&[])).ends(0);
    launched.fidgp(&[&["launch", "-n", "2"], &uci_training(&[])[..]].concat()).ends(0);
    assert_eq!(splits(&launched), splits(&alone));
    let one = |split| Running::start(array.command(&uci_training(&["--splits", split])));
    for child in ["1", "0"].map(one) {
        child.said().ends(0);
    }
    assert_eq!(splits(&array), splits(&alone));
    let command = json(&array.path("run/results.json"))["command"].as_str().unwrap().to_owned();
    assert!(command.ends_with("--splits 0,1"), "{command}");
    let forced = [&["launch", "-n", "2"], &uci_training(&["--force"])[..]].concat();
    launched.fidgp(&forced).ends(2).says(&["--force", "remove the folder"]);
}

/// A split whose process is gone is trained by another.
#[test]
fn a_split_that_another_process_holds_is_waited_for() {
    let place = Place::new();
    write_uci(&place, None);
    fs::create_dir_all(place.path("run/splits")).unwrap();
    let other = fs::File::create(place.path("run/splits/.00.lock")).unwrap();
    other.lock().unwrap();
    let mut child = Running::start(place.command(&uci_training(&["--splits", "0,1"])));
    child.until("the free split", |_| place.path("run/splits/01.json").exists());
    assert!(!place.path("run/splits/00.json").exists());
    drop(other);
    child.said().ends(0);
    assert_eq!(splits(&place)["runs"].as_array().unwrap().len(), 2);
}

/// Processes share out the runs of a comparison, and the first writes it.
#[test]
fn the_runs_of_a_comparison_are_shared_out() {
    let words = ["compare", left(), "--device", "cpu", "--seeds", "2", "--out", "compared"].into_iter();
    let tiny = TINY.iter().filter(|change| !change.starts_with("inducing.")).flat_map(|change| ["--set", change]);
    let words: Vec<_> = words.chain(tiny).chain(["--methods", "deterministic,mc-dropout"]).collect();
    let metrics = |launcher: &[&str]| {
        let place = Place::new();
        place.fidgp(&[launcher, &words[..]].concat()).ends(0);
        let all = json(&place.path("compared/comparison.json"))["contenders"].clone();
        all.as_array().unwrap().iter().map(|one| one["metrics"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(metrics(&["launch", "-n", "2"]), metrics(&[]));
}
