//! Rows of numbers to a number.

use fidgp::predict::Effort;
use fidgp_data::Table;
use serde::Serialize;

use super::{Predictor, Trained};
use crate::error::{LabError, Result};
use crate::evaluate::{Forecast, regress_by};
use crate::source::TableSource;

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
        let Trained { model, config, table, .. } = &self.trained;
        let (Some(columns), Some(likelihood)) = (self.trained.columns()?, model.likelihood.reading().numbers()) else {
            let why =
                if self.trained.view.is_some() { "takes pictures, not tables" } else { "gives classes, not numbers" };
            return Err(LabError::config("MODEL", why));
        };
        if rows.is_empty() || !rows.len().is_multiple_of(columns) {
            return Err(LabError::config(name, format!("are {} numbers, no whole rows of {columns}", rows.len())));
        }
        let targets = vec![1.0; rows.len() / columns]; // not known, and not looked at; 1 has a logarithm
        let given = Table::new(name, rows.to_vec(), columns, targets)?;
        let scale = table.as_ref().map(|table| &table.scale);
        let standard = scale.map(|scale| scale.transform(&given)).transpose()?;
        let source = TableSource::of_columns(
            standard.as_ref().unwrap_or(&given),
            &self.trained.feature_names()?,
            model.store.device(),
        )?;
        let batches = source.batches(config.predict.batch_size);
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
