//! A run that was interrupted and goes on is the run that was not interrupted, bit for bit.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::child::Running;
use crate::{Place, Said, contents, json, words_of_training};

/// Never done before it is caught, with several steps an epoch.
pub const ENDLESS: &str = "train.epochs=1000000";
const STEPS: [&str; 6] =
    ["--set", "train.batch_size=8", "--set", "train.checkpoint_every=1", "--set", "train.validate_every=7"];

/// The header of a safetensors file.
pub fn header(bytes: &[u8]) -> Value {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    serde_json::from_slice(&bytes[8..8 + length]).unwrap()
}

/// The numbers of an f32 tensor of a safetensors file.
pub fn tensor(path: &Path, name: &str) -> Vec<f32> {
    let bytes = fs::read(path).unwrap();
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let [from, to] = [0, 1].map(|i| header(&bytes)[name]["data_offsets"][i].as_u64().unwrap() as usize);
    bytes[start + from..start + to].chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

/// All tensors of a safetensors file: the header without the progress (it holds seconds), and the bytes.
pub fn tensors(path: &Path) -> (Value, Vec<u8>) {
    let bytes = fs::read(path).unwrap();
    let mut header = header(&bytes);
    header.as_object_mut().unwrap().remove("__metadata__");
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    (header, bytes[8 + length..].to_vec())
}

/// Starts a run, waits for its first checkpoint and presses Ctrl-C.
#[track_caller]
fn interrupted(place: &Place, words: &[&str], first_sign: &str) -> Said {
    signalled(place, words, first_sign, "-INT")
}

/// Starts a run, waits for a file and sends it a signal.
#[track_caller]
fn signalled(place: &Place, words: &[&str], first_sign: &str, signal: &str) -> Said {
    let mut child = Running::start(place.command(words));
    child.until(first_sign, |_| place.path(first_sign).exists());
    child.signal(signal);
    child.said()
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_goes_on_as_if_nothing_had_been() {
    let (place, whole) = (Place::new(), Place::new());
    let words = words_of_training(&[&STEPS[..], &["--set", ENDLESS]].concat());
    interrupted(&place, &words, "run/checkpoint/last.safetensors").ends(1).says(&[
        "stopping after this step",
        "everything is saved",
        "Go on with: fidgp train --resume run --device cpu\n",
    ]);
    assert!(!place.path("run/results.json").exists());
    full_disk_keeps_the_checkpoint(&place);
    // the run shall end a few epochs after where it was caught
    let last_epoch = epochs(&place).last().unwrap().0 + 9;
    let toml = fs::read_to_string(place.path("run/run.toml")).unwrap();
    fs::write(place.path("run/run.toml"), toml.replace("epochs = 1000000", &format!("epochs = {last_epoch}"))).unwrap();
    place.fidgp(&["train", "--resume", "run", "--device", "cpu"]).ends(0);
    let shorter = format!("train.epochs={last_epoch}");
    whole.fidgp(&words_of_training(&[&STEPS[..], &["--set", &shorter]].concat())).ends(0);

    let last = "run/checkpoint/last.safetensors";
    assert!(tensors(&place.path(last)) == tensors(&whole.path(last)), "the last checkpoints differ");
    let results = |place: &Place| json(&place.path("run/results.json"));
    assert_eq!(results(&place)["metrics"], results(&whole)["metrics"]);
    // the command that produces the run again is the one that began it
    let begun = results(&whole)["command"].as_str().unwrap().replace(&shorter, ENDLESS);
    assert_eq!(results(&place)["command"], begun);
    assert_eq!(epochs(&place), epochs(&whole));
}

/// Losses and validations by epoch, the later line of an epoch counting.
pub fn epochs(place: &Place) -> Vec<(u64, Value, Value)> {
    let text = fs::read_to_string(place.path("run/metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let by_epoch = lines.map(|line| (line["epoch"].as_u64().unwrap(), (line["loss"].clone(), line["metrics"].clone())));
    by_epoch
        .collect::<std::collections::BTreeMap<_, _>>()
        .into_iter()
        .map(|(epoch, (loss, metrics))| (epoch, loss, metrics))
        .collect()
}

/// Files may grow to 8 KiB, then writing fails as on a full disk: the run stops, and the checkpoint is the old one.
fn full_disk_keeps_the_checkpoint(place: &Place) {
    let before = contents(&place.path("run/checkpoint"));
    let resume =
        format!("trap '' XFSZ; ulimit -f 16; exec {} train --resume run --device cpu", env!("CARGO_BIN_EXE_fidgp"));
    let output = Command::new("sh").args(["-c", &resume]).current_dir(place.path("")).output().unwrap();
    Said::by(&output)
        .ends(1)
        .says(&["cannot write run/checkpoint/last.safetensors", "what stood there before is untouched"]);
    assert!(contents(&place.path("run/checkpoint")) == before, "the checkpoint changed, or a temporary file was left");
}

#[test]
#[cfg(unix)]
fn interrupted_splits_are_finished_later() {
    let place = Place::new();
    crate::mishap::write_uci(&place, None);
    let words = crate::mishap::uci_training(&["--set", ENDLESS, "--parallel", "1", "--splits", "0"]);
    let said = interrupted(&place, &words, "run/run.toml").ends(1).says(&["Go on with: fidgp train --resume run"]);
    said.says(&["splits that are done are kept"]);
}

/// A terminal that is closed sends SIGHUP, unless `nohup` has it ignored.
#[test]
#[cfg(target_os = "linux")]
fn a_closed_terminal_saves_and_nohup_goes_on() {
    let place = Place::new();
    let endless = words_of_training(&["--set", ENDLESS]);
    signalled(&place, &endless, "run/checkpoint/last.safetensors", "-HUP").ends(1).says(&["everything is saved"]);
    let place = Place::new();
    let train = words_of_training(&["--set", "train.epochs=60", "--set", "train.kl={}"]);
    let mut child = Command::new("nohup");
    child.arg(env!("CARGO_BIN_EXE_fidgp")).args(&train).current_dir(place.path(""));
    let mut child = Running::start(child);
    child.until("its first checkpoint", |_| place.path("run/checkpoint/last.safetensors").exists());
    child.signal("-HUP");
    child.said().ends(0);
}

/// Who asks twice is heard at once: the program ends by itself, it does not crash.
#[test]
#[cfg(unix)]
fn a_second_interrupt_ends_at_once() {
    for _ in 0..3 {
        let place = Place::new();
        let words = words_of_training(&["--set", ENDLESS]);
        let mut child = Running::start(place.command(&words));
        child.until("its config", |_| place.path("run/run.toml").exists());
        let id = child.id();
        child.signal("-INT");
        let _ = Command::new("kill").args(["-INT", &id]).status(); // it may be done
        let code = child.said().code;
        assert!(matches!(code, Some(130 | 1)), "{code:?}"); // 1: it was done with its step before the second came
    }
}

/// Schedulers and shutdowns send SIGTERM; the advice works as it stands, data folder included.
#[test]
#[cfg(unix)]
fn a_terminated_run_is_saved_and_its_advice_works() {
    let place = Place::new();
    let data = crate::fixture("cifar100-small");
    std::os::unix::fs::symlink(data, place.path("my data")).unwrap();
    place.write("t.toml", &crate::wrap::PLAIN);
    let words = ["train", "t.toml", "--device", "cpu", "--data", "my data", "--out", "run", "--set", ENDLESS];
    let said = signalled(&place, &words, "run/checkpoint/last.safetensors", "-TERM").ends(1);
    let (_, advice) = said.err.split_once("Go on with: fidgp ").unwrap_or_else(|| panic!("{said:?}"));
    assert_eq!(advice.trim(), "train --resume run --data 'my data' --device cpu");
    let toml = fs::read_to_string(place.path("run/run.toml")).unwrap();
    fs::write(place.path("run/run.toml"), toml.replace("epochs = 1000000", "epochs = 1")).unwrap();
    place.fidgp(&["train", "--resume", "run", "--data", "my data", "--device", "cpu"]).ends(0);
    let command = format!("fidgp train t.toml --device cpu --data 'my data' --out run --set {ENDLESS}");
    assert_eq!(json(&place.path("run/results.json"))["command"], command);
}

#[test]
fn a_run_that_failed_before_its_first_checkpoint_starts_at_the_beginning() {
    let (place, whole) = (Place::new(), Place::new());
    whole.train(&[]).ends(0);
    place.train(&[]).ends(0);
    for file in ["results.json", "checkpoint/last.safetensors", "checkpoint/best.safetensors"] {
        let _ = fs::remove_file(place.path("run").join(file));
    }
    place.train(&[]).ends(2).says(&["go on with --resume"]);
    place.fidgp(&["train", "--resume", "run", "--device", "cpu"]).ends(0).says(&["starts at the beginning"]);
    let results = |place: &Place| json(&place.path("run/results.json"));
    assert_eq!(results(&place)["metrics"], results(&whole)["metrics"]);
    assert_eq!(results(&place)["command"], results(&whole)["command"]);
    assert_eq!(epochs(&place), epochs(&whole));
}

#[test]
fn a_finished_run_can_be_resumed() {
    let place = Place::new();
    place.train(&["--set", "train.epochs=1", "--set", "train.kl={}"]).ends(0);
    let results = json(&place.path("run/results.json"));
    fs::remove_file(place.path("run/results.json")).unwrap();
    place.fidgp(&["train", "--resume", "run", "--device", "cpu"]).ends(0);
    let again = json(&place.path("run/results.json"));
    assert_eq!(again["metrics"], results["metrics"]);
    let seconds = |results: &Value| results["time"]["train_seconds"].as_f64().unwrap();
    assert!(seconds(&results) > 0.0 && seconds(&again) >= 0.99 * seconds(&results), "{again}"); // fitted again: no less
}

#[test]
fn a_truncated_checkpoint_is_named_and_nothing_else_is_touched() {
    let place = Place::new();
    place.train(&[]).ends(0);
    let path = place.path("run/checkpoint/last.safetensors");
    let whole = fs::read(&path).unwrap();
    for length in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        let before = contents(&place.path("run"));
        place
            .fidgp(&["train", "--resume", "run"])
            .ends(1)
            .says(&["checkpoint run/checkpoint/last.safetensors", "start again with --force"]);
        assert!(contents(&place.path("run")) == before, "cut to {length} bytes: a file changed");
    }
    fs::remove_file(&path).unwrap();
    place
        .fidgp(&["train", "--resume", "run"])
        .ends(1)
        .says(&["checkpoint run/checkpoint/last.safetensors", "No such file"]);
}

#[test]
fn a_checkpoint_of_another_network_is_refused() {
    let place = Place::new();
    place.train(&[]).ends(0);
    let toml = fs::read_to_string(place.path("run/run.toml")).unwrap();
    assert!(toml.contains("inducing_rows = 6"));
    fs::write(place.path("run/run.toml"), toml.replace("inducing_rows = 6", "inducing_rows = 5")).unwrap();
    place.fidgp(&["train", "--resume", "run"]).ends(1).says(&["in the configured network"]);
}

#[test]
fn there_must_be_a_run_to_resume() {
    Place::new().fidgp(&["train", "--resume", "nowhere"]).ends(2).says(&["`nowhere` holds no run"]);
    Place::new().fidgp(&["train", "--resume", "run", "--set", "seed=2"]).ends(2).says(&["cannot be used with"]);
}
