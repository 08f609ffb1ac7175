//! One line of the result, and the sum of all lines.

use std::fmt::{self, Display, Formatter};

/// One quantity of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Where the quantity stands in the file: `inducing[0]`.
    pub case: String,
    /// Its key: `W_sample`.
    pub quantity: String,
    /// max|Δ|, where there are two arrays to compare.
    pub abs_error: Option<f64>,
    /// `max|Δ| / max(1, max|expected|)`: the number that is judged.
    pub rel_error: Option<f64>,
    /// The largest relative error that passes.
    pub bound: Option<f64>,
    /// The judgement.
    pub verdict: Verdict,
}

impl Row {
    /// Whether the quantity was not reproduced.
    pub fn failed(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(_))
    }
}

/// What became of a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Reproduced within the bound.
    Passed,
    /// Not reproduced, and why.
    Failed(String),
    /// Not compared, and why. Never counted as passed.
    NotChecked(String),
}

/// How many rows passed, failed and were not checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Reproduced.
    pub passed: usize,
    /// Not reproduced.
    pub failed: usize,
    /// Not compared.
    pub not_checked: usize,
}

impl Summary {
    /// Counts.
    pub fn of(rows: &[Row]) -> Self {
        let count = |wanted: fn(&Verdict) -> bool| rows.iter().filter(|row| wanted(&row.verdict)).count();
        Self {
            passed: count(|verdict| *verdict == Verdict::Passed),
            failed: count(|verdict| matches!(verdict, Verdict::Failed(_))),
            not_checked: count(|verdict| matches!(verdict, Verdict::NotChecked(_))),
        }
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} not checked", self.passed, self.failed, self.not_checked)
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
            Self::NotChecked(why) => write!(f, "not checked: {why}"),
        }
    }
}
