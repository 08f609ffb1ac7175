//! What a line of a log says.

use std::fmt::Display;

use serde_json::Value;

use crate::calibration::{Calibration, ERROR};
use crate::error::{DecisionError, Result};

/// Levels that differ by less are the same.
const SAME_LEVEL: f64 = 1e-9;

/// What a line says of a series.
pub(super) fn value(calibration: &Calibration, said: &Value, truth: Option<Truth>, name: &str) -> Option<f64> {
    match name {
        "confidence" => confidence(said).map(|p| 1.0 - p),
        "class" => class(calibration, &said["class"]).map(|class| class as f64),
        "total" => said["total"].as_f64().or_else(|| said["sd"].as_f64()),
        "epistemic" => said["epistemic"].as_f64(),
        "mean" => said["mean"].as_f64(),
        ERROR => truth.and_then(|truth| truth.error(calibration, said)),
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
pub(super) fn confidence(said: &Value) -> Option<f64> {
    let all = said["probabilities"].as_array().into_iter().flatten().filter_map(Value::as_f64);
    said["probability"].as_f64().or_else(|| all.reduce(f64::max))
}

/// The number of a class that is given by name, or by number.
pub(super) fn class(calibration: &Calibration, said: &Value) -> Option<usize> {
    let text = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
    let named = calibration.classes.iter().position(|name| *name == text);
    named.or_else(|| said.as_u64().map(|index| index as usize).filter(|index| *index < calibration.classes.len()))
}

/// The number of a label's class.
fn known(calibration: &Calibration, label: &Value, place: &dyn Display) -> Result<usize> {
    let unknown =
        || DecisionError::asked(place.to_string(), format!("has the label {label}, which is no class of the model"));
    class(calibration, label).ok_or_else(unknown)
}

/// What turned out to be true.
#[derive(Clone, Copy)]
pub(super) enum Truth {
    Class(usize),
    Number(f64),
}

impl Truth {
    /// What a label says.
    pub fn of(calibration: &Calibration, label: &Value, place: &dyn Display) -> Result<Self> {
        if !calibration.classes.is_empty() {
            return Ok(Self::Class(known(calibration, label, place)?));
        }
        let none = || DecisionError::asked(place.to_string(), format!("has the label {label}, which is no number"));
        Ok(Self::Number(number_of(label).ok_or_else(none)?))
    }

    /// How far off a line was; 1 for another class, 0 for this one.
    pub fn error(self, calibration: &Calibration, said: &Value) -> Option<f64> {
        match self {
            Self::Class(label) => class(calibration, &said["class"]).map(|class| f64::from(u8::from(class != label))),
            Self::Number(y) => said["mean"].as_f64().map(|mean| (mean - y).abs()),
        }
    }
}

/// A number, also where it was written as a text.
fn number_of(label: &Value) -> Option<f64> {
    label.as_f64().or_else(|| label.as_str()?.trim().parse().ok()).filter(|number: &f64| number.is_finite())
}

/// Whether the set or interval of a level holds the truth; nothing where a line has none of this level.
pub(super) fn covered(calibration: &Calibration, said: &Value, level: f64, truth: Truth) -> Option<bool> {
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
