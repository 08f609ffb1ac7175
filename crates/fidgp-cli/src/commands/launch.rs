//! `fidgp launch`

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fidgp_lab::LabError;

use super::Outcome;
use super::processes::{LAUNCHED, SHARED};
use crate::args::Launch;

/// How long the others get to end by themselves once one has failed.
const GRACE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

pub fn run(arguments: &Launch) -> Outcome {
    let command = &arguments.command;
    if command.first().is_none_or(|first| !SHARED.contains(&first.as_str())) {
        let why = format!("runs {}: fidgp launch -n 2 train CONFIG", SHARED.map(|one| format!("`{one}`")).join(", "));
        return Err(LabError::config("fidgp launch", why));
    }
    let stop = super::stop_on_interrupt();
    for attempt in 0.. {
        let Some(failure) = once(arguments, attempt)? else { return Ok(ExitCode::SUCCESS) };
        tell!("error: {}", failure.what);
        if attempt >= arguments.restarts || failure.is_misuse || stop.load(Ordering::Relaxed) {
            return Ok(ExitCode::from(if failure.is_misuse { 2 } else { 1 }));
        }
        tell!("starting again ({} of {} restarts)", attempt + 1, arguments.restarts);
    }
    unreachable!("attempts are counted")
}

/// Why the processes did not come to their end.
struct Failure {
    what: String,
    is_misuse: bool,
}

/// A process that was started.
struct Rank {
    number: usize,
    child: Child,
    ended: Option<ExitStatus>,
    /// Whether it said that it waited for another one.
    waited: Arc<AtomicBool>,
    /// Reads what it says.
    reader: Option<JoinHandle<()>>,
}

/// Starts all processes and waits for them.
fn once(arguments: &Launch, attempt: u64) -> Result<Option<Failure>, LabError> {
    let size = arguments.processes.get().into();
    let port = free_port()?;
    let mut ranks = Vec::new();
    for rank in 0..size {
        ranks.push(Rank::start(rank, (size, port, attempt), &arguments.command)?);
    }
    let first = wait(&mut ranks);
    ranks.iter_mut().filter_map(|rank| rank.reader.take()).for_each(|reader| _ = reader.join()); // to its last line
    Ok(first.map(|first| failure(&ranks, first)))
}

impl Rank {
    fn start(rank: usize, (size, port, attempt): (usize, u16, u64), command: &[String]) -> Result<Self, LabError> {
        let failed = |error: std::io::Error| LabError::config(format!("rank {rank}"), format!("cannot start: {error}"));
        let mut child = Command::new(std::env::current_exe().map_err(failed)?);
        child.args(command).stdin(Stdio::piped()).env(LAUNCHED, "1").env("MASTER_ADDR", "127.0.0.1");
        let numbers = [
            ("RANK", rank as u64),
            ("WORLD_SIZE", size as u64),
            ("LOCAL_RANK", rank as u64),
            ("LOCAL_WORLD_SIZE", size as u64),
            ("MASTER_PORT", u64::from(port)),
            ("TORCHELASTIC_RESTART_COUNT", attempt),
        ];
        child.envs(numbers.map(|(name, number)| (name, number.to_string()))).env_remove("TORCHELASTIC_USE_AGENT_STORE");
        if rank > 0 {
            child.stdout(Stdio::null()).stderr(Stdio::piped());
        }
        let mut child = child.spawn().map_err(failed)?;
        let waited = Arc::new(AtomicBool::new(false));
        let reader = child.stderr.take().map(|errors| {
            let waited = Arc::clone(&waited);
            std::thread::spawn(move || {
                for line in BufReader::new(errors).lines().map_while(Result::ok) {
                    tell!("[rank {rank}] {line}");
                    waited.fetch_or(line.contains("waited for the others"), Ordering::Relaxed);
                }
            })
        });
        Ok(Self { number: rank, child, ended: None, waited, reader })
    }

    fn has_failed(&self) -> bool {
        self.ended.is_some_and(|status| !status.success())
    }

    fn look(&mut self) {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
    }
}

/// Waits until all have ended; the place of the first that failed. The others get some time, then they are killed.
fn wait(ranks: &mut [Rank]) -> Option<usize> {
    let (mut first, mut until, mut told) = (None, None, false);
    loop {
        ranks.iter_mut().for_each(Rank::look);
        if first.is_none() {
            first = ranks.iter().position(Rank::has_failed);
            until = first.map(|_| Instant::now() + GRACE);
        }
        if ranks.iter().all(|rank| rank.ended.is_some()) {
            return first;
        }
        if super::STOP.load(Ordering::Relaxed) && !told {
            told = true;
            ranks.iter_mut().filter_map(|rank| rank.child.stdin.as_mut()).for_each(|pipe| _ = pipe.write_all(b"\n"));
        }
        if until.is_some_and(|until| Instant::now() > until) {
            ranks.iter_mut().filter(|rank| rank.ended.is_none()).for_each(|rank| _ = rank.child.kill());
        }
        std::thread::sleep(PAUSE);
    }
}

/// The one to name is the one that was killed, if one was, else one that did not fail for want of another.
fn failure(ranks: &[Rank], first: usize) -> Failure {
    let killed = ranks.iter().find(|rank| rank.ended.is_some_and(|status| status.code().is_none()));
    let own = |rank: &&Rank| rank.has_failed() && !rank.waited.load(Ordering::Relaxed);
    // what rank 0 says is not read here, so it comes last
    let culprit = killed.or_else(|| ranks.iter().rev().find(own)).unwrap_or(&ranks[first]);
    let code = culprit.ended.and_then(|status| status.code());
    let how = match code {
        Some(code) => format!("ended with exit code {code}"),
        None => format!("was killed ({})", culprit.ended.map_or_else(String::new, |status| status.to_string())),
    };
    let (rank, process) = (culprit.number, culprit.child.id());
    Failure { what: format!("rank {rank} of {} (process {process}) {how}", ranks.len()), is_misuse: code == Some(2) }
}

fn free_port() -> Result<u16, LabError> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    port.map(|address| address.port()).map_err(|error| LabError::config("a port on 127.0.0.1", error.to_string()))
}
