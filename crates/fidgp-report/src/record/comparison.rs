//! The content of `comparison.json`: several configs under the same seeds, side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use fidgp_metrics::{Interval, IntervalRule};
use serde::Serialize;

use super::Hardware;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Version of this layout.
    pub schema: &'static str,
    /// The commit of this program.
    pub commit: String,
    /// Where this call ran; runs that were finished before have their own in `results.json`.
    pub hardware: Hardware,
    /// The command that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Every config that could be run, in the order given.
    pub contenders: Vec<Contender>,
    /// Those that could not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Failed>,
    /// Settings that they do not agree on.
    pub settings: Vec<Differing>,
    /// Each of them against the first.
    pub differences: Vec<Difference>,
    /// The page.
    #[serde(skip)]
    pub page: PathBuf,
}

/// A config with a run that failed by itself: it diverged, or its data do not suit its method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failed {
    /// Its name.
    pub name: String,
    /// The seed of that run.
    pub seed: u64,
    /// What happened.
    pub why: String,
}

/// A mean over seeds, and its deviation where there are several.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Mean over seeds.
    pub mean: f64,
    /// Sample deviation over seeds; none for a single seed.
    pub sd: Option<f64>,
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{:.4}", self.mean)?;
        self.sd.map_or(Ok(()), |sd| write!(f, " ± {sd:.4}"))
    }
}

/// Runs with a temperature, over seeds.
#[derive(Clone, Debug, Serialize)]
pub struct TemperedSpread {
    /// T.
    pub temperature: Spread,
    /// Whether T is an end of the range it is looked for in, for some seed.
    pub at_edge: bool,
    /// Test metrics.
    pub metrics: BTreeMap<String, Spread>,
}

/// One config with all its seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Contender {
    /// Its name.
    pub name: String,
    /// Its method.
    pub method: String,
    /// Its seeds.
    pub seeds: Vec<u64>,
    /// Trainable numbers.
    pub parameters: u64,
    /// Bytes of the stored weights.
    pub bytes: u64,
    /// Weight draws or members of one prediction.
    pub passes: u64,
    /// Multiply-accumulates of one prediction, all passes.
    pub macs: u64,
    /// Measured seconds of training.
    pub train_seconds: Option<Spread>,
    /// Measured training time over that of the first config.
    pub relative_training: Option<f64>,
    /// Test metrics; those that are missing in a seed are left out.
    pub metrics: BTreeMap<String, Spread>,
    /// The same networks with a temperature each, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tempered: Option<TemperedSpread>,
    /// AUROC by OoD set and score; scores that are missing in a seed are left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ood: BTreeMap<String, BTreeMap<String, Spread>>,
    /// OoD scores that there are none of in some seed, and why.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub ood_left_out: BTreeSet<String>,
}

/// A key of the config, and what each contender has for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Differing {
    /// Dotted, as `--set` takes it.
    pub key: String,
    /// As TOML, in the order of the contenders; none where one has no such key.
    pub values: Vec<Option<String>>,
}

/// What the pairs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Units {
    /// A split of the data, its metric averaged over seeds.
    Splits,
    /// A test example, its loss averaged over seeds: chance is that of the test set, not of the training.
    Examples,
    /// A seed, its metric over all test data: chance is that of the training.
    Seeds,
}

impl Units {
    /// In the plural.
    pub fn word(self) -> &'static str {
        match self {
            Self::Splits => "splits",
            Self::Examples => "test examples",
            Self::Seeds => "seeds",
        }
    }
}

/// The mean of a metric less that of the first config, over pairs.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// Whose.
    pub name: String,
    /// The first config.
    pub reference: String,
    /// Of what.
    pub metric: String,
    /// Own mean less the reference's.
    pub mean: f64,
    /// 95 % interval over the pairs; none where there are too few.
    pub interval: Option<Interval>,
    /// How it was found; none without one.
    pub rule: Option<IntervalRule>,
    /// Number of pairs.
    pub pairs: usize,
    /// What they are.
    pub units: Units,
}

impl Difference {
    /// Whether the interval leaves out zero; none where there is no interval.
    pub fn is_significant(&self) -> Option<bool> {
        self.interval.map(|interval| !interval.contains(0.0))
    }
}
