use fidgp_metrics::Interval;
use fidgp_metrics::conformal::coverage_law;
use fidgp_metrics::drift::{AccuracyEstimate, Exchangeability, Proportion, estimate_accuracy};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::calibration::{Calibration, OUTSIDE};
use crate::decide::percent;
use crate::error::{DecisionError, Result};

/// Points of a time line.
const POINTS: usize = 200;

/// One series, from the first line of the logs to the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What it is: `total`, `class`, `feature:area` …
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

/// Coverage of the sets, or accuracy, as labels arrive.
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
    /// Whether the share promised is refuted.
    pub broken: bool,
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
    /// With labels: coverage at each level, accuracy.
    pub watched: Vec<Watched>,
    /// Lines by verdict: accept, abstain, out-of-distribution.
    pub verdicts: [usize; 3],
}

impl Monitor {
    /// Whether anything has drifted or a promise is broken.
    pub fn alarm(&self) -> bool {
        self.series.iter().any(|series| series.alarm_at.is_some()) || self.watched.iter().any(|watched| watched.broken)
    }
}

/// A series that is being tested.
struct Tested {
    name: String,
    test: Exchangeability,
    rng: ChaCha8Rng,
    before: f64,
    sum: f64,
    seen: usize,
    alarm_at: Option<usize>,
    line: Vec<(usize, f64)>,
}

/// Reads prediction logs, a JSON object for each line as `fidgp predict --jsonl` writes them; a field `label` may have been
/// added when the truth was known.
///
/// # Errors
/// When a line is no such object; it is named.
pub fn monitor<'a>(
    calibration: &Calibration,
    lines: impl IntoIterator<Item = (String, &'a str)>,
    alpha: f64,
) -> Result<Monitor> {
    let mut tested = series(calibration)?;
    let levels = levels(calibration);
    let share = alpha / (tested.len() + levels.len()).max(1) as f64; // of each test
    let limit = -share.ln();
    let (mut coverage, mut right) = (vec![Proportion::default(); levels.len()], Proportion::default());
    let (mut confidences, mut count, mut verdicts) = (Vec::new(), 0, [0; 3]);
    for (place, line) in lines {
        let said: Value = serde_json::from_str(line)
            .map_err(|error| DecisionError::asked(place.clone(), format!("is no JSON: {error}")))?;
        count += 1;
        let mut any = false;
        for one in &mut tested {
            let Some(value) = value(calibration, &said, &one.name) else { continue };
            any = true;
            one.add(value, count, limit);
        }
        if !any {
            return Err(DecisionError::asked(place, "has none of the fields that `fidgp predict --jsonl` writes"));
        }
        confidences.extend(confidence(&said));
        match said["decision"].as_str() {
            Some("accept") => verdicts[0] += 1,
            Some("abstain") => verdicts[1] += 1,
            Some("out-of-distribution") => verdicts[2] += 1,
            _ => {}
        }
        let label = &said["label"];
        if label.is_null() {
            continue;
        }
        if let Some(class) = class(calibration, &said["class"]) {
            right.add(known(calibration, label, &place)? == class);
        }
        for (level, coverage) in coverage.iter_mut().enumerate() {
            if let Some(hit) = covered(&said, level, label) {
                coverage.add(hit);
            }
        }
    }
    if count == 0 {
        return Err(DecisionError::asked("the logs", "have no lines"));
    }
    let mut watched = Vec::new();
    for (level, coverage) in levels.iter().zip(coverage) {
        let what = format!("sets or intervals that hold the truth at level {}", percent(level.level));
        watched.extend(watch(what, Some(*level), coverage, share)?);
    }
    watched.extend(watch("predictions that are right".to_owned(), None, right, share)?);
    let (accuracy, accuracy_before) = accuracy(calibration, &confidences)?;
    let series = tested.into_iter().map(Tested::finish).collect();
    let log10_limit = limit / std::f64::consts::LN_10;
    Ok(Monitor { lines: count, alpha, log10_limit, series, accuracy, accuracy_before, watched, verdicts })
}

