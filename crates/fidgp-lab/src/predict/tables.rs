//! Rows of numbers to a number.

use std::path::Path;

use fidgp_data::{Sheet, Table};
use serde::Serialize;

use super::Predictor;
use crate::error::{LabError, Result};
use crate::experiment::Meter;
use crate::model::{Likelihood, Signature};

/// What the model says about one row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NumberPrediction {
    /// The features.
    pub features: Vec<f64>,
    /// Mean over the draws.
    pub mean: f64,
    /// Deviation of a new observation, `√(epistemic² + noise²)`.
    pub sd: f64,
    /// Deviation of the mean over draws: what the weights leave open.
    pub epistemic_sd: f64,
    /// Deviation of the data as the model sees it.
    pub noise_sd: f64,
}

impl Predictor {
    /// Predicts the rows of a file with K draws.
    ///
    /// # Errors
    /// When the model takes pictures, or the file is broken or has other columns; the message names it.
    pub fn regress(&self, file: &Path, draws: u64) -> Result<Vec<NumberPrediction>> {
        let (cells, columns) = self.cells(file)?;
        let targets = vec![0.0; cells.len() / columns]; // not known, and not looked at
        let table = Table::new(file.display().to_string(), cells.clone(), columns, targets)?;
        let scale = self.table.as_ref().map(|table| &table.scale);
        let meter = Meter { config: &self.config, scale, device: self.model.store.device() };
        let (mean, epistemic, noise) = meter.forecast(&self.model, &table, draws)?.split()?;
        let row = |(i, features): (usize, &[f64])| NumberPrediction {
            features: features.to_vec(),
            mean: mean[i],
            sd: epistemic[i].hypot(noise[i]),
            epistemic_sd: epistemic[i],
            noise_sd: noise[i],
        };
        Ok(cells.chunks_exact(columns).enumerate().map(row).collect())
    }

    /// The features of a file's rows, row-major, and how many a row has.
    fn cells(&self, file: &Path) -> Result<(Vec<f64>, usize)> {
        if let Some(table) = &self.table {
            return Ok((table.rows(file)?, table.features.len()));
        }
        let (Likelihood::Gaussian(_), Signature::Regression { features }) =
            (&self.model.likelihood, Signature::expected(&self.config, Some(self.classes.len()))?)
        else {
            return Err(LabError::config("MODEL", "takes pictures, not tables"));
        };
        let sheet = Sheet::open(file)?;
        let columns = sheet.names().len();
        if columns as i64 != features {
            let why = format!("has {columns} columns, the model takes {features}");
            return Err(LabError::File { path: file.to_owned(), why });
        }
        Ok((sheet.numbers(&(0..columns).collect::<Vec<_>>())?, columns))
    }
}
