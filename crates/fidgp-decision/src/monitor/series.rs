//! Series that are tested line by line.

use fidgp_metrics::drift::Exchangeability;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::Series;
use super::said::value;
use crate::calibration::{Calibration, ERROR, OUTSIDE, RIGHT};
use crate::error::Result;

/// Points of a time line.
const POINTS: usize = 200;

/// A series that is being tested.
pub(super) struct Tested {
    pub name: String,
    pub test: Exchangeability,
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

/// The series of a calibration that need no labels.
pub(super) fn series(calibration: &Calibration) -> Result<Vec<Tested>> {
    let is_series = |name: &str| ![RIGHT, ERROR, OUTSIDE].contains(&name);
    let columns = calibration.reference.iter().filter(|(name, values)| is_series(name) && !values.is_empty());
    columns.enumerate().map(|(number, (name, values))| Tested::new(name, values, number as u64)).collect()
}

/// How far off predictions were, where it was kept: only labels tell.
pub(super) fn errors(calibration: &Calibration) -> Result<Option<Tested>> {
    let wrong = |right: &Vec<f64>| right.iter().map(|right| 1.0 - right).collect();
    let off = calibration.reference.get(ERROR).cloned().or_else(|| calibration.reference.get(RIGHT).map(wrong));
    off.filter(|off| !off.is_empty()).map(|off| Tested::new(ERROR, &off, u64::MAX)).transpose()
}

impl Tested {
    fn new(name: &str, values: &[f64], seed: u64) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            test: Exchangeability::new(values)?,
            rng: ChaCha8Rng::seed_from_u64(seed),
            before: values.iter().sum::<f64>() / values.len() as f64,
            sum: 0.0,
            seen: 0,
            alarm_at: None,
            line: Line::default(),
        })
    }

    pub fn add(&mut self, value: f64, line: usize, limit: f64) {
        self.test.add(value, self.rng.random());
        self.seen += 1;
        self.sum += value;
        if self.alarm_at.is_none() && self.test.log_largest() >= limit {
            self.alarm_at = Some(line);
        }
        self.line.add((line, self.test.log_e_value() / std::f64::consts::LN_10));
    }

    pub fn finish(self) -> Series {
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
            if let Some(value) = value(&self.calibration, said, None, &one.name) {
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