/// The same tests while a model is asked: they go on for as long as it is served, in memory that is bounded.
pub struct Watch {
    calibration: Calibration,
    tested: Vec<Tested>,
    lines: usize,
    /// The largest evidence of the lines before these, by series.
    earlier: Vec<f64>,
}

/// A watch begins anew after so many lines: its tests hold every value that they saw.
const WATCHED_LINES: usize = 10_000;

impl Watch {
    /// Of a model's calibration.
    ///
    /// # Errors
    /// When it is incomplete.
    pub fn new(calibration: Calibration) -> Result<Self> {
        let tested = series(&calibration)?;
        Ok(Self { calibration, earlier: vec![0.0; tested.len()], tested, lines: 0 })
    }

    /// Looks at one more prediction, written as in a log.
    ///
    /// # Errors
    /// When the calibration is incomplete.
    pub fn add(&mut self, said: &Value) -> Result<()> {
        if self.lines == WATCHED_LINES {
            self.earlier = self.tested.iter().map(|one| one.test.log_largest()).collect();
            (self.tested, self.lines) = (series(&self.calibration)?, 0);
        }
        self.lines += 1;
        for one in &mut self.tested {
            if let Some(value) = value(&self.calibration, said, &one.name) {
                one.add(value, self.lines, f64::INFINITY);
            }
        }
        Ok(())
    }

    /// The largest evidence of a change in the last 10,000 to 20,000 lines, by series: an e-value as a logarithm to base
    /// 10. While nothing changes, a series passes `k` among 10,000 lines with probability 10⁻ᵏ at most.
    pub fn evidence(&self) -> Vec<(String, f64)> {
        let largest = self.tested.iter().zip(&self.earlier);
        let said = |(one, earlier): (&Tested, &f64)| {
            (one.name.clone(), one.test.log_largest().max(*earlier) / std::f64::consts::LN_10)
        };
        largest.map(said).collect()
    }
}

/// A level that was promised, and the examples that the rule rests on.
#[derive(Clone, Copy)]
struct Level {
    level: f64,
    examples: usize,
}

impl Level {
    /// The least coverage that a sound rule has: its own is a matter of the calibration examples, lower than this for a
    /// share of `chance` of them.
    fn least(self, chance: f64) -> f64 {
        let law = coverage_law(self.examples, self.level).and_then(|law| law.interval(1.0 - 2.0 * chance));
        law.map_or(self.level, |interval| interval.lo)
    }
}

fn levels(calibration: &Calibration) -> Vec<Level> {
    let rules = &calibration.rules;
    let sets = rules.sets.iter().map(|sets| Level { level: sets.level, examples: sets.examples });
    let least = |examples: &[usize]| examples.iter().copied().min().unwrap_or(0);
    let by_class = rules.sets_by_class.iter().map(|sets| Level { level: sets.level, examples: least(&sets.examples) });
    let intervals = rules.intervals.iter().map(|sets| Level { level: sets.level, examples: sets.examples });
    sets.chain(by_class).chain(intervals).collect()
}

fn series(calibration: &Calibration) -> Result<Vec<Tested>> {
    let is_series = |name: &str| name != "right" && name != OUTSIDE;
    let columns = calibration.reference.iter().filter(|(name, values)| is_series(name) && !values.is_empty());
    columns
        .enumerate()
        .map(|(number, (name, values))| {
            Ok(Tested {
                name: name.clone(),
                test: Exchangeability::new(values)?,
                rng: ChaCha8Rng::seed_from_u64(number as u64),
                before: values.iter().sum::<f64>() / values.len() as f64,
                sum: 0.0,
                seen: 0,
                alarm_at: None,
                line: Vec::new(),
            })
        })
        .collect()
}

impl Tested {
    fn add(&mut self, value: f64, line: usize, limit: f64) {
        self.test.add(value, self.rng.random());
        self.seen += 1;
        self.sum += value;
        if self.alarm_at.is_none() && self.test.log_largest() >= limit {
            self.alarm_at = Some(line);
        }
        self.line.push((line, self.test.log_e_value() / std::f64::consts::LN_10));
    }

