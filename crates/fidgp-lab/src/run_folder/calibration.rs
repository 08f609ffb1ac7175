//! The rules for decisions in the folder of a run or a model: whether they belong to what predicts, and how they get there.

use std::fs;
use std::io;
use std::path::Path;

use fidgp::layer::NormStatistics;
use fidgp::linearised::LinearisedPosterior;
use fidgp_decision::{CALIBRATION_FILE, Calibration, TRUST_FILE, Trust};
use fidgp_files::NewFolder;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tch::Tensor;

use super::Temperature;
use crate::error::{LabError, Result};
use crate::files::TEMPERATURE_FILE;
use crate::json;
use crate::model::Model;
use crate::source::{TableView, View};
use crate::train::checkpoint;

/// Where a calibration lies whole before its files take their places.
pub(super) const READY: &str = ".calibration";
const OWN: [&str; 3] = [TEMPERATURE_FILE, CALIBRATION_FILE, TRUST_FILE];

/// What predicts: the model, and how inputs become what it takes.
#[derive(Clone, Copy, Debug)]
pub struct Predicting<'a> {
    /// Weights, temperature, statistics of draws, linearised posterior.
    pub model: &'a Model,
    /// How pictures become inputs.
    pub view: Option<&'a View>,
    /// How rows become inputs.
    pub table: Option<&'a TableView>,
}

impl Predicting<'_> {
    /// SHA-256 of all of it.
    ///
    /// # Errors
    /// When a tensor cannot be read.
    pub fn digest(&self) -> Result<String> {
        let mut hasher = Sha256::new();
        hasher.update(self.digest_of_before()?);
        let norms = self.model.norms.iter().enumerate().flat_map(|(draw, norm): (usize, &NormStatistics)| {
            norm.named().map(|(name, tensor)| (format!("{draw}.{name}"), tensor.shallow_clone())).collect::<Vec<_>>()
        });
        let norms: Vec<_> = norms.collect();
        hasher.update(checkpoint::sha256(norms.iter().map(|(name, tensor)| (name, tensor)))?);
        let unwritable = |error: serde_json::Error| LabError::config("recalibration", error.to_string());
        if let Some(map) = &self.model.recalibration {
            hash(&mut hasher, &serde_json::to_value(map).map_err(unwritable)?);
        }
        if let Some(view) = self.view {
            hasher.update(format!("{view:?}"));
        }
        if let Some(table) = self.table {
            let unwritable = |error: serde_json::Error| LabError::config("table.json", error.to_string());
            hash(&mut hasher, &serde_json::to_value(table).map_err(unwritable)?);
        }
        Ok(format!("{:x}", hasher.finalize()))
    }

    /// The digest that rules had before it held statistics and scales: weights, temperature, linearised posterior.
    fn digest_of_before(&self) -> Result<String> {
        let model = self.model;
        let mut tensors = checkpoint::variables(&model.store);
        tensors.extend(model.posterior.iter().flat_map(LinearisedPosterior::tensors));
        let temperature = model.temperature.map(|temperature| Tensor::from_slice(&[temperature]));
        tensors.extend(temperature.map(|temperature| ("temperature".to_owned(), temperature)));
        checkpoint::sha256(tensors.iter().map(|(name, tensor)| (name, tensor)))
    }

    /// The rules in a folder, where there are any.
    ///
    /// # Errors
    /// When they are broken, or belong to another model, or another scale, than those in the folder.
    pub fn rules(&self, folder: &Path) -> Result<Option<Calibration>> {
        let Some(found) = Calibration::read(folder, None)? else { return Ok(None) };
        if self.model.recalibration.is_none() && found.model_sha256 == self.digest_of_before()? {
            return Ok(Some(found)); // of a folder from before
        }
        Ok(Calibration::read(folder, Some(&self.digest()?))?)
    }
}

/// A value, its numbers in f32: the last digits of f64 may change where a file is read and written again.
fn hash(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Number(number) => hasher.update((number.as_f64().unwrap_or(f64::NAN) as f32).to_le_bytes()),
        Value::Array(items) => {
            hasher.update(format!("[{}", items.len()));
            for item in items {
                hash(hasher, item);
            }
        }
        Value::Object(entries) => {
            hasher.update(format!("{{{}", entries.len()));
            for (key, entry) in entries {
                hasher.update(format!("{key:?}"));
                hash(hasher, entry);
            }
        }
        other => hasher.update(format!("{other:?}")),
    }
}

/// Puts a temperature, rules and what was seen with them into a folder, all or none: they are written aside, and from the
/// moment they are whole there, whoever opens the folder finds them. Until then those of before stand.
///
/// # Errors
/// When the disk refuses.
pub fn keep(
    folder: &Path,
    temperature: Option<&Temperature>,
    found: Option<(&Calibration, Option<&Trust>)>,
) -> Result<()> {
    let failed = |error: io::Error| LabError::file(folder, &error);
    settle(folder).map_err(failed)?;
    let ready = NewFolder::beside(&folder.join(READY)).map_err(failed)?;
    if let Some(temperature) = temperature {
        json::write(&ready.path().join(TEMPERATURE_FILE), temperature)?;
    }
    let Some((calibration, trust)) = found else {
        gone(&folder.join(TRUST_FILE)).and_then(|()| gone(&folder.join(CALIBRATION_FILE))).map_err(failed)?; // of another temperature
        ready.take_place(&OWN).map_err(failed)?;
        return settle(folder).map_err(failed);
    };
    calibration.write(ready.path())?;
    match trust {
        Some(trust) => trust.write(ready.path())?,
        None => gone(&folder.join(TRUST_FILE)).map_err(failed)?, // of other rules
    }
    ready.take_place(&OWN).map_err(failed)?;
    settle(folder).map_err(failed)
}

/// Puts in place what a calibration that was killed, or runs, has ready. A folder that cannot be written stays as it is.
///
/// # Errors
/// When a file cannot take its place.
pub fn settle(folder: &Path) -> io::Result<()> {
    let ready = folder.join(READY);
    if !fs::symlink_metadata(&ready).is_ok_and(|there| there.is_dir()) {
        return Ok(());
    }
    for name in OWN {
        match fidgp_files::write::take_place(&ready.join(name), &folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    match fs::remove_dir(&ready) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn gone(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
