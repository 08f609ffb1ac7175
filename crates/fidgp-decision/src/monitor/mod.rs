mod labels;
mod promises;
mod said;
mod series;

pub use labels::Labels;
pub use series::Watch;

use std::collections::BTreeSet;
use std::fmt::Display;

use fidgp_metrics::Interval;
use fidgp_metrics::drift::{AccuracyEstimate, estimate_accuracy};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::calibration::{Calibration, RIGHT};
use crate::error::{DecisionError, Result};
use promises::Promise;
use said::{Truth, confidence, value};
use series::Tested;

/// Confidences that are kept to estimate the accuracy from; of more lines, so many that are drawn evenly.
const CONFIDENCES: usize = 100_000;

/// One series, from the first line of the logs to the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What it is: `total`, `class`, `feature:area` …; with labels `error`.
    pub name: String,
    /// Lines that had it.
    pub seen: usize,
    /// Mean of the calibration examples.
    pub mean_before: f64,
    /// Mean of the lines.
    pub mean_now: f64,
    /// The largest e-value, as a logarithm to base 10.
    pub log10_e: f64,
    /// The line at which it passed the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm_at: Option<usize>,
    /// Line and e-value (logarithm to base 10), for a figure.
    pub line: Vec<(usize, f64)>,
}

/// Coverage of the sets, accuracy or errors among accepted predictions, as labels arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// What is counted, in words.
    pub what: String,
    /// The share promised, where one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<f64>,
    /// Labelled lines.
    pub seen: u64,
    /// The share among them.
    pub share: f64,
    /// Right at every moment at once.
    pub interval: Interval,
    /// Whether the share promised was refuted.
    pub broken: bool,
    /// The line at which it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm_at: Option<usize>,
}

/// What the logs say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Monitor {
    /// Lines read.
    pub lines: usize,
    /// Probability of a false alarm that was allowed, over all tests and for as long as one looks.
    pub alpha: f64,
    /// The e-value that is an alarm, as a logarithm to base 10.
    pub log10_limit: f64,
    /// The series.
    pub series: Vec<Series>,
    /// Accuracy estimated from confidences alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<AccuracyEstimate>,
    /// Accuracy of the calibration examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_before: Option<f64>,
    /// With labels: coverage at each level, accuracy, errors among accepted predictions.
    pub watched: Vec<Watched>,
    /// Labels from a file of their own whose line is not in the logs.
    #[serde(default)]
    pub unused_labels: usize,
    /// Lines by verdict: accept, abstain, out-of-distribution.
    pub verdicts: [usize; 3],
}

impl Monitor {
    /// Whether anything has drifted or a promise is broken.
    pub fn alarm(&self) -> bool {
        self.series.iter().any(|series| series.alarm_at.is_some()) || self.watched.iter().any(|watched| watched.broken)
    }
}

/// Reads prediction logs, a JSON object for each line as `fidgp predict --jsonl` writes them; a field `label` may have been
/// added when the truth was known.
///
/// # Errors
/// When a line is no such object, or a label is not what the model predicts; it is named. When the lines are of several
/// models, as a server writes them.
pub fn monitor<'a>(
    calibration: &Calibration,
    lines: impl IntoIterator<Item = (String, &'a str)>,
    alpha: f64,
) -> Result<Monitor> {
    let mut reading = Reading::new(calibration, alpha, None)?;
    lines.into_iter().try_for_each(|(place, line)| reading.line(&place, line))?;
    reading.finish()
}

/// Logs on the way from the first line to the last.
pub struct Reading<'a> {
    calibration: &'a Calibration,
    only: Only,
    labels: Labels,
    tested: Vec<Tested>,
    errors: Option<Tested>,
    promises: Vec<Promise>,
    alpha: f64,
    share: f64, // of each test
    confidences: Sample,
    count: usize,
    verdicts: [usize; 3],
}

impl<'a> Reading<'a> {
    /// Of a model's calibration. Lines of other models than the one named are passed over.
    ///
    /// # Errors
    /// When the calibration is incomplete.
    pub fn new(calibration: &'a Calibration, alpha: f64, model: Option<&str>) -> Result<Self> {
        if !calibration.rules.pixels.is_empty() {
            let why = "are for the pixels of a segmentation: predictions of pictures are watched for classes and numbers only";
            return Err(DecisionError::asked("the rules", why));
        }
        let (tested, errors) = (series::series(calibration)?, series::errors(calibration)?);
        let tests = tested.len() + usize::from(errors.is_some()) + promises::tests(calibration);
        let share = alpha / tests.max(1) as f64;
        Ok(Self {
            calibration,
            only: Only { name: model.map(str::to_owned), seen: BTreeSet::new() },
            labels: Labels::default(),
            tested,
            errors,
            promises: promises::promises(calibration, share),
            alpha,
            share,
            confidences: Sample::new(),
            count: 0,
            verdicts: [0; 3],
        })
    }