    fn finish(self) -> Series {
        let every = self.line.len().div_ceil(POINTS).max(1);
        let last = self.line.len().saturating_sub(1);
        let kept = self.line.iter().enumerate().filter(|(i, _)| i % every == 0 || *i == last);
        Series {
            name: self.name,
            seen: self.seen,
            mean_before: self.before,
            mean_now: if self.seen > 0 { self.sum / self.seen as f64 } else { 0.0 },
            log10_e: self.test.log_largest() / std::f64::consts::LN_10,
            alarm_at: self.alarm_at,
            line: kept.map(|(_, point)| *point).collect(),
        }
    }
}

/// What a line says of a series.
fn value(calibration: &Calibration, said: &Value, name: &str) -> Option<f64> {
    match name {
        "confidence" => confidence(said).map(|p| 1.0 - p),
        "class" => class(calibration, &said["class"]).map(|class| class as f64),
        "total" => said["total"].as_f64().or_else(|| said["sd"].as_f64()),
        "epistemic" => said["epistemic"].as_f64(),
        "mean" => said["mean"].as_f64(),
        other => feature(calibration, &said["features"], other.strip_prefix("feature:")?),
    }
}

/// A feature by its name, or by its place where a line has a list of them.
fn feature(calibration: &Calibration, said: &Value, name: &str) -> Option<f64> {
    let place = calibration.features.iter().position(|feature| feature.name == name)?;
    let cell = if said.is_array() { &said[place] } else { &said[name] };
    calibration.features[place].number(cell)
}

/// The probability of the most probable class.
fn confidence(said: &Value) -> Option<f64> {
    let all = said["probabilities"].as_array().into_iter().flatten().filter_map(Value::as_f64);
    said["probability"].as_f64().or_else(|| all.reduce(f64::max))
}

/// The number of a class that is given by name, or by number.
fn class(calibration: &Calibration, said: &Value) -> Option<usize> {
    let text = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
    let named = calibration.classes.iter().position(|name| *name == text);
    named.or_else(|| said.as_u64().map(|index| index as usize).filter(|index| *index < calibration.classes.len()))
}

/// The number of a label's class.
fn known(calibration: &Calibration, label: &Value, place: &str) -> Result<usize> {
    let unknown = || DecisionError::asked(place, format!("has the label {label}, which is no class of the model"));
    class(calibration, label).ok_or_else(unknown)
}

/// Whether the set or interval at a level holds the label.
fn covered(said: &Value, level: usize, label: &Value) -> Option<bool> {
    if let Some(set) = said["sets"].get(level) {
        let text = label.as_str().map_or_else(|| label.to_string(), str::to_owned);
        return Some(set["classes"].as_array()?.iter().any(|class| class.as_str() == Some(&text)));
    }
    let interval = said["intervals"].get(level)?;
    let (y, lower, upper) = (label.as_f64()?, interval["lower"].as_f64(), interval["upper"].as_f64());
    Some(lower.is_none_or(|lower| lower <= y) && upper.is_none_or(|upper| y <= upper))
}

/// A share that is counted; a promise is broken when both the count and the examples of the rule speak against it.
fn watch(what: String, level: Option<Level>, counted: Proportion, chance: f64) -> Result<Option<Watched>> {
    let Some(share) = counted.share() else { return Ok(None) };
    let interval = counted.interval(1.0 - chance / 2.0)?;
    let broken = level.is_some_and(|level| interval.hi < level.least(chance / 2.0));
    let promised = level.map(|level| level.level);
    Ok(Some(Watched { what, promised, seen: counted.hits + counted.misses, share, interval, broken }))
}

fn accuracy(calibration: &Calibration, confidences: &[f64]) -> Result<(Option<AccuracyEstimate>, Option<f64>)> {
    let (Some(unsure), Some(right)) = (calibration.reference.get("confidence"), calibration.reference.get("right"))
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
