//! A regression data set: rows of real features and one real target each.

use sha2::{Digest, Sha256};

use crate::{Error, Result};

/// Features and targets of a regression data set; every number is finite.
///
/// # Shapes
/// `features` is `[rows, columns]`, row-major; `targets` is `[rows]`.
///
/// ```
/// let table = fidgp_data::Table::new("toy", vec![1.0, 2.0, 3.0, 4.0], 2, vec![0.0, 1.0])?;
/// assert_eq!(table.row(1), [3.0, 4.0]);
/// assert_eq!(table.column_means(), [2.0, 3.0]);
/// # Ok::<(), fidgp_data::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    name: String,
    features: Vec<f64>,
    columns: usize,
    targets: Vec<f64>,
}

impl Table {
    /// Checks sizes and that every number is finite.
    pub fn new(name: impl Into<String>, features: Vec<f64>, columns: usize, targets: Vec<f64>) -> Result<Self> {
        let table = Self { name: name.into(), features, columns, targets };
        table.check_sizes()?;
        table.check_finite()?;
        Ok(table)
    }

    fn check_sizes(&self) -> Result<()> {
        let (cells, rows) = (self.features.len(), self.targets.len());
        if self.columns > 0 && rows.checked_mul(self.columns) == Some(cells) {
            return Ok(());
        }
        let problem = format!("{cells} feature values do not make {rows} rows of {} columns", self.columns);
        Err(Error::value(&self.name, problem, "give at least one column, and one target per row"))
    }

    fn check_finite(&self) -> Result<()> {
        let advice = "drop the row or fill in the value before loading";
        if let Some(cell) = self.features.iter().position(|v| !v.is_finite()) {
            let (row, column) = (cell / self.columns, cell % self.columns);
            let problem = format!("row {row}, column {column} holds {}", self.features[cell]);
            return Err(Error::value(&self.name, problem, advice));
        }
        match self.targets.iter().position(|v| !v.is_finite()) {
            Some(row) => {
                Err(Error::value(&self.name, format!("the target of row {row} is {}", self.targets[row]), advice))
            }
            None => Ok(()),
        }
    }

    /// The name of the set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All features, `[rows, columns]` row-major.
    pub fn features(&self) -> &[f64] {
        &self.features
    }

    /// How many features a row has.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// All targets, `[rows]`.
    pub fn targets(&self) -> &[f64] {
        &self.targets
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.targets.len()
    }

    /// The features of one row.
    ///
    /// # Panics
    /// As a slice does, where `row` is not below [`rows`](Self::rows).
    pub fn row(&self, row: usize) -> &[f64] {
        &self.features[row * self.columns..(row + 1) * self.columns]
    }

    /// The rows named, in the order named; a row may be named twice.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        if let Some(row) = rows.iter().find(|&&row| row >= self.rows()) {
            let problem = format!("row {row} was asked for, there are {}", self.rows());
            return Err(Error::value(&self.name, problem, "use a split that was made for this set"));
        }
        let features = rows.iter().flat_map(|&row| self.row(row).iter().copied()).collect();
        let targets = rows.iter().map(|&row| self.targets[row]).collect();
        Ok(Self { name: self.name.clone(), features, columns: self.columns, targets })
    }

    /// SHA-256 of all features, then of all targets.
    pub fn fingerprint(&self) -> String {
        let mut hasher = Sha256::new();
        for number in self.features.iter().chain(&self.targets) {
            hasher.update(number.to_le_bytes()); // not all of them at once
        }
        format!("{:x}", hasher.finalize())
    }

    /// The values of one column, top to bottom.
    pub fn column(&self, column: usize) -> impl Iterator<Item = f64> + Clone {
        self.features.iter().skip(column).step_by(self.columns).copied()
    }

    /// The mean of each column, `[columns]`; 0 where there are no rows.
    pub fn column_means(&self) -> Vec<f64> {
        (0..self.columns).map(|c| moments(self.column(c)).0).collect()
    }

    /// The standard deviation of each column (divided by `rows`, not `rows − 1`), `[columns]`.
    pub fn column_sds(&self) -> Vec<f64> {
        (0..self.columns).map(|c| moments(self.column(c)).1).collect()
    }
}

/// Mean and population standard deviation, in two passes; exactly 0 for the latter where all values are equal.
pub(crate) fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let Some(first) = values.clone().next() else { return (0.0, 0.0) };
    if values.clone().all(|v| v.to_bits() == first.to_bits()) {
        return (first, 0.0);
    }
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}
