//! Forgetting an earlier run.

use std::io::ErrorKind;
use std::path::Path;

use fidgp_decision::{CALIBRATION_FILE, TRUST_FILE};

use super::calibration;
use crate::error::{LabError, Result};
use crate::files::{
    CLASSES_FILE, COMMAND_FILE, CONFIG_FILE, NETWORK_FILE, NORMS_FILE, OOD_FOLDER, POSTERIOR_FILE,
    POSTERIOR_TENSORS_FILE, TEMPERATURE_FILE, TEMPERED_FILE, TRAINED_ON_FILE, VIEW_FILE,
};
use crate::model::MEMBERS;
use crate::record::{EPOCHS_FILE, EXAMPLES_FILE, MAPS_FOLDER, RESULTS_FILE};
use crate::report;

/// The folders that a training, or what is fitted afterwards, fills inside a run's own.
pub const RUN_FOLDERS: [&str; 5] = ["checkpoint", "splits", MEMBERS, MAPS_FOLDER, calibration::READY];

/// Forgets what was measured of a run's weights beside its results, which others would be taken for.
pub fn forget_measurements(run: &Path) -> Result<()> {
    let of_ood = ["ood.json", "ood.csv", report::REPORT_FILE].map(|file| run.join(OOD_FOLDER).join(file));
    let files = of_ood.into_iter().chain([run.join(TEMPERED_FILE)]);
    files.into_iter().try_for_each(|file| gone(&file, std::fs::remove_file(&file)))?;
    let scores = run.join(OOD_FOLDER).join("scores");
    gone(&scores, std::fs::remove_dir_all(&scores))
}

/// Forgets an earlier run in a folder: its config, checkpoints, results and report. Nothing else in the folder is touched.
pub fn clear(run: &Path) -> Result<()> {
    forget_measurements(run)?;
    let drawn = report::Run::read(run).map_or_else(|_| Vec::new(), |earlier| report::files(&earlier, run));
    let record = [RESULTS_FILE, EPOCHS_FILE, EXAMPLES_FILE, report::REPORT_FILE];
    let rest = [
        CONFIG_FILE,
        COMMAND_FILE,
        CLASSES_FILE,
        TRAINED_ON_FILE,
        TEMPERATURE_FILE,
        CALIBRATION_FILE,
        TRUST_FILE,
        NETWORK_FILE,
        NORMS_FILE,
        POSTERIOR_FILE,
        POSTERIOR_TENSORS_FILE,
        VIEW_FILE,
    ];
    let figures = report::pages::trust::FIGURES.map(|figure| run.join(format!("{figure}.svg")));
    let files = record.into_iter().chain(rest).map(|file| run.join(file)).chain(figures);
    drawn.into_iter().chain(files).try_for_each(|file| gone(&file, std::fs::remove_file(&file)))?;
    let folders = RUN_FOLDERS.map(|folder| run.join(folder));
    folders.iter().try_for_each(|folder| gone(folder, std::fs::remove_dir_all(folder)))
}

/// What was to be removed and was not there is gone as well.
fn gone(path: &Path, removed: std::io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(LabError::file(path, &error)),
        _ => Ok(()),
    }
}
