//! Training that a KeyboardInterrupt stops.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use fidgp_lab::config::{self, NetworkConfig, RunConfig};
use fidgp_lab::files::CONFIG_FILE;
use fidgp_lab::run_folder::RunContext;
use fidgp_lab::{LabError, device, experiment};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::errors::of_lab;

/// How often Python is asked whether a signal has come.
const PAUSE: Duration = Duration::from_millis(50);
/// Threads for each core beyond which a run hardly moves.
const MOST_THREADS: usize = 8;

/// Trains what a config (TOML) describes into a run folder, or goes on with the run there where no config is given. The GIL is
/// released; a signal's exception ends the training after the step under way, its state kept in the folder.
#[pyfunction]
#[pyo3(signature = (config, run, data, device, threads, overwrite))]
pub fn train(
    py: Python,
    config: Option<&str>,
    run: PathBuf,
    data: Option<PathBuf>,
    device: &str,
    threads: Option<u16>,
    overwrite: bool,
) -> PyResult<()> {
    let wanted = match config {
        Some(text) => config::parse(text, &[]),
        None => config::read(&run.join(CONFIG_FILE), &[]),
    };
    let wanted = wanted.map_err(|error| of_lab(&error))?;
    let threads = threads_for(&wanted, threads)?;
    let device = device::choose(device).map_err(|error| of_lab(&error))?;
    let stop = AtomicBool::new(false);
    let root = data_root(data);
    let context = RunContext {
        resume: config.is_none(),
        force: overwrite,
        resume_command: format!("fidgp.train(None, '{}')", run.display()),
        ..RunContext::new(run, root, device, &stop)
    };
    let done = watched(py, &stop, || with_threads(threads, || experiment::run(&wanted, &context, &mut ()).map(drop)))?;
    done.map_err(|error| of_lab(&error))
}

/// Where data sets lie: what was said, or the environment, or here.
pub fn data_root(given: Option<PathBuf>) -> PathBuf {
    given.or_else(|| fidgp_data::catalogue::data_root().ok()).unwrap_or_else(|| ".".into())
}

/// Runs on a thread of its own; a signal raises `stop`, and its exception is the outcome once the thread has ended.
pub fn watched<T: Send>(
    py: Python,
    stop: &AtomicBool,
    work: impl FnOnce() -> Result<T, LabError> + Send,
) -> PyResult<Result<T, LabError>> {
    std::thread::scope(|scope| {
        let (alive, ended) = channel::<()>();
        let worker = scope.spawn(move || {
            let _alive = alive; // dropped when the work ends, by a panic too
            work()
        });
        let (mut signal, mut ended) = (None, ended);
        loop {
            let (channel, said) = py.detach(move || {
                let said = ended.recv_timeout(PAUSE);
                (ended, said)
            });
            if said != Err(RecvTimeoutError::Timeout) {
                break;
            }
            ended = channel;
            if let Err(raised) = py.check_signals() {
                stop.store(true, Ordering::Relaxed);
                signal = Some(raised);
            }
        }
        let done = worker.join();
        match (signal, done) {
            (Some(raised), _) => Err(raised),
            (None, Ok(done)) => Ok(done),
            (None, Err(_)) => Err(PyRuntimeError::new_err("the work has panicked; please report it")),
        }
    })
}

/// libtorch's number of threads is the process's, PyTorch's too: it is put back.
pub fn with_threads<T>(threads: i32, work: impl FnOnce() -> T) -> T {
    let before = tch::get_num_threads();
    tch::set_num_threads(threads);
    let done = work();
    tch::set_num_threads(before);
    done
}

/// As many as were asked for, or as a network is worth.
pub fn threads_for(config: &RunConfig, asked: Option<u16>) -> PyResult<i32> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    match (asked, &config.network) {
        (Some(threads), _) if threads == 0 || usize::from(threads) > MOST_THREADS * cores => {
            let most = MOST_THREADS * cores;
            Err(PyValueError::new_err(format!(
                "threads = {threads} must lie between 1 and {most}, {MOST_THREADS} for each core"
            )))
        }
        (Some(threads), _) => Ok(threads.into()),
        (None, NetworkConfig::Mlp(_)) => Ok(1),
        (None, _) => Ok(cores as i32),
    }
}
