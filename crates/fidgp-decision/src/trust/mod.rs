mod classes;
mod numbers;

use std::path::Path;

use fidgp_metrics::{Interval, RiskCoverage, binomial};
use serde::{Deserialize, Serialize};

pub use classes::{ClassRow, ClassesSeen, SetSizes};
pub use numbers::{Forecast, NumbersSeen, Third, Widths};

use crate::calibration::{Calibration, Examples};
use crate::decide::{Judge, Verdict};
use crate::error::{DecisionError, Result};
use crate::evidence::{ClassEvidence, NumberEvidence, Score};

/// The file in a run or model folder.
pub const TRUST_FILE: &str = "trust.json";
const SCHEMA: &str = "fidgp-trust/1";

/// Mistakes that are shown.
pub const MISTAKES: usize = 12;
const BINS: usize = 30;
/// Values above this quantile stand in the last bin of a histogram.
const LAST_BIN: f64 = 0.995;
const CURVE_POINTS: usize = 200;

/// How far a model can be trusted: what it did on the examples that its rules were made from, and on those held back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trust {
    /// `fidgp-trust/1`.
    pub schema: String,
    /// Digest of what predicts, as in `calibration.json`.
    pub model_sha256: String,
    /// Digest of the rules that it was seen with; files of before have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules_sha256: Option<String>,
    /// The model.
    pub model: About,
    /// The examples.
    pub examples: Examples,
    /// What the rules do with the examples that were held back.
    pub decisions: Decisions,
    /// Risk against coverage, by each uncertainty, on all examples.
    pub curves: Vec<Curve>,
    /// Epistemic uncertainty of right and of wrong predictions, on all examples.
    pub epistemic: Histogram,
    /// What was seen of the predictions.
    pub seen: Seen,
    /// The most confident mistakes among all examples.
    pub mistakes: Vec<Mistake>,
    /// Inputs that are known to be foreign, and how many of them the rules find.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<Foreign>,
}

/// What a model is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Its method.
    pub method: String,
    /// The data it was trained on.
    pub data: String,
    /// SHA-256 of its weights and buffers, as `ood.json` has it.
    pub weights_sha256: String,
}

/// How often each of the verdicts was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    /// Answered.
    pub accept: usize,
    /// Not sure enough.
    pub abstain: usize,
    /// Called out of distribution.
    pub foreign: usize,
}

/// A risk–coverage curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The uncertainty that orders the examples.
    pub score: Score,
    /// Area under it.
    pub aurc: f64,
    /// `[coverage, risk]`; the risk is the share of wrong classes, or the mean absolute error.
    pub points: Vec<[f64; 2]>,
}

/// Counts of right and wrong predictions by a value; for numbers, wrong ones are off by more than asked for or more than half are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Bin edges, one more than bins.
    pub edges: Vec<f64>,
    /// Right ones.
    pub right: Vec<usize>,
    /// Wrong ones.
    pub wrong: Vec<usize>,
    /// What wrong means, in words.
    pub wrong_is: String,
}

/// Classes or numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Seen {
    /// Predicted classes.
    Classes(ClassesSeen),
    /// Predicted numbers.
    Numbers(NumbersSeen),
}

/// A prediction that is wrong although the model is sure of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mistake {
    /// Which of the examples.
    pub example: usize,
    /// Where the input is from.
    pub input: String,
    /// What the model says.
    pub said: String,
    /// What is true.
    pub truth: String,
    /// Probability of what it says; none for numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// How far a number is off, in deviations of the prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviations: Option<f64>,
    /// Total uncertainty.
    pub total: f64,
    /// Epistemic uncertainty.
    pub epistemic: f64,
    /// What the rules say.
    pub verdict: Verdict,
    /// The input as PNG, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
}

/// Inputs that are known to be foreign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foreign {
    /// Where they are from.
    pub source: String,
    /// How many.
    pub inputs: usize,
    /// How many of them are called out of distribution.
    pub found: usize,
    /// How many are accepted.
    pub accepted: usize,
}

/// A share with its exact interval at 95 %.
///
/// # Errors
/// Never for hits among examples.
pub fn share(hits: usize, of: usize) -> Result<(f64, Interval)> {
    Ok((hits as f64 / of.max(1) as f64, binomial::interval(hits, of, 0.95)?))
}

impl Trust {
    /// What was seen of predicted classes.
    ///
    /// # Shapes
    /// `examples`, `labels [N]`, those that `found` was fitted on
    ///
    /// # Errors
    /// When the calibration is of other examples.
    pub fn of_classes(found: &Calibration, about: About, examples: &[ClassEvidence], labels: &[usize]) -> Result<Self> {
        classes::trust(found, about, examples, labels)
    }

    /// What was seen of predicted numbers.
    ///
    /// # Shapes
    /// `examples`, `targets [N]`, those that `found` was fitted on
    ///
    /// # Errors
    /// When the calibration is of other examples.
    pub fn of_numbers(found: &Calibration, about: About, examples: &[NumberEvidence], targets: &[f64]) -> Result<Self> {
        numbers::trust(found, about, examples, targets)
    }

