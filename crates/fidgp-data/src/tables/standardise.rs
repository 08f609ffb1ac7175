//! Zero mean and unit variance, learnt on the training rows alone.

use serde::{Deserialize, Serialize};

use super::{Table, moments};
use crate::{Error, Result};

/// A deviation below this is one of rounding: what is divided by it is no number.
const LEAST_SD: f64 = 1e-150;

/// Shift and scale of every feature and of the target: `z = (x − mean) / sd`.
///
/// A constant column has `sd` 1, so it becomes 0 and comes back unchanged. It is written beside a run's weights, hence
/// the public fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standardiser {
    /// Mean of each feature, `[columns]`.
    pub feature_mean: Vec<f64>,
    /// Standard deviation of each feature, `[columns]`.
    pub feature_sd: Vec<f64>,
    /// Mean of the target.
    pub target_mean: f64,
    /// Standard deviation of the target.
    pub target_sd: f64,
    /// Whether mean and deviation are of the target's logarithm, which is predicted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub target_log: bool,
}

impl Standardiser {
    /// Learns shift and scale; give it the training rows.
    pub fn fit(train: &Table) -> Result<Self> {
        if train.rows() == 0 {
            return Err(Error::value(train.name(), "no rows to learn mean and sd from", "fit on the training rows"));
        }
        let (target_mean, target_sd) = moments(train.targets().iter().copied());
        let (feature_mean, feature_sd) = (train.column_means(), train.column_sds());
        let columns = feature_mean.iter().zip(&feature_sd).enumerate();
        let columns = columns.map(|(column, (mean, sd))| (format!("feature column {column}"), *mean, *sd));
        for (what, mean, sd) in columns.chain([("the target".to_owned(), target_mean, target_sd)]) {
            if !(mean.is_finite() && sd.is_finite() && (sd == 0.0 || sd >= LEAST_SD)) {
                let problem =
                    format!("{what} has mean {mean} and standard deviation {sd}, which cannot be computed with");
                return Err(Error::value(
                    train.name(),
                    problem,
                    "give it in another unit, or leave out what is no value",
                ));
            }
        }
        let feature_sd = feature_sd.into_iter().map(or_one).collect();
        Ok(Self { feature_mean, feature_sd, target_mean, target_sd: or_one(target_sd), target_log: false })
    }

    /// The same for a target whose logarithm is predicted; every target must be above 0.
    ///
    /// ```
    /// let table = fidgp_data::Table::new("toy", vec![1.0, 2.0], 1, vec![1.0, 2.0_f64.exp()])?;
    /// let scale = fidgp_data::Standardiser::fit_log(&table)?;
    /// assert_eq!([scale.target_mean, scale.target_sd, scale.target(1.0)], [1.0, 1.0, -1.0]);
    /// # Ok::<(), fidgp_data::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::fit`], and when a target has no logarithm.
    pub fn fit_log(train: &Table) -> Result<Self> {
        let logs = train.targets().iter().map(|y| y.ln()).collect();
        let logged = Table::new(train.name(), train.features().to_vec(), train.columns(), logs)?;
        Ok(Self { target_log: true, ..Self::fit(&logged)? })
    }

    /// A table of standardised features and targets.
    pub fn transform(&self, table: &Table) -> Result<Table> {
        if table.columns() != self.feature_mean.len() || table.columns() != self.feature_sd.len() {
            let problem = format!("{} columns, fitted on {}", table.columns(), self.feature_mean.len());
            return Err(Error::value(table.name(), problem, "use the standardiser that was fitted on this set"));
        }
        let scales = self.feature_mean.iter().zip(&self.feature_sd).cycle();
        let features = table.features().iter().zip(scales).map(|(&x, (&mean, &sd))| (x - mean) / sd).collect();
        let targets = table.targets().iter().map(|&y| self.target(y)).collect();
        Table::new(table.name(), features, table.columns(), targets)
    }

    /// The features, counted from 0, that are the same in every row, and whether the target is.
    pub fn constant(train: &Table) -> (Vec<usize>, bool) {
        let same = |sd: f64| sd == 0.0;
        let columns = train.column_sds().into_iter().enumerate().filter(|(_, sd)| same(*sd)).map(|(column, _)| column);
        (columns.collect(), same(moments(train.targets().iter().copied()).1))
    }

    /// One target, standardised.
    pub fn target(&self, y: f64) -> f64 {
        let y = if self.target_log { y.ln() } else { y };
        (y - self.target_mean) / self.target_sd
    }

    /// One target, or one predicted mean, back in its own unit, or that of its logarithm.
    pub fn inverse_target(&self, z: f64) -> f64 {
        z * self.target_sd + self.target_mean
    }

    /// A predicted standard deviation back in the target's unit (scaled, not shifted).
    pub fn inverse_target_sd(&self, sd: f64) -> f64 {
        sd * self.target_sd
    }
}

fn or_one(sd: f64) -> f64 {
    if sd > 0.0 { sd } else { 1.0 }
}
