//! Every reader against inputs that nobody meant: small files of the repository, changed at random, from a seed.
//!
//! As a test each target runs a few hundred; `scripts/fuzz MINUTES` runs them for long. A panic is a finding: the input is
//! kept under `target/fuzz/`, and belongs into `found/`, whose files every run reads first.

mod mutate;
mod onnx;
mod targets;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mutate::Random;
use targets::Target;

/// Inputs of a target in a test.
const FEW: u64 = 300;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The value of an environment variable that is a number.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// How long a target runs: so many seconds, or a few inputs.
enum Length {
    Inputs(u64),
    Time(Duration),
}

impl Length {
    /// Of one target among so many.
    fn of(target: &Target, targets: usize) -> Self {
        match number("FIDGP_FUZZ_MINUTES") {
            Some(minutes) => Self::Time(Duration::from_secs(60 * minutes / targets as u64)),
            None => Self::Inputs(FEW / target.weight),
        }
    }

    fn is_over(&self, done: u64, begun: Instant) -> bool {
        match self {
            Self::Inputs(most) => done >= *most,
            Self::Time(most) => begun.elapsed() >= *most,
        }
    }
}

/// What came of a target.
#[derive(Default)]
struct Tally {
    executions: u64,
    accepted: u64,
    /// What was said, its numbers left out: how many kinds of refusals there are.
    said: BTreeMap<String, u64>,
    findings: Vec<String>,
    slowest: Duration,
}

impl Tally {
    fn run(&mut self, target: &Target, place: &Path, input: &[u8]) {
        let begun = Instant::now();
        let outcome = fidgp_files::guarded(|| (target.read)(place, input));
        self.executions += 1;
        self.slowest = self.slowest.max(begun.elapsed());
        match outcome {
            Ok(Ok(())) => self.accepted += 1,
            Ok(Err(words)) => *self.said.entry(kind(&words)).or_default() += 1,
            Err(panic) => self.findings.push(format!("{}: {panic}: {}", target.name, kept(target, input).display())),
        }
    }
}

/// A message without what differs from input to input.
fn kind(words: &str) -> String {
    words.chars().filter(char::is_ascii_alphabetic).take(60).collect()
}

/// Keeps an input that was too much.
fn kept(target: &Target, input: &[u8]) -> PathBuf {
    let folder = crates().join("../target/fuzz").join(target.name);
    let path = folder.join(format!("{:016x}", mutate::hash(input)));
    fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input)).expect("a finding can be kept");
    path
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter(|path| path.is_file()).map(|path| fs::read(path).expect("a readable file")).collect()
}

#[test]
fn no_reader_panics() {
    let only = std::env::var("FIDGP_FUZZ_ONLY").ok();
    let seed = number("FIDGP_FUZZ_SEED").unwrap_or(7);
    let mut findings = Vec::new();
    let mut all = targets::all();
    all.retain(|target| only.as_ref().is_none_or(|only| only == target.name));
    for target in &all {
        let place = tempfile::tempdir().expect("a temporary folder");
        let (mut tally, begun) = (Tally::default(), Instant::now());
        let found = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/found").join(target.name));
        for input in target.corpus.iter().chain(&found) {
            tally.run(target, place.path(), input);
        }
        assert!(tally.accepted > 0, "{}: nothing of its corpus is accepted: {:?}", target.name, tally.said);
        let (length, mut random) =
            (Length::of(target, all.len()), Random::new(seed ^ mutate::hash(target.name.as_bytes())));
        while !length.is_over(tally.executions, begun) && tally.findings.len() < 5 {
            let input = mutate::changed(&target.corpus, &mut random);
            tally.run(target, place.path(), &(target.mend)(input));
        }
        println!(
            "{}: {} executions, {} accepted, {} kinds of refusal, slowest {:.2} s, {} findings",
            target.name,
            tally.executions,
            tally.accepted,
            tally.said.len(),
            tally.slowest.as_secs_f64(),
            tally.findings.len()
        );
        findings.extend(tally.findings);
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
