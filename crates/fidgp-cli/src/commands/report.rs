//! `fidgp report`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fidgp_decision::{TRUST_FILE, Trust};
use fidgp_lab::files::{CONFIG_FILE, MODEL_CONFIG_FILE, OOD_FOLDER};
use fidgp_lab::predict::Trained;
use fidgp_lab::{LabError, report};
use fidgp_report::pages::trust::{self, Documents};
use fidgp_report::record::{MeasuredOod, RESULTS_FILE};

use super::Outcome;
use crate::args::Report;

pub fn run(arguments: &Report) -> Outcome {
    let first = &arguments.runs[0];
    let out = arguments.out.clone().unwrap_or_else(|| beside(first).join(report::REPORT_FILE));
    let page = match arguments.runs.iter().find(|path| is_model(path)) {
        Some(model) if arguments.runs.len() > 1 => {
            let why = "is a model folder: the page of a model shows this model only; leave the other folders out";
            return Err(LabError::config(model.display().to_string(), why));
        }
        Some(model) => trust::write(&documents(model)?.ok_or_else(|| no_trust(model))?, &out)?,
        None => runs(&arguments.runs, &out)?,
    };
    super::print(&format!("{}\n", page.html.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn runs(paths: &[PathBuf], out: &Path) -> Result<report::Report, LabError> {
    let folders: Vec<PathBuf> = paths.iter().map(|path| runs_in(path)).collect::<Result<Vec<_>, _>>()?.concat();
    let runs = folders.iter().map(|folder| report::Run::read(folder)).collect::<Result<Vec<_>, _>>()?;
    let found = match &folders[..] {
        [only] if only.is_dir() => documents(only).unwrap_or_else(|error| {
            tell!("warning: no verdict on whether to trust it: {error}");
            None
        }),
        _ => None,
    };
    let sections = found.as_ref().map_or_else(Vec::new, trust::sections);
    Ok(report::write_sections(&runs, &sections, out)?)
}

fn is_model(path: &Path) -> bool {
    path.join(MODEL_CONFIG_FILE).exists() && !path.join(CONFIG_FILE).exists()
}

fn no_trust(model: &Path) -> LabError {
    let model = model.display().to_string();
    let why = format!(
        "has no {TRUST_FILE} to report on; make it with: fidgp calibrate {} --examples test|FILE|FOLDER",
        super::quoted(&model)
    );
    LabError::config(model, why)
}

/// What `fidgp calibrate` and `fidgp ood` left in a folder, as far as it is of the weights that lie there.
fn documents(folder: &Path) -> Result<Option<Documents>, LabError> {
    let Some(found) = Trust::read(folder)? else { return Ok(None) };
    let trained = Trained::open(folder, tch::Device::Cpu)?;
    let calibration = trained.rules(folder)?;
    let is_of = calibration.as_ref().map_or(Ok(false), |rules| found.is_of(rules))?;
    let Some(calibration) = calibration.filter(|_| is_of) else {
        let why =
            "belongs to other rules than those in this folder; run `fidgp calibrate` again or remove it".to_owned();
        return Err(LabError::File { path: folder.join(TRUST_FILE), why });
    };
    let path = folder.join(OOD_FOLDER).join("ood.json");
    let ood = if path.exists() { Some(MeasuredOod::read(&path)?) } else { None };
    let ood = ood.filter(|ood| {
        let is_ours = ood.weights_sha256.as_deref() == Some(found.model.weights_sha256.as_str());
        if !is_ours {
            tell!("warning: {} belongs to other weights and is ignored", path.display());
        }
        is_ours
    });
    Ok(Some(Documents { trust: found, calibration, ood }))
}

/// The folder of a run or results file.
fn beside(path: &Path) -> &Path {
    if path.is_file() { path.parent().unwrap_or(path) } else { path }
}

/// Whether a file says of itself that it holds results; folders have other files beside them.
fn is_results(file: &Path) -> bool {
    fidgp_files::text(file).is_ok_and(|text| text.contains("\"fidgp-results/"))
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
