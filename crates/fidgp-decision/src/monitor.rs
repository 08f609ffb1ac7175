use std::collections::BTreeSet;

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

/// Levels that differ by less are the same.
const SAME_LEVEL: f64 = 1e-9;

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
    line: Line,
}

/// A time line of which only some points are kept, so that it may grow for ever.
#[derive(Default)]
struct Line {
    points: Vec<(usize, f64)>,
    last: Option<(usize, f64)>,
    seen: usize,
    thinned: u32, // one of 2 to this power is kept
}

impl Line {
    fn add(&mut self, point: (usize, f64)) {
        if self.seen.trailing_zeros() >= self.thinned {
            self.points.push(point);
        }
        if self.points.len() > 4 * POINTS {
            self.thinned += 1;
            self.points = self.points.iter().step_by(2).copied().collect();
        }
        self.seen += 1;
        self.last = Some(point);
    }

    fn shown(&self) -> Vec<(usize, f64)> {
        let every = self.points.len().div_ceil(POINTS).max(1);
        let mut kept: Vec<_> = self.points.iter().step_by(every).copied().collect();
        if kept.last() != self.last.as_ref() {
            kept.extend(self.last);
        }
        kept
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
    monitor_model(calibration, lines, alpha, None)
}

/// The same of the lines whose field `model` is this name.
///
/// # Errors
/// As [`monitor`], and when no line is of this model.
pub fn monitor_model<'a>(
    calibration: &Calibration,
    lines: impl IntoIterator<Item = (String, &'a str)>,
    alpha: f64,
    model: Option<&str>,
) -> Result<Monitor> {
    let mut reading = Reading::new(calibration, alpha)?;
    let mut only = Only { name: model, seen: BTreeSet::new() };
    for (place, line) in lines {
        let said: Value = serde_json::from_str(line)
            .map_err(|error| DecisionError::asked(place.clone(), format!("is no JSON: {error}")))?;
        if only.takes(&said)? {
            reading.add(&said, &place)?;
        }
    }
    match only.name {
        Some(name) if reading.count == 0 && !only.seen.is_empty() => {
            let why = format!("have no line of the model `{}`; there are {}", fidgp_files::shown(name), only.names());
            Err(DecisionError::asked("the logs", why))
        }
        _ if reading.count == 0 => Err(DecisionError::asked("the logs", "have no lines")),
        _ => reading.finish(),
    }
}

/// The model whose lines are read: the one that was named, else the only one.
struct Only<'a> {
    name: Option<&'a str>,
    seen: BTreeSet<String>,
}

impl Only<'_> {
    fn takes(&mut self, said: &Value) -> Result<bool> {
        let own = said["model"].as_str();
        if let Some(own) = own.filter(|own| !self.seen.contains(*own)) {
            self.seen.insert(own.to_owned());
        }
        if self.name.is_none() && self.seen.len() > 1 {
            let why = format!("are of several models, {}: choose one with --name", self.names());
            return Err(DecisionError::asked("the logs", why));
        }
        Ok(self.name.is_none_or(|name| own == Some(name)))
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.seen.iter().map(|name| format!("`{}`", fidgp_files::shown(name))).collect();
        names.join(", ")
    }
}

/// Logs on the way from the first line to the last.
struct Reading<'a> {
    calibration: &'a Calibration,
    tested: Vec<Tested>,
    levels: Vec<Level>,
    alpha: f64,
    share: f64, // of each test
    coverage: Vec<Proportion>,
    right: Proportion,
    confidences: Vec<f64>,
    count: usize,
    verdicts: [usize; 3],
}

impl<'a> Reading<'a> {
    fn new(calibration: &'a Calibration, alpha: f64) -> Result<Self> {
        let (tested, levels) = (series(calibration)?, levels(calibration));
        let share = alpha / (tested.len() + levels.len()).max(1) as f64;
        let coverage = vec![Proportion::default(); levels.len()];
        let (right, confidences, count, verdicts) = (Proportion::default(), Vec::new(), 0, [0; 3]);
        Ok(Self { calibration, tested, levels, alpha, share, coverage, right, confidences, count, verdicts })
    }

