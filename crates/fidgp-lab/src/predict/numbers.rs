//! Rows of numbers to a number.

use fidgp::predict::Effort;
use serde::Serialize;

use super::{Predictor, Trained};
use crate::error::{LabError, Result};
use crate::evaluate::{Forecast, regress_by};

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
    /// Predicts rows, row-major, their features in the model's order.
    ///
    /// # Errors
    /// When the model takes pictures, or there are no whole rows of finite numbers.
    pub fn regress(&mut self, rows: &[f64], effort: Effort) -> Result<Vec<NumberPrediction>> {
        self.regress_named("rows", (rows, 0), effort)
    }

    /// The same, errors naming where the rows are from; so many batches stood before them.
    pub(super) fn regress_named(
        &mut self,
        name: &str,
        (rows, first_batch): (&[f64], u64),
        effort: Effort,
    ) -> Result<Vec<NumberPrediction>> {
        let Trained { model, table, .. } = &self.trained;
        let (Some(columns), Some(likelihood)) = (self.trained.columns()?, model.likelihood.reading().numbers()) else {
            let why =
                if self.trained.view.is_some() { "takes pictures, not tables" } else { "gives classes, not numbers" };
            return Err(LabError::config("MODEL", why));
        };
        let batches = self.trained.inputs_of_rows(name, rows)?;
        let scale = table.as_ref().map(|table| &table.scale);
        let predicted = regress_by(self.law.as_mut(), model, likelihood, (&batches, first_batch), effort)?;
        let forecast = Forecast::of(&predicted, scale)?;
        let (mean, epistemic, noise) = forecast.split()?;
        let row = |(i, features): (usize, &[f64])| NumberPrediction {
            features: features.to_vec(),
            mean: mean[i],
            sd: epistemic[i].hypot(noise[i]),
            epistemic_sd: epistemic[i],
            noise_sd: noise[i],
        };
        Ok(rows.chunks_exact(columns).enumerate().map(row).collect())
    }
}
