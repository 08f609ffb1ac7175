//! Every reader against inputs that nobody meant: small files of the repository, changed at random, from a seed.
//!
//! As a test each target runs a few hundred; `scripts/fuzz MINUTES` runs them for long. The readers run in a process of their
//! own with a bounded address space, and each input lies in a file before it is read: a panic, an abort, memory that is refused,
//! an input that takes too long, each is a finding, and the other targets go on. What is found is kept under `target/fuzz/`, and
//! belongs into `found/`, whose files every run reads first.

mod documents;
mod folders;
mod mutate;
mod onnx;
mod requests;
mod targets;
mod tensors;
mod wire;
mod worker;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use targets::Target;

/// Counts what readers ask for, but for libtorch's tensors: those the bound of the address space holds.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Address space of the readers, in KiB.
const MEMORY: u64 = 4 << 20;
/// Findings after which a target is left alone.
const MOST_FINDINGS: usize = 5;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The value of an environment variable that is a number.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter(|path| path.is_file()).map(|path| fs::read(path).expect("a readable file")).collect()
}

/// Keeps an input that was too much.
fn kept(target: &str, input: &[u8]) -> PathBuf {
    let folder = crates().join("../target/fuzz").join(target);
    let path = folder.join(format!("{:016x}", mutate::hash(input)));
    fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input)).expect("a finding can be kept");
    path
}

/// This program once more, for these targets, within the bounds; what it wrote of each, and how it ended.
fn read_apart(names: &[String], seed: u64, work: &Path) -> (Vec<Value>, Result<(), String>) {
    let program = std::env::current_exe().expect("this program");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -v {MEMORY}; exec \"$@\"")).arg("sh").arg(program);
    shell.args(["--exact", "worker::readers", "--ignored", "--nocapture"]);
    shell.env("FIDGP_FUZZ_TARGETS", names.join(",")).env("FIDGP_FUZZ_SEED", seed.to_string());
    shell.env("FIDGP_FUZZ_WORK", work).env("OMP_NUM_THREADS", "1").env("RAYON_NUM_THREADS", "1");
    let ended = shell.output().expect("sh is there");
    let lines = fs::read_to_string(work.join("tallies")).unwrap_or_default();
    let tallies = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let said = String::from_utf8_lossy(&ended.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
    let end = if ended.status.success() { Ok(()) } else { Err(format!("{}: {last}", ended.status)) };
    (tallies, end)
}

#[test]
fn no_reader_panics() {
    let only = std::env::var("FIDGP_FUZZ_ONLY").ok();
    let seed = number("FIDGP_FUZZ_SEED").unwrap_or(7);
    let mut names: Vec<String> = targets::all().iter().map(|target| target.name.to_owned()).collect();
    names.retain(|name| only.as_ref().is_none_or(|only| only == name));
    let (mut tallies, mut findings, mut attempt) = (Vec::<Value>::new(), Vec::new(), 0);
    while !names.is_empty() {
        let work = tempfile::tempdir().expect("a temporary folder");
        let (done, end) = read_apart(&names, seed.wrapping_add(attempt), work.path());
        attempt += 1;
        for tally in &done {
            println!("{}", worker::line(tally));
            findings.extend(tally["findings"].as_array().into_iter().flatten().map(ToString::to_string));
        }
        names.retain(|name| done.iter().all(|tally| tally["target"] != **name));
        tallies.extend(done);
        let Err(how) = end else { continue };
        let target = fs::read_to_string(work.path().join("target")).unwrap_or_default();
        assert!(!target.is_empty(), "the readers cannot be made: {how}");
        let input = fs::read(work.path().join("current")).unwrap_or_default();
        findings.push(format!("{target}: {how}: {}", kept(&target, &input).display()));
        if findings.iter().filter(|finding| finding.starts_with(&target)).count() >= MOST_FINDINGS {
            names.retain(|name| *name != target);
        }
    }
    if let Ok(path) = std::env::var("FIDGP_FUZZ_RECORD") {
        write_record(Path::new(&path), seed, &tallies, &findings);
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

fn write_record(path: &Path, seed: u64, tallies: &[Value], findings: &[String]) {
    let sum = |field: &str| tallies.iter().filter_map(|tally| tally[field].as_u64()).sum::<u64>();
    let record = json!({
        "schema": "fidgp-fuzz/1",
        "command": std::env::var("FIDGP_FUZZ_COMMAND").unwrap_or_default(),
        "commit": fidgp_report::record::commit(),
        "seed": seed,
        "minutes": number("FIDGP_FUZZ_MINUTES"),
        "address_space_gib": MEMORY >> 20,
        "hardware": fidgp_report::record::Hardware::detect(None, fidgp_lab::device::engine()),
        "executions": sum("executions"),
        "answers": sum("answers"),
        "findings": findings,
        "targets": tallies,
    });
    let text = serde_json::to_string_pretty(&record).expect("a record") + "\n";
    fs::create_dir_all(path.parent().expect("a folder"))
        .and_then(|()| fs::write(path, text))
        .expect("a record can be written");
}
