use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::OOD_SCHEMA;
use crate::record::error::{RecordError, Result};

/// What a page says of a benchmark that was run before.
#[derive(Debug, Clone, Deserialize)]
pub struct MeasuredOod {
    schema: String,
    /// SHA-256 of the weights and buffers.
    pub weights_sha256: Option<String>,
    /// The ID set.
    pub id: String,
    /// Whether failed controls were passed over.
    pub controls_skipped: bool,
    /// The OoD sets.
    pub sets: Vec<MeasuredSet>,
    /// The scores.
    pub scores: Vec<MeasuredScore>,
}

/// An OoD set.
#[derive(Debug, Clone, Deserialize)]
pub struct MeasuredSet {
    /// Its name.
    pub name: String,
    /// Why it can be told apart without a network; empty where it cannot.
    pub trivial: Vec<String>,
}

/// A score.
#[derive(Debug, Clone, Deserialize)]
pub struct MeasuredScore {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Its metrics by set.
    pub sets: BTreeMap<String, MeasuredMetrics>,
}

/// Metrics on a set.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct MeasuredMetrics {
    /// Area under the ROC curve.
    #[serde(rename = "AUROC")]
    pub auroc: f64,
    /// OoD images that pass when 95 % of the ID images are kept.
    #[serde(rename = "FPR95_ID_KEPT")]
    pub passed: f64,
}

impl MeasuredOod {
    /// Reads an `ood.json`.
    ///
    /// # Errors
    /// When it is broken or of another version.
    pub fn read(path: &Path) -> Result<Self> {
        let broken = |why: String| RecordError::Benchmark { path: path.to_owned(), why };
        let text = fidgp_files::text(path).map_err(|error| broken(error.to_string()))?;
        let found: Self = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
        if found.schema != OOD_SCHEMA {
            return Err(broken(format!("`schema` is `{}`, this program reads `{OOD_SCHEMA}`", found.schema)));
        }
        Ok(found)
    }
}