    fn add(&mut self, said: &Value, place: &str) -> Result<()> {
        self.count += 1;
        let (mut any, limit) = (false, -self.share.ln());
        for one in &mut self.tested {
            let Some(value) = value(self.calibration, said, &one.name) else { continue };
            any = true;
            one.add(value, self.count, limit);
        }
        if !any {
            return Err(DecisionError::asked(place, "has none of the fields that `fidgp predict --jsonl` writes"));
        }
        self.confidences.extend(confidence(said));
        match said["decision"].as_str() {
            Some("accept") => self.verdicts[0] += 1,
            Some("abstain") => self.verdicts[1] += 1,
            Some("out-of-distribution") => self.verdicts[2] += 1,
            _ => {}
        }
        match &said["label"] {
            Value::Null => Ok(()),
            label => self.labelled(said, label, place),
        }
    }

    fn labelled(&mut self, said: &Value, label: &Value, place: &str) -> Result<()> {
        let truth = if self.calibration.classes.is_empty() {
            Truth::Number(
                number_of(label)
                    .ok_or_else(|| DecisionError::asked(place, format!("has the label {label}, which is no number")))?,
            )
        } else {
            Truth::Class(known(self.calibration, label, place)?)
        };
        if let (Truth::Class(label), Some(class)) = (truth, class(self.calibration, &said["class"])) {
            self.right.add(label == class);
        }
        for (level, coverage) in self.levels.iter().zip(&mut self.coverage) {
            if let Some(hit) = covered(self.calibration, said, level.level, truth) {
                coverage.add(hit);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Monitor> {
        let mut watched = Vec::new();
        for (level, coverage) in self.levels.iter().zip(self.coverage) {
            let what = format!("sets or intervals that hold the truth at level {}", percent(level.level));
            watched.extend(watch(what, Some(*level), coverage, self.share)?);
        }
        watched.extend(watch("predictions that are right".to_owned(), None, self.right, self.share)?);
        let (accuracy, accuracy_before) = accuracy(self.calibration, &self.confidences)?;
        let series = self.tested.into_iter().map(Tested::finish).collect();
        let log10_limit = -self.share.ln() / std::f64::consts::LN_10;
        let (lines, alpha, verdicts) = (self.count, self.alpha, self.verdicts);
        Ok(Monitor { lines, alpha, log10_limit, series, accuracy, accuracy_before, watched, verdicts })
    }
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
                line: Line::default(),
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
        self.line.add((line, self.test.log_e_value() / std::f64::consts::LN_10));
    }

    fn finish(self) -> Series {
        Series {
            name: self.name,
            seen: self.seen,
            mean_before: self.before,
            mean_now: if self.seen > 0 { self.sum / self.seen as f64 } else { 0.0 },
            log10_e: self.test.log_largest() / std::f64::consts::LN_10,
            alarm_at: self.alarm_at,
            line: self.line.shown(),
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

/// What turned out to be true.
#[derive(Clone, Copy)]
enum Truth {
    Class(usize),
    Number(f64),
}

/// A number, also where it was written as a text.
fn number_of(label: &Value) -> Option<f64> {
    label.as_f64().or_else(|| label.as_str()?.trim().parse().ok()).filter(|number: &f64| number.is_finite())
}

/// Whether the set or interval of a level holds the truth; nothing where a line has none of this level.
fn covered(calibration: &Calibration, said: &Value, level: f64, truth: Truth) -> Option<bool> {
    let of_level = |one: &&Value| one["level"].as_f64().is_some_and(|own| (own - level).abs() < SAME_LEVEL);
    let find = |name: &str| said[name].as_array().into_iter().flatten().find(of_level);
    match truth {
        Truth::Class(label) => {
            let set = find("sets")?["classes"].as_array()?;
            Some(set.iter().any(|each| class(calibration, each) == Some(label)))
        }
        Truth::Number(y) => {
            let interval = find("intervals")?;
            let (lower, upper) = (interval["lower"].as_f64(), interval["upper"].as_f64());
            Some(lower.is_none_or(|lower| lower <= y) && upper.is_none_or(|upper| y <= upper))
        }
    }
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
