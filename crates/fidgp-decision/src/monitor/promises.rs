//! Shares that were promised, counted as labels arrive.

use fidgp_metrics::conformal::coverage_law;
use fidgp_metrics::drift::Proportion;
use serde_json::Value;

use super::Watched;
use super::said::{Truth, covered};
use crate::calibration::Calibration;
use crate::decide::percent;
use crate::error::Result;

/// A share that is counted, and what it may not pass.
pub(super) struct Promise {
    what: String,
    promised: Option<f64>,
    counts: Counts,
    bound: Bound,
    chance: f64,
    counted: Proportion,
    alarm_at: Option<usize>,
}

/// What is counted of a labelled line.
#[derive(Clone, Copy)]
enum Counts {
    /// Whether the set or interval of a level holds the truth.
    Coverage(f64),
    /// Whether a class is right.
    Right,
    /// Whether an accepted prediction is wrong; a number is when it is off by more than this.
    AcceptedErrors(f64),
}

/// What refutes a promise.
#[derive(Clone, Copy)]
enum Bound {
    Nothing,
    /// A share below it, which is less likely than half of `chance`: the other half is for the examples that the rule rests on.
    Least(f64),
    Most(f64),
}

/// How many promises there are to test.
pub(super) fn tests(calibration: &Calibration) -> usize {
    let rules = &calibration.rules;
    let bounded = rules.abstention.as_ref().is_some_and(|abstention| abstention.rule.is_some());
    rules.sets.len() + rules.sets_by_class.len() + rules.intervals.len() + usize::from(bounded)
}

/// Every promise of a calibration, with the probability of a false alarm that each may have.
pub(super) fn promises(calibration: &Calibration, chance: f64) -> Vec<Promise> {
    let new = |what, promised, counts, bound| Promise {
        what,
        promised,
        counts,
        bound,
        chance,
        counted: Proportion::default(),
        alarm_at: None,
    };
    let level = |level: Level| {
        let what = format!("sets or intervals that hold the truth at level {}", percent(level.level));
        let least = Bound::Least(level.least(chance / 2.0));
        new(what, Some(level.level), Counts::Coverage(level.level), least)
    };
    let mut all: Vec<_> = levels(calibration).into_iter().map(level).collect();
    if !calibration.classes.is_empty() {
        all.push(new("predictions that are right".to_owned(), None, Counts::Right, Bound::Nothing));
    }
    if let Some(abstention) = calibration.rules.abstention.as_ref().filter(|abstention| abstention.rule.is_some()) {
        let (what, far) = ("accepted predictions that are wrong".to_owned(), abstention.wrong_beyond.unwrap_or(0.5));
        let (risk, counts) = (abstention.risk, Counts::AcceptedErrors(far));
        all.push(new(what, Some(risk), counts, Bound::Most(risk)));
    }
    all
}

impl Promise {
    /// Looks at a line whose truth is known.
    pub fn add(&mut self, calibration: &Calibration, said: &Value, truth: Truth, line: usize) {
        let error = || truth.error(calibration, said);
        let hit = match self.counts {
            Counts::Coverage(level) => covered(calibration, said, level, truth),
            Counts::Right => error().map(|error| error < 0.5),
            Counts::AcceptedErrors(far) if said["decision"] == "accept" => error().map(|error| error > far),
            Counts::AcceptedErrors(_) => None,
        };
        let Some(hit) = hit else { return };
        self.counted.add(hit);
        if self.alarm_at.is_none() && self.is_refuted() {
            self.alarm_at = Some(line);
        }
    }

    fn limit(&self) -> f64 {
        -(self.chance / 2.0).ln()
    }

    fn is_refuted(&self) -> bool {
        let share = self.counted.share().unwrap_or(f64::NAN);
        match self.bound {
            Bound::Nothing => false,
            Bound::Least(least) => share < least && self.counted.log_e_value(least) >= self.limit(),
            Bound::Most(most) => share > most && self.counted.log_e_value(most) >= self.limit(),
        }
    }

    pub fn finish(self) -> Result<Option<Watched>> {
        let Some(share) = self.counted.share() else { return Ok(None) };
        let interval = self.counted.interval(1.0 - self.chance / 2.0)?;
        let (seen, broken) = (self.counted.hits + self.counted.misses, self.alarm_at.is_some());
        let Self { what, promised, alarm_at, .. } = self;
        Ok(Some(Watched { what, promised, seen, share, interval, broken, alarm_at }))
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
