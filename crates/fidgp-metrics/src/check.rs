//! The checks that every constructor shares.

use crate::error::{MetricError, Result};

pub(crate) fn non_empty<T>(what: &'static str, values: &[T]) -> Result<()> {
    if values.is_empty() { Err(MetricError::Empty { what }) } else { Ok(()) }
}

pub(crate) fn length<T>(what: &'static str, values: &[T], expected: usize) -> Result<()> {
    let got = values.len();
    if got == expected { Ok(()) } else { Err(MetricError::Length { what, expected, got }) }
}

pub(crate) fn at_least_one(what: &'static str, count: usize) -> Result<()> {
    if count == 0 { Err(MetricError::Zero { what }) } else { Ok(()) }
}

pub(crate) fn finite(what: &'static str, values: &[f64]) -> Result<()> {
    refuse(values, |v| !v.is_finite(), |index, value| MetricError::NotFinite { what, index, value })
}

pub(crate) fn not_nan(what: &'static str, values: &[f64]) -> Result<()> {
    refuse(values, f64::is_nan, |index, value| MetricError::NotFinite { what, index, value })
}

pub(crate) fn positive(what: &'static str, values: &[f64]) -> Result<()> {
    finite(what, values)?;
    refuse(values, |v| v <= 0.0, |index, value| MetricError::NotPositive { what, index, value })
}

pub(crate) fn level(value: f64) -> Result<()> {
    if value > 0.0 && value < 1.0 { Ok(()) } else { Err(MetricError::Level { value }) }
}

/// Every entry is in [0, 1].
pub(crate) fn shares(what: &'static str, values: &[f64]) -> Result<()> {
    refuse(values, |v| !(0.0..=1.0).contains(&v), |index, value| MetricError::Share { what, index, value })
}

/// Two slices of equal, non-zero length with finite entries.
pub(crate) fn pair(a: (&'static str, &[f64]), b: (&'static str, &[f64])) -> Result<()> {
    non_empty(a.0, a.1)?;
    length(b.0, b.1, a.1.len())?;
    finite(a.0, a.1)?;
    finite(b.0, b.1)
}

/// How far a row may be from summing to one: room for softmax outputs stored in half precision.
const SUM_TOLERANCE: f64 = 2e-3;

/// How far above one a single probability may round.
const TOP_TOLERANCE: f64 = 1e-3;

/// Every row of a `[rows, classes]` table is a distribution over the classes.
pub(crate) fn distributions(probs: &[f64], classes: usize) -> Result<()> {
    finite("probs", probs)?;
    for (row, p) in probs.chunks_exact(classes).enumerate() {
        refuse(
            p,
            |v| !(0.0..=1.0 + TOP_TOLERANCE).contains(&v),
            |class, value| MetricError::Probability { row, class, value },
        )?;
        let sum: f64 = p.iter().sum();
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(MetricError::ProbabilitySum { row, sum });
        }
    }
    Ok(())
}

fn refuse(values: &[f64], bad: impl Fn(f64) -> bool, error: impl Fn(usize, f64) -> MetricError) -> Result<()> {
    match values.iter().position(|&v| bad(v)) {
        Some(index) => Err(error(index, values[index])),
        None => Ok(()),
    }
}
