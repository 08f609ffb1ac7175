//! How a regression is measured: with the draws of its run, targets in their own unit.

use fidgp::Key;
use fidgp_data::{Standardiser, Table};
use fidgp_metrics::names;
use tch::Device;

use super::Forecast;
use crate::config::RunConfig;
use crate::error::Result;
use crate::model::Model;
use crate::record::Metrics;
use crate::source::TableSource;

/// What measuring needs beside a model and rows.
pub struct Meter<'a> {
    /// The run, whose seed the draws follow from.
    pub config: &'a RunConfig,
    /// What rows are standardised with, where they are.
    pub scale: Option<&'a Standardiser>,
    /// Where it computes.
    pub device: Device,
}

impl Meter<'_> {
    /// Predicts rows with so many draws.
    pub fn forecast(&self, model: &Model, table: &Table, draws: u64) -> Result<Forecast> {
        let standard = self.scale.map(|scale| scale.transform(table)).transpose()?;
        let source = TableSource::new(standard.as_ref().unwrap_or(table), self.device)?;
        let key = Key::new(self.config.seed).fold("predict");
        super::forecast(model, &source, self.scale, (draws, self.config.predict.batch_size), key)
    }

    /// The metrics of these predictions.
    pub fn metrics(&self, model: &Model, table: &Table, draws: u64) -> Result<Metrics> {
        super::metrics(&self.forecast(model, table, draws)?, table.targets())
    }

    /// The NLL that epochs are chosen by.
    pub fn validation_nll(&self, model: &Model, table: &Table) -> Result<f64> {
        let metrics = self.metrics(model, table, self.config.predict.validation_draws)?;
        Ok(metrics.get(names::REG_NLL).copied().flatten().unwrap_or(f64::INFINITY))
    }
}
