//! Rows of numbers to a number.

use std::path::Path;

use fidgp_data::{Table, csv};
use serde::Serialize;

use super::Predictor;
use crate::error::{LabError, Result};
use crate::evaluate::forecast;
use crate::model::{Likelihood, Signature};
use crate::source::TableSource;
use fidgp::Key;

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
    /// Predicts the rows of a CSV file with K draws.
    ///
    /// # Errors
    /// When the model takes pictures, or the file is broken or has other columns; the message names it.
    pub fn regress(&self, file: &Path, draws: u64) -> Result<Vec<NumberPrediction>> {
        let (Likelihood::Gaussian(_), Signature::Regression { features }) =
            (&self.model.likelihood, Signature::expected(&self.config, Some(self.classes.len()))?)
        else {
            return Err(LabError::config("MODEL", "takes pictures, not tables"));
        };
        let (cells, columns) = csv::numbers(file)?;
        if columns as i64 != features {
            let why = format!("has {columns} columns, the model takes {features}");
            return Err(LabError::File { path: file.to_owned(), why });
        }
        let rows = cells.len() / columns;
        let table = Table::new(file.display().to_string(), cells.clone(), columns, vec![0.0; rows])?;
        let source = TableSource::new(&table, self.model.store.device())?;
        let key = Key::new(self.config.seed).fold("predict");
        let (mean, epistemic, noise) =
            forecast(&self.model, &source, None, (draws, self.config.predict.batch_size), key)?.split()?;
        let row = |(i, features): (usize, &[f64])| NumberPrediction {
            features: features.to_vec(),
            mean: mean[i],
            sd: epistemic[i].hypot(noise[i]),
            epistemic_sd: epistemic[i],
            noise_sd: noise[i],
        };
        Ok(cells.chunks_exact(columns).enumerate().map(row).collect())
    }
}
