use std::{collections::BTreeMap, path::Path};

use fidgp_metrics::names;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Figure, Hardware, Metrics, SCHEMA, Schema, Splits, Uncertainty,
    error::{RecordError, Result},
    store::write_json,
};

/// Metric name to what must be said with the value, for example `{"cal/ECE": {"bins": 15}}`.
pub type MetricNotes = BTreeMap<String, BTreeMap<String, Value>>;

/// One finished run: what was done, where, and what came of it. The content of `results.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Version of this layout.
    pub schema: Schema,
    /// Name of the run, for people.
    pub name: String,
    /// Method, for example `fidgp`, `ffgu`, `deterministic`.
    pub method: String,
    /// Data set, for example `synthetic-1d`, `uci/boston`, `cifar100`.
    pub data: String,
    /// Seed everything random was derived from.
    pub seed: u64,
    /// Commit of the code, see [`commit`](super::commit()).
    pub commit: String,
    /// What it ran on.
    pub hardware: Hardware,
    /// The command that produces this run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The resolved configuration, whole.
    pub config: Value,
    /// SHA-256 of the test examples, where there is one set of them; not in records of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_sha256: Option<String>,
    /// What predicted, in words, where it was not draws of the weights; not in records of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicts_with: Option<String>,
    /// Test metrics; with splits, their means.
    #[serde(with = "super::nullable::metrics")]
    pub metrics: Metrics,
    /// What must be said with a value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metric_notes: MetricNotes,
    /// How much of the predictive uncertainty is epistemic; none for a network without any, and in records of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<Uncertainty>,
    /// Size and arithmetic.
    pub cost: Cost,
    /// Wall-clock times.
    pub time: Time,
    /// Metrics split by split, where the data set has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub splits: Option<Splits>,
    /// Numbers of others on the same data, to be printed beside ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// Data of the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
}

/// What the network costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Trainable numbers.
    pub parameters: u64,
    /// Bytes of the stored weights.
    pub bytes: u64,
    /// Multiply-accumulates for one input and one weight draw, the draw included.
    pub macs: u64,
}

/// How long it took; `None` where it was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Time {
    /// Training, all epochs; with splits, the sum of theirs.
    pub train_seconds: Option<f64>,
    /// Training, mean per epoch.
    pub seconds_per_epoch: Option<f64>,
    /// Predicting the whole test set with all draws.
    pub predict_seconds: Option<f64>,
}

/// Somebody else's numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Method, for example `MC dropout`.
    pub method: String,
    /// Where the numbers stand.
    pub source: String,
    /// The numbers, under our metric names.
    pub metrics: Metrics,
}

#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    schema: Option<Value>,
}

impl Results {
    /// Puts the splits of a table in, whose means are its metrics.
    pub fn set_splits(&mut self, splits: Splits) {
        self.time.train_seconds = splits.train_seconds();
        self.metrics = splits.mean.clone();
        self.splits = Some(splits);
    }

    /// Leaves out the splits that are not among these.
    pub fn keep_splits(&mut self, wanted: &[usize]) {
        if let Some(splits) = self.splits.take() {
            self.set_splits(Splits::new(splits.runs.into_iter().filter(|run| wanted.contains(&run.split)).collect()));
        }
    }

    /// Reads a `results.json`.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fidgp_files::text(path).map_err(RecordError::read(path))?;
        let version = serde_json::from_str::<Version>(&text)
            .map_err(|source| RecordError::Json { path: path.to_owned(), source })?;
        match version.schema {
            Some(Value::String(found)) if found == SCHEMA => {}
            other => return Err(wrong_schema(path, other)),
        }
        let read: Self =
            serde_json::from_str(&text).map_err(|source| RecordError::Field { path: path.to_owned(), source })?;
        Ok(read.with_entropies_by_name())
    }

    /// Classifications of before had the total uncertainty under the name of its aleatoric part, and no other.
    fn with_entropies_by_name(mut self) -> Self {
        for part in ["", "validation/"] {
            let [acc, total, aleatoric, epistemic] =
                [names::CLS_ACC, names::CLS_ENTROPY, names::ENS_ENTROPY, names::ENS_MI]
                    .map(|name| format!("{part}{name}"));
            let before = self.metrics.contains_key(&acc) && !self.metrics.contains_key(&total);
            if let Some(found) = self.metrics.get(&aleatoric).copied().filter(|_| before) {
                let mutual = self.metrics.get(&epistemic).copied().flatten();
                self.metrics.insert(aleatoric, found.zip(mutual).map(|(found, mutual)| found - mutual));
                self.metrics.insert(total, found);
            }
        }
        self
    }

    /// Writes a `results.json`: the old file, if any, stays whole until the new one is.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_json(path, self)
    }
}

fn wrong_schema(path: &Path, found: Option<Value>) -> RecordError {
    let found = match found {
        Some(Value::String(text)) => format!("`{text}`"),
        Some(other) => other.to_string(),
        None => "(none)".to_owned(),
    };
    RecordError::Schema { path: path.to_owned(), found }
}
