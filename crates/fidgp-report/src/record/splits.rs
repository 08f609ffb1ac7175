use std::collections::{BTreeMap, BTreeSet};

use fidgp_metrics::{mean, standard_error};
use serde::{Deserialize, Serialize};

/// Metric name (see [`fidgp_metrics::names`]) to value; `None` where the value is not a finite number.
pub type Metrics = BTreeMap<String, Option<f64>>;

/// The metrics of one train/test split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SplitMetrics {
    /// Number of the split, from 0.
    pub split: usize,
    /// Its test metrics.
    #[serde(with = "super::nullable::metrics")]
    pub metrics: Metrics,
    /// Seconds of its training; none in records of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_seconds: Option<f64>,
}

/// All splits, with the mean and its standard error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Splits {
    /// Split by split.
    pub runs: Vec<SplitMetrics>,
    /// Mean over the splits; `None` where any split lacks the value.
    pub mean: Metrics,
    /// Standard error of that mean, `sd / √n`; `None` below two splits.
    pub standard_error: Metrics,
}

impl Splits {
    /// Summarises the splits. A value missing in one split has no mean: an average over the rest would flatter.
    ///
    /// ```
    /// use fidgp_report::record::{SplitMetrics, Splits};
    ///
    /// let split = |split, rmse| SplitMetrics {
    ///     split,
    ///     metrics: [("reg/RMSE".to_owned(), Some(rmse))].into(),
    ///     train_seconds: Some(1.5),
    /// };
    /// let splits = Splits::new(vec![split(0, 2.0), split(1, 4.0)]);
    /// assert_eq!(splits.mean["reg/RMSE"], Some(3.0));
    /// assert_eq!(splits.standard_error["reg/RMSE"], Some(1.0));
    /// assert_eq!(splits.train_seconds(), Some(3.0));
    /// ```
    pub fn new(mut runs: Vec<SplitMetrics>) -> Self {
        runs.sort_by_key(|run| run.split);
        let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.metrics.keys()).collect();
        let summary = |statistic: fn(&[f64]) -> fidgp_metrics::Result<f64>| -> Metrics {
            let of = |name: &String| values(&runs, name).and_then(|values| statistic(&values).ok());
            names.iter().map(|&name| (name.clone(), of(name))).collect()
        };
        let (mean, standard_error) = (summary(mean), summary(standard_error));
        Self { runs, mean, standard_error }
    }

    /// Seconds of training, summed over the splits; `None` where any split did not keep its own.
    pub fn train_seconds(&self) -> Option<f64> {
        self.runs.iter().map(|run| run.train_seconds).sum()
    }
}

fn values(runs: &[SplitMetrics], name: &str) -> Option<Vec<f64>> {
    runs.iter().map(|run| run.metrics.get(name).copied().flatten()).collect()
}
