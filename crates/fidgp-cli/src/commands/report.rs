//! `fidgp report`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fidgp_lab::{LabError, report};
use fidgp_report::record::RESULTS_FILE;

use super::Outcome;
use crate::args::Report;

pub fn run(arguments: &Report) -> Outcome {
    let folders: Vec<PathBuf> =
        arguments.runs.iter().map(|path| runs_in(path)).collect::<Result<Vec<_>, _>>()?.concat();
    let runs = folders.iter().map(|folder| report::Run::read(folder)).collect::<Result<Vec<_>, _>>()?;
    let out = arguments.out.clone().unwrap_or_else(|| beside(&arguments.runs[0]).join("report.html"));
    let page = report::write_report(&runs, &out)?.html;
    super::print(&format!("{}\n", page.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The folder of a run or results file.
fn beside(path: &Path) -> &Path {
    if path.is_file() { path.parent().unwrap_or(path) } else { path }
}

/// Whether a file says of itself that it holds results; folders have other files beside them.
fn is_results(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.contains("\"fidgp-results/"))
}

/// A results file or run folder itself, else the run folders and results files in it.
fn runs_in(path: &Path) -> Result<Vec<PathBuf>, LabError> {
    let is_run = |path: &Path| path.join(RESULTS_FILE).exists();
    let is_file = |path: &Path| path.is_file() && path.extension().is_some_and(|ending| ending == "json");
    if is_run(path) || is_file(path) {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path)
        .map_err(|error| LabError::config(path.display().to_string(), format!("is no run folder: {error}")))?;
    let mut runs: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_run(path) || is_file(path) && is_results(path))
        .collect();
    runs.sort();
    if runs.is_empty() {
        let why = format!(
            "holds no {RESULTS_FILE}; give the folder of a finished run (an unfinished one goes on with fidgp train --resume)"
        );
        return Err(LabError::config(path.display().to_string(), why));
    }
    Ok(runs)
}
