//! What a compressed network may cost.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use crate::config::RunConfig;
use crate::error::{LabError, Result};

/// A bound on a compressed network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// A share of the plain network's parameters.
    Parameters(f64),
    /// Bytes in f32.
    Bytes(i64),
    /// Points of accuracy, in per cent, that validation images may lose.
    AccuracyLoss(f64),
}

const FORMS: &str = "write parameters=0.5 (a share of the plain network's), size=6MB (in f32; kB, MB or GB), or accuracy-loss=0.5 \
                     (points on validation images)";

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("\"{text}\" is no budget: {FORMS}");
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        match name {
            "parameters" => number(value).filter(|share| *share <= 1.0).map(Self::Parameters),
            "accuracy-loss" => number(value).filter(|points| *points < 100.0).map(Self::AccuracyLoss),
            "size" => bytes(value).map(Self::Bytes),
            _ => None,
        }
        .ok_or_else(wrong)
    }
}

fn bytes(text: &str) -> Option<i64> {
    let units = [("kB", 1e3), ("MB", 1e6), ("GB", 1e9)];
    let (number, unit) = units.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)))?;
    let bytes = number.trim().parse::<f64>().ok()? * unit;
    (1.0..1e15).contains(&bytes).then_some(bytes as i64)
}

impl Display for Budget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameters(share) => write!(f, "parameters={share}"),
            Self::Bytes(bytes) => write!(f, "size={}MB", *bytes as f64 / 1e6),
            Self::AccuracyLoss(points) => write!(f, "accuracy-loss={points}"),
        }
    }
}

impl Budget {
    /// Whether a config's data can tell.
    ///
    /// # Errors
    /// When accuracy is to be measured and no validation images are held out.
    pub(super) fn check(&self, config: &RunConfig) -> Result<()> {
        let held_out = config.data.validation_fraction().is_some_and(|fraction| fraction > 0.0);
        if matches!(self, Self::AccuracyLoss(_)) && !held_out {
            let why =
                "is missing: accuracy-loss is measured on validation images; add --set data.validation_fraction=0.1";
            return Err(LabError::config("data.validation_fraction", why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_read_as_it_is_written() {
        assert_eq!("parameters=0.5".parse(), Ok(Budget::Parameters(0.5)));
        assert_eq!("size=6MB".parse(), Ok(Budget::Bytes(6_000_000)));
        assert_eq!("size=1.5 kB".parse(), Ok(Budget::Bytes(1500)));
        assert_eq!("accuracy-loss=0.5".parse(), Ok(Budget::AccuracyLoss(0.5)));
        for wrong in
            ["0.5", "parameters=2", "parameters=-1", "parameters=nan", "size=6", "size=MB", "speed=2", "size=0kB"]
        {
            assert!(wrong.parse::<Budget>().unwrap_err().contains("accuracy-loss=0.5"), "{wrong}");
        }
    }
}
