//! Tables on the device.

use std::path::Path;

use fidgp::Key;
use fidgp_data::{Sheet, Standardiser, Table};
use fidgp_decision::decide::number;
use fidgp_decision::evidence::Outside;
use fidgp_files::shown;
use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

use super::Source;
use crate::error::{LabError, Result};

/// How rows of a table become a network's inputs, and its outputs numbers in the target's unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableView {
    /// The columns that the network takes, in order.
    pub features: Vec<String>,
    /// The column that it predicts.
    pub target: String,
    /// What both are standardised with.
    pub scale: Standardiser,
    /// The smallest and the largest value of each feature among the training rows; folders of before have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<[f64; 2]>,
}

impl TableView {
    /// Whether the numbers fit each other; else why not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Standardiser { feature_mean, feature_sd, target_mean, target_sd } = &self.scale;
        let columns = self.features.len();
        if columns == 0 || feature_mean.len() != columns || feature_sd.len() != columns {
            let (means, deviations) = (feature_mean.len(), feature_sd.len());
            return Err(format!("has {columns} features, {means} means and {deviations} deviations of them"));
        }
        if !self.ranges.is_empty() && self.ranges.len() != columns {
            return Err(format!("has {columns} features and {} ranges of them", self.ranges.len()));
        }
        let means = feature_mean.iter().chain([target_mean]).all(|mean| mean.is_finite());
        let deviations = feature_sd.iter().chain([target_sd]).all(|sd| *sd > 0.0 && sd.is_finite());
        if means && deviations { Ok(()) } else { Err("has a mean or a deviation that cannot be".to_owned()) }
    }

    /// The features of a file's rows: by their names where it has a heading, else in order.
    ///
    /// # Errors
    /// When the file is broken or lacks a column.
    pub fn rows(&self, file: &Path) -> Result<Vec<f64>> {
        self.rows_of(&Sheet::open(file)?)
    }

    /// The same of a table that was opened.
    ///
    /// # Errors
    /// When a cell is no number, or a column is missing.
    pub fn rows_of(&self, sheet: &Sheet) -> Result<Vec<f64>> {
        let columns: Vec<usize> = if sheet.is_headed() || sheet.names().len() != self.features.len() {
            self.features.iter().map(|name| sheet.column(name)).collect::<Result<_, _>>()?
        } else {
            (0..self.features.len()).collect()
        };
        Ok(sheet.numbers(&columns)?)
    }

    /// The targets of a file's rows.
    ///
    /// # Errors
    /// When the file is broken or lacks the column.
    pub fn targets(&self, file: &Path) -> Result<Vec<f64>> {
        let sheet = Sheet::open(file)?;
        Ok(sheet.numbers(&[sheet.column(&self.target)?])?)
    }

    /// Which features of a row lie outside those of the training rows.
    pub fn outside(&self, row: &[f64]) -> Outside {
        let mut found: Vec<(f64, String)> = Vec::new();
        for ((name, [lo, hi]), x) in self.features.iter().zip(&self.ranges).zip(row) {
            let by = (lo - x).max(x - hi) / if hi > lo { hi - lo } else { lo.abs().max(1.0) };
            if by > 0.0 {
                let [x, lo, hi] = [*x, *lo, *hi].map(number);
                found.push((by, format!("{} = {x} lies outside {lo} … {hi} of the training data", shown(name))));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let by = found.first().map_or(0.0, |(by, _)| *by);
        Outside { by, said: found.into_iter().map(|(_, said)| said).collect() }
    }
}

/// A table on the device.
#[derive(Debug)]
pub struct TableSource {
    /// `[N, columns]`
    pub inputs: Tensor,
    /// `[N]`
    pub targets: Tensor,
}

impl TableSource {
    /// Moves a table to the device in f32.
    ///
    /// # Errors
    /// When it holds a value that is not finite.
    pub fn new(table: &Table, device: Device) -> Result<Self> {
        let values = || table.features().iter().chain(table.targets());
        if let Some(index) = values().position(|value| !value.is_finite()) {
            let row =
                if index < table.features().len() { index / table.columns() } else { index - table.features().len() };
            return Err(LabError::config(
                format!("data ({})", table.name()),
                format!("row {row} holds a value that is not a finite number"),
            ));
        }
        let to = |values: &[f64]| Tensor::from_slice(values).to_kind(Kind::Float).to_device(device);
        Ok(Self { inputs: to(table.features()).reshape([-1, table.columns() as i64]), targets: to(table.targets()) })
    }

    /// All inputs in batches of at most `size` rows.
    pub fn batches(&self, size: usize) -> Vec<Tensor> {
        self.inputs.split(size as i64, 0)
    }
}

impl Source for TableSource {
    fn len(&self) -> usize {
        self.targets.size()[0] as usize
    }

    fn batch(&self, rows: &Tensor, _augment: Option<Key>) -> Result<(Tensor, Tensor)> {
        Ok((self.inputs.f_index_select(0, rows)?, self.targets.f_index_select(0, rows)?))
    }
}
