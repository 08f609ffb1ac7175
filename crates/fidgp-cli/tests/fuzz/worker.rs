//! The process in which the readers run.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mutate::{self, Random};
use crate::{ALLOCATOR, MOST_FINDINGS, Target, files, kept, number, targets};

/// Inputs of a target in a test.
const FEW: u64 = 300;
/// Seconds after which an input that is still read ends the process, on a machine that does much else.
const DEADLINE: u64 = 60;
/// Seconds of processor time beyond which an input that was read is a finding.
const SLOW: f64 = 5.0;
/// Bytes of memory beyond which an input is a finding: pictures may have 16 million pixels, whatever their file's size, and are
/// widened on the way.
const LARGE: usize = 512 << 20;

/// When the input that is read now was begun, in milliseconds since the process was; 0 between two.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// How long a target runs: so many seconds, or a few inputs.
enum Length {
    Inputs(u64),
    Time(Duration),
}

impl Length {
    /// Of one target among so many; fast readers get more of the time.
    fn of(target: &Target, all: f64) -> Self {
        match number("FIDGP_FUZZ_MINUTES") {
            Some(minutes) => Self::Time(Duration::from_secs_f64(60.0 * minutes as f64 * share(target) / all)),
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

fn share(target: &Target) -> f64 {
    1.0 / target.weight as f64
}

/// What came of a target.
#[derive(Default)]
struct Tally {
    executions: u64,
    accepted: u64,
    /// What was said, its numbers left out: how many kinds of answers there are.
    said: BTreeMap<String, u64>,
    /// How many kinds there were after so many executions, twice as many each time.
    growth: Vec<[u64; 2]>,
    findings: Vec<String>,
    slowest: f64,
    largest: usize,
}

/// Where an input lies while it is read.
struct Desk {
    place: PathBuf,
    current: File,
    since: Instant,
}

impl Desk {
    fn read(&self, target: &Target, input: &[u8], tally: &mut Tally) {
        self.current
            .set_len(input.len() as u64)
            .and_then(|()| self.current.write_all_at(input, 0))
            .expect("room for an input");
        BEGUN.store(self.since.elapsed().as_millis() as u64 + 1, Ordering::Relaxed);
        ALLOCATOR.reset_peak_usage();
        let (before, held) = (processor_time(), ALLOCATOR.current_usage());
        let outcome = fidgp_files::guarded(|| (target.read)(&self.place, input));
        let (took, asked) = (processor_time() - before, ALLOCATOR.peak_usage().saturating_sub(held));
        BEGUN.store(0, Ordering::Relaxed);
        tally.executions += 1;
        tally.slowest = tally.slowest.max(took);
        tally.largest = tally.largest.max(asked);
        if asked > LARGE {
            tally.findings.push(format!("takes {} MB: {}", asked >> 20, kept(target.name, input).display()));
        }
        if took > SLOW {
            tally.findings.push(format!("takes {took:.1} s: {}", kept(target.name, input).display()));
        }
        match outcome {
            Ok(Ok(())) => tally.accepted += 1,
            Ok(Err(words)) => *tally.said.entry(kind(&words)).or_default() += 1,
            Err(panic) => tally.findings.push(format!("{panic}: {}", kept(target.name, input).display())),
        }
        if tally.executions.is_power_of_two() {
            tally.growth.push([tally.executions, tally.said.len() as u64]);
        }
    }
}

/// Seconds of this thread, where the system says; the clock's elsewhere.
fn processor_time() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let said = text.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    said.map_or_else(|| BEGUN.load(Ordering::Relaxed) as f64 * 1e-3, |nanoseconds| nanoseconds as f64 * 1e-9)
}

/// A message without what differs from input to input.
fn kind(words: &str) -> String {
    words.chars().filter(char::is_ascii_alphabetic).take(60).collect()
}

/// Ends the process when an input takes too long: its file says which.
fn watch(since: Instant) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let begun = BEGUN.load(Ordering::Relaxed);
            let now = since.elapsed().as_millis() as u64;
            if begun > 0 && now.saturating_sub(begun) > 1000 * DEADLINE {
                eprintln!("it takes more than {DEADLINE} s");
                std::process::abort();
            }
        }
    });
}

#[test]
#[ignore = "`no_reader_panics` runs it as a process of its own"]
fn readers() {
    let (Ok(wanted), Ok(work)) = (std::env::var("FIDGP_FUZZ_TARGETS"), std::env::var("FIDGP_FUZZ_WORK")) else {
        return;
    };
    let (wanted, work): (Vec<_>, _) = (wanted.split(',').collect(), Path::new(&work));
    let seed = number("FIDGP_FUZZ_SEED").unwrap_or(7);
    let since = Instant::now();
    watch(since);
    let mut all = targets::all();
    all.retain(|target| wanted.contains(&target.name));
    let shares = all.iter().map(share).sum();
    let own = |name: &str| {
        OpenOptions::new()
            .create(true)
            .append(name == "tallies")
            .write(true)
            .truncate(name != "tallies")
            .open(work.join(name))
    };
    let mut tallies = own("tallies").expect("a file to write");
    for target in &all {
        fs::write(work.join("target"), target.name).expect("a file to write");
        let place = work.join(target.name);
        fs::create_dir_all(&place).expect("a folder to write to");
        let desk = Desk { place, current: own("current").expect("a file to write"), since };
        let tally = run(target, &desk, seed, shares);
        writeln!(tallies, "{tally}").expect("a file to write");
    }
}

fn run(target: &Target, desk: &Desk, seed: u64, shares: f64) -> Value {
    let (mut tally, begun) = (Tally::default(), Instant::now());
    let found = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/found").join(target.name));
    for input in target.corpus.iter().chain(&found) {
        desk.read(target, input, &mut tally);
    }
    assert!(tally.accepted > 0, "{}: nothing of its corpus is accepted: {:?}", target.name, tally.said);
    let (length, mut random) = (Length::of(target, shares), Random::new(seed ^ mutate::hash(target.name.as_bytes())));
    while !length.is_over(tally.executions, begun) && tally.findings.len() < MOST_FINDINGS {
        let input = mutate::changed(&target.corpus, &mut random);
        desk.read(target, &(target.mend)(input), &mut tally);
    }
    json!({
        "target": target.name,
        "executions": tally.executions,
        "accepted": tally.accepted,
        "answers": tally.said.len(),
        "growth": tally.growth,
        "slowest_s": (tally.slowest * 1000.0).round() / 1000.0,
        "largest_mb": tally.largest >> 20,
        "findings": tally.findings,
    })
}

/// A tally for people.
pub fn line(tally: &Value) -> String {
    format!(
        "{}: {} executions, {} accepted, {} kinds of refusal, slowest {} s, at most {} MB, {} findings",
        tally["target"].as_str().unwrap_or_default(),
        tally["executions"],
        tally["accepted"],
        tally["answers"],
        tally["slowest_s"],
        tally["largest_mb"],
        tally["findings"].as_array().map_or(0, Vec::len)
    )
}
