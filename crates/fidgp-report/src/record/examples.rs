//! What each test example contributed to the metrics that are means over examples.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{RecordError, Result};
use super::store::write_atomically;

/// The name of the file in a run folder.
pub const EXAMPLES_FILE: &str = "examples.json";

/// Metric name to its value for each test example, in the order of the data set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Examples(pub BTreeMap<String, Vec<f64>>);

impl Examples {
    /// Reads the file of a run folder; none where the run left none.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn read(run: &Path) -> Result<Option<Self>> {
        let path = run.join(EXAMPLES_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let text = fidgp_files::text(&path).map_err(RecordError::read(&path))?;
        serde_json::from_str(&text).map(Some).map_err(|source| RecordError::Json { path, source })
    }

    /// Writes it into a run folder.
    ///
    /// # Errors
    /// When the disk is full or the folder cannot be written.
    pub fn write(&self, run: &Path) -> Result<()> {
        let path = run.join(EXAMPLES_FILE);
        let text = serde_json::to_vec(self)
            .map_err(|source| RecordError::Write { path: path.clone(), source: source.into() })?;
        write_atomically(&path, &text)
    }
}
