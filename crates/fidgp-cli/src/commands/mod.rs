//! One file for each command.

pub mod bench;
pub mod calibrate;
pub mod compare;
pub mod complexity;
pub mod compress;
pub mod cost;
pub mod data;
pub mod demo;
pub mod doctor;
pub mod documents;
pub mod eval;
pub mod export;
pub mod fit_posterior;
pub mod init;
pub mod launch;
pub mod monitor;
pub mod onnx;
pub mod ood;
pub mod predict;
pub mod processes;
pub mod reference;
pub mod report;
pub mod serve;
pub mod threads;
pub mod train;
pub mod verify;
pub mod wrap;

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fidgp_lab::LabError;
use fidgp_lab::files::{CONFIG_FILE, MODEL_CONFIG_FILE};
use fidgp_report::record::{Results, Uncertainty};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What a command returns.
pub type Outcome = Result<std::process::ExitCode, LabError>;

static STOP: AtomicBool = AtomicBool::new(false);

/// The flag that Ctrl-C raises, SIGTERM, with which schedulers and shutdowns ask, and SIGHUP, when a terminal is closed; a
/// second one ends the program at once.
fn stop_on_interrupt() -> &'static AtomicBool {
    let asked = [SIGINT, SIGTERM].into_iter().chain((!is_ignored(SIGHUP)).then_some(SIGHUP));
    if let Ok(mut signals) = Signals::new(asked) {
        std::thread::spawn(move || signals.forever().for_each(|_| raise()));
    } else {
        tell!("warning: Ctrl-C cannot be caught here; it will end the run without saving");
    }
    &STOP
}

/// Whether a signal is ignored, as `nohup` has it; then it stays so. Nobody knows where there is no /proc.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}

fn raise() {
    if STOP.swap(true, Ordering::Relaxed) {
        // Not std::process::exit: libtorch's destructors would run beside the thread that computes, and crash.
        signal_hook::low_level::exit(130);
    }
    tell!("\nstopping after this step, or after the evaluation under way (press Ctrl-C again to stop at once)");
}

/// Words as they are typed into a shell.
fn typed(words: impl Iterator<Item = String>) -> String {
    words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

/// A word in quotes where a shell would not take it as it stands.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=,@%+~".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The command that goes on with a run, on the data and the device that were named, with as many threads.
fn resume_command(run: &Path, place: &crate::args::Place) -> String {
    let mut words = vec!["fidgp".to_owned(), "train".to_owned(), "--resume".to_owned(), run.display().to_string()];
    if let Some(data) = &place.data {
        words.extend(["--data".to_owned(), data.display().to_string()]);
    }
    if place.device != "auto" {
        words.extend(["--device".to_owned(), place.device.clone()]);
    }
    if let Some(threads) = place.threads {
        // bit for bit is with as many threads: sums are added up in another order otherwise
        words.extend(["--threads".to_owned(), threads.to_string()]);
    }
    typed(words.into_iter())
}

/// Writes to standard output. A reader that has seen enough (`fidgp verify | head`) is no error; a full disk is.
fn print(text: &str) -> Result<(), LabError> {
    write_out(&crate::words::harmless(text))
}

/// Writes JSON likewise; it stays JSON.
fn print_raw_json(text: &str) -> Result<(), LabError> {
    write_out(&crate::words::harmless_json(text))
}

fn write_out(text: &str) -> Result<(), LabError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(LabError::file(Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

/// Standard input, as far as a text may be long.
fn standard_input() -> Result<String, LabError> {
    use std::io::Read;
    let name = Path::new("standard input");
    let most = fidgp_files::limits::TEXT_BYTES.most();
    let mut text = String::new();
    let read = std::io::stdin().lock().take(most.saturating_add(1)).read_to_string(&mut text);
    read.map_err(|error| LabError::file(name, &error))?;
    fidgp_files::limits::TEXT_BYTES
        .check(text.len() as u64)
        .map_err(|exceeded| LabError::File { path: name.to_owned(), why: exceeded.problem() })?;
    Ok(text)
}

/// A value as JSON on standard output.
fn print_json(value: &impl serde::Serialize) -> Result<(), LabError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| LabError::config("--json", error.to_string()))?;
    print_raw_json(&(text + "\n"))
}

/// Refuses what is no run folder, for commands that need what a model folder does not have.
fn check_is_run(folder: &Path) -> Result<(), LabError> {
    if folder.join(CONFIG_FILE).exists() || !folder.join(MODEL_CONFIG_FILE).exists() {
        return Ok(());
    }
    Err(LabError::config(
        folder.display().to_string(),
        "is a model folder; this needs the folder of the run it came from",
    ))
}

/// Prints the metrics of a run, with standard errors where there are several splits, and how much of its uncertainty is
/// epistemic.
fn print_metrics(results: &Results) -> Result<(), LabError> {
    let width = results.metrics.keys().map(String::len).max().unwrap_or(0);
    let line = |(name, value): (&String, &Option<f64>)| {
        let value = value.map_or("not finite".to_owned(), |value| format!("{value:.4}"));
        let error = results.splits.as_ref().and_then(|splits| splits.standard_error.get(name).copied().flatten());
        let error = error.map_or(String::new(), |error| format!(" ± {error:.4}"));
        let notes = results.metric_notes.get(name).into_iter().flatten();
        let notes = notes.map(|(what, value)| format!("  ({what} {value})")).collect::<Vec<_>>().concat();
        format!("{name:width$}  {value}{error}{notes}\n")
    };
    print(&results.metrics.iter().map(line).collect::<String>())?;
    if let Some(law) = &results.predicts_with {
        print(&format!("\npredicted with the {law}\n"))?;
    }
    results.uncertainty.as_ref().map_or(Ok(()), print_uncertainty)
}

/// Prints how much of an uncertainty is epistemic, and what is wrong with it.
fn print_uncertainty(uncertainty: &Uncertainty) -> Result<(), LabError> {
    print(&format!("\n{}\n", uncertainty.sentence()))?;
    uncertainty.warnings.iter().for_each(|warning| tell!("warning: {warning}"));
    Ok(())
}