    /// With labels that came later; a label in a line of the log goes before them.
    #[must_use]
    pub fn with_labels(self, labels: Labels) -> Self {
        Self { labels, ..self }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// When it is no object as `fidgp predict --jsonl` writes it, is of a second model and none was named, or has a label that is
    /// not what the model predicts. The place is named.
    pub fn line(&mut self, place: &dyn Display, line: &str) -> Result<()> {
        let said: Value = serde_json::from_str(line)
            .map_err(|error| DecisionError::asked(place.to_string(), format!("is no JSON: {error}")))?;
        if self.only.takes(&said)? { self.add(&said, place) } else { Ok(()) }
    }

    fn add(&mut self, said: &Value, place: &dyn Display) -> Result<()> {
        self.count += 1;
        let (mut any, limit) = (false, -self.share.ln());
        for one in &mut self.tested {
            let Some(value) = value(self.calibration, said, None, &one.name) else { continue };
            any = true;
            one.add(value, self.count, limit);
        }
        if !any {
            let why = "has none of the fields that `fidgp predict --jsonl` writes";
            return Err(DecisionError::asked(place.to_string(), why));
        }
        if let Some(confidence) = confidence(said) {
            self.confidences.add(confidence);
        }
        match said["decision"].as_str() {
            Some("accept") => self.verdicts[0] += 1,
            Some("abstain") => self.verdicts[1] += 1,
            Some("out-of-distribution") => self.verdicts[2] += 1,
            _ => {}
        }
        let later = if said["label"].is_null() { self.labels.of(said) } else { None };
        match later.as_ref().unwrap_or(&said["label"]) {
            Value::Null => {}
            label => self.labelled(said, Truth::of(self.calibration, label, place)?, limit),
        }
        Ok(())
    }

    fn labelled(&mut self, said: &Value, truth: Truth, limit: f64) {
        if let Some(errors) = &mut self.errors
            && let Some(error) = value(self.calibration, said, Some(truth), &errors.name)
        {
            errors.add(error, self.count, limit);
        }
        self.promises.iter_mut().for_each(|promise| promise.add(self.calibration, said, truth, self.count));
    }

    /// What all the lines say.
    ///
    /// # Errors
    /// When there was no line, none of the model that was named, or none that a label belongs to.
    pub fn finish(self) -> Result<Monitor> {
        if self.count == 0 {
            return Err(self.only.nothing());
        }
        let unused_labels = self.labels.unused();
        if unused_labels > 0 && unused_labels == self.labels.len() {
            let why = format!("belong to no line of the logs: none has the same {}", self.labels.fields());
            return Err(DecisionError::asked("the labels", why));
        }
        let mut watched = Vec::new();
        for promise in self.promises {
            watched.extend(promise.finish()?);
        }
        let (accuracy, accuracy_before) = accuracy(self.calibration, &self.confidences.kept)?;
        let series = self.tested.into_iter().chain(self.errors).map(Tested::finish).collect();
        let log10_limit = -self.share.ln() / std::f64::consts::LN_10;
        let (lines, alpha, verdicts) = (self.count, self.alpha, self.verdicts);
        Ok(Monitor { lines, alpha, log10_limit, series, accuracy, accuracy_before, watched, unused_labels, verdicts })
    }
}

/// An even sample of numbers of which there may be any number.
struct Sample {
    kept: Vec<f64>,
    seen: usize,
    rng: ChaCha8Rng,
}

impl Sample {
    fn new() -> Self {
        Self { kept: Vec::new(), seen: 0, rng: ChaCha8Rng::seed_from_u64(0) }
    }

    fn add(&mut self, value: f64) {
        self.seen += 1;
        if self.kept.len() < CONFIDENCES {
            self.kept.push(value);
        } else if let Some(place) = self.kept.get_mut(self.rng.random_range(0..self.seen)) {
            *place = value;
        }
    }
}

/// The model whose lines are read: the one that was named, else the only one.
struct Only {
    name: Option<String>,
    seen: BTreeSet<String>,
}

impl Only {
    fn takes(&mut self, said: &Value) -> Result<bool> {
        let own = said["model"].as_str();
        if let Some(own) = own.filter(|own| !self.seen.contains(*own)) {
            self.seen.insert(own.to_owned());
        }
        if self.name.is_none() && self.seen.len() > 1 {
            let why = format!("are of several models, {}: choose one with --name", self.names());
            return Err(DecisionError::asked("the logs", why));
        }
        Ok(self.name.as_deref().is_none_or(|name| own == Some(name)))
    }

    /// Why nothing was read.
    fn nothing(&self) -> DecisionError {
        let why = match &self.name {
            Some(name) if !self.seen.is_empty() => {
                format!("have no line of the model `{}`; there are {}", fidgp_files::shown(name), self.names())
            }
            _ => "have no lines".to_owned(),
        };
        DecisionError::asked("the logs", why)
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.seen.iter().map(|name| format!("`{}`", fidgp_files::shown(name))).collect();
        names.join(", ")
    }
}

fn accuracy(calibration: &Calibration, confidences: &[f64]) -> Result<(Option<AccuracyEstimate>, Option<f64>)> {
    let (Some(unsure), Some(right)) = (calibration.reference.get("confidence"), calibration.reference.get(RIGHT))
    else {
        return Ok((None, None));
    };
    if confidences.is_empty() {
        return Ok((None, None));
    }
    let before: Vec<f64> = unsure.iter().map(|unsure| 1.0 - unsure).collect();
    let flags: Vec<bool> = right.iter().map(|right| *right > 0.5).collect();
    let share = right.iter().sum::<f64>() / right.len().max(1) as f64;
    Ok((Some(estimate_accuracy(&before, &flags, confidences, 0.95, 0)?), Some(share)))
}