    /// Writes it into a folder, whole or not at all.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(TRUST_FILE);
        let text = serde_json::to_string(self).map_err(|error| DecisionError::file(&path, error))?;
        fidgp_files::write::replace(&path, (text + "\n").as_bytes()).map_err(|error| DecisionError::file(&path, error))
    }

    /// Reads that of a folder, where there is one.
    ///
    /// # Errors
    /// When it is broken.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(TRUST_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let text = fidgp_files::text(&path).map_err(|error| DecisionError::file(&path, error))?;
        let found: Self = serde_json::from_str(&text).map_err(|error| DecisionError::file(&path, error))?;
        if found.schema != SCHEMA {
            let why = format!("`schema` is `{}`, this program reads `{SCHEMA}`", found.schema);
            return Err(DecisionError::file(&path, why));
        }
        found.sound().map_err(|why| DecisionError::file(&path, why))?;
        Ok(Some(found))
    }

    /// Whether it was seen with these rules, of the same model on the same examples.
    ///
    /// # Errors
    /// Never for rules that can be written.
    pub fn is_of(&self, rules: &Calibration) -> Result<bool> {
        let digest = rules.digest()?;
        let same = self.model_sha256 == rules.model_sha256 && self.examples == rules.examples;
        Ok(same && self.rules_sha256.as_ref().is_none_or(|own| *own == digest) && self.fits(rules))
    }

    /// Whether levels and classes are as many.
    fn fits(&self, found: &Calibration) -> bool {
        let rules = &found.rules;
        match &self.seen {
            Seen::Classes(seen) => {
                seen.classes == found.classes && seen.sizes.len() == rules.sets.len() + rules.sets_by_class.len()
            }
            Seen::Numbers(seen) => seen.thirds.iter().all(|third| third.covered.len() == rules.intervals.len()),
        }
    }

    /// Whether its parts fit each other; a file can hold anything.
    fn sound(&self) -> std::result::Result<(), String> {
        let bins = self.epistemic.right.len();
        if self.epistemic.wrong.len() != bins || self.epistemic.edges.len() != bins + 1 {
            return Err("`epistemic` has not one edge more than counts of right and of wrong".to_owned());
        }
        match &self.seen {
            Seen::Classes(seen) => seen.sound(),
            Seen::Numbers(seen) => {
                let levels = seen.thirds.first().map_or(0, |third| third.covered.len());
                let same = seen.thirds.iter().all(|third| third.covered.len() == levels);
                if same { Ok(()) } else { Err("`thirds` are of different levels".to_owned()) }
            }
        }
    }
}

impl Foreign {
    /// Of verdicts on foreign inputs.
    pub fn of(source: String, verdicts: &[Verdict]) -> Self {
        let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        Self {
            source,
            inputs: verdicts.len(),
            found: count(Verdict::OutOfDistribution),
            accepted: count(Verdict::Accept),
        }
    }
}

impl Decisions {
    fn of(verdicts: impl Iterator<Item = Verdict>) -> Self {
        let mut counts = Self::default();
        for verdict in verdicts {
            match verdict {
                Verdict::Accept => counts.accept += 1,
                Verdict::Abstain => counts.abstain += 1,
                Verdict::OutOfDistribution => counts.foreign += 1,
            }
        }
        counts
    }
}

impl Curve {
    fn of(score: Score, uncertainty: &[f64], loss: &[f64]) -> Result<Self> {
        let confidence: Vec<f64> = uncertainty.iter().map(|u| -u).collect();
        let curve = RiskCoverage::new(&confidence, loss)?;
        let points = curve.curve();
        let stride = points.len().div_ceil(CURVE_POINTS).max(1);
        let skipped = points.len().saturating_sub(1) % stride;
        let points = points.iter().skip(skipped).step_by(stride).map(|point| [point.coverage, point.risk]).collect();
        Ok(Self { score, aurc: curve.aurc(), points })
    }
}

impl Histogram {
    fn of(values: &[f64], wrong: &[bool], wrong_is: &str) -> Self {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let top = sorted.get((LAST_BIN * sorted.len() as f64) as usize).or(sorted.last()).copied().unwrap_or(1.0);
        let top = if top > 0.0 { top } else { 1.0 };
        let mut found = Self {
            edges: (0..=BINS).map(|edge| top * edge as f64 / BINS as f64).collect(),
            right: vec![0; BINS],
            wrong: vec![0; BINS],
            wrong_is: wrong_is.to_owned(),
        };
        for (value, wrong) in values.iter().zip(wrong).filter(|(value, _)| value.is_finite()) {
            let bin = ((value / top * BINS as f64).max(0.0) as usize).min(BINS - 1);
            if *wrong { found.wrong[bin] += 1 } else { found.right[bin] += 1 }
        }
        found
    }
}

/// What both kinds have in common.
fn started(found: &Calibration, about: About, verdicts: &[Verdict], held: &[usize], seen: Seen) -> Result<Trust> {
    Ok(Trust {
        schema: SCHEMA.to_owned(),
        model_sha256: found.model_sha256.clone(),
        rules_sha256: Some(found.digest()?),
        model: about,
        examples: found.examples.clone(),
        decisions: Decisions::of(held.iter().map(|&i| verdicts[i])),
        curves: Vec::new(),
        epistemic: Histogram::default(),
        seen,
        mistakes: Vec::new(),
        foreign: Vec::new(),
    })
}

/// The rules, and the examples that were held back when they were made.
fn judged(found: &Calibration, n: usize) -> Result<(Judge, Vec<usize>)> {
    let (_, held) = crate::fit::divided(n, found.examples.held_back, found.examples.seed);
    if found.examples.fitted + found.examples.held_back != n {
        let why = format!("are {n}, the rules are of {} others", found.examples.fitted + found.examples.held_back);
        return Err(DecisionError::asked("the examples", why));
    }
    Ok((Judge::new(found)?, held))
}

/// The places of the largest values, the largest first, where there is a value.
fn largest(values: &[Option<f64>]) -> Vec<usize> {
    let mut places: Vec<(usize, f64)> =
        values.iter().enumerate().filter_map(|(i, value)| Some((i, (*value)?))).collect();
    places.sort_by(|a, b| b.1.total_cmp(&a.1));
    places.into_iter().take(MISTAKES).map(|(i, _)| i).collect()
}
