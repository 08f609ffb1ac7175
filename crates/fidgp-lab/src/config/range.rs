//! Numbers of a config that no network has and no f32 holds: refused before anything is counted, computed or built.

use fidgp_files::limits::{CLASSES, COLUMNS, LAYERS, Limit, PIXELS, ROWS, SIZE};
use toml::{Table, Value};

use super::RunConfig;
use crate::error::{LabError, Result};

/// The largest deviation: f32 still holds its square.
const LARGEST_DEVIATION: f64 = 1e18;

impl RunConfig {
    /// Checks every whole number against its limit, and with [`finite`](Finite) every other one too.
    pub(super) fn check_range(&self, finite: Finite) -> Result<()> {
        let table = Table::try_from(self).map_err(|error| LabError::config("config", error.to_string()))?;
        table.iter().filter(|(key, _)| *key != "seed").try_for_each(|(key, value)| check(key, value, finite))
    }
}

/// Whether numbers that are not whole are looked at; what they mean is checked before, and says more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Finite {
    Unseen,
    Checked,
}

fn check(key: &str, value: &Value, finite: Finite) -> Result<()> {
    match value {
        Value::Integer(number) => within(key, *number),
        Value::Float(number) if finite == Finite::Checked && (number.is_nan() || number.abs() > largest(key)) => {
            let why = format!("= {number:e} is no number to compute with in f32: at most {:e}", largest(key));
            Err(LabError::config(key, why))
        }
        Value::Array(entries) => {
            if key.starts_with("network.") {
                LAYERS.check(entries.len() as u64).map_err(|exceeded| beyond(key, &exceeded.to_string()))?;
            }
            check_area(key, entries)?;
            entries.iter().try_for_each(|entry| check(key, entry, finite))
        }
        Value::Table(inner) => {
            inner.iter().try_for_each(|(name, value)| check(&format!("{key}.{name}"), value, finite))
        }
        _ => Ok(()),
    }
}

/// The largest number of a key.
fn largest(key: &str) -> f64 {
    let name = key.rsplit('.').next().unwrap_or_default();
    if name.split('_').any(|word| word == "sd") { LARGEST_DEVIATION } else { f32::MAX.into() }
}

fn within(key: &str, number: i64) -> Result<()> {
    let Some(limit) = limit_of(key) else { return Ok(()) };
    let wanted = u64::try_from(number).unwrap_or(0); // what must be positive says so itself
    limit.check(wanted).map_err(|exceeded| beyond(key, &exceeded.to_string()))?;
    if key == "data.crop" { area(key, &[wanted, wanted]) } else { Ok(()) }
}

/// The sides of a picture, or of a part of one.
fn check_area(key: &str, entries: &[Value]) -> Result<()> {
    if !matches!(key, "data.crop" | "data.image" | "predict.window") {
        return Ok(());
    }
    let sides: Vec<_> = entries.iter().filter_map(|side| u64::try_from(side.as_integer()?).ok()).collect();
    area(key, &sides)
}

fn area(key: &str, sides: &[u64]) -> Result<()> {
    PIXELS.check_product(sides).map(drop).map_err(|exceeded| beyond(key, &exceeded.to_string()))
}

fn limit_of(key: &str) -> Option<&'static Limit> {
    let (section, name) = key.split_once('.')?;
    Some(match (section, name) {
        ("network", "depth") => &LAYERS,
        ("data", "classes") => &CLASSES,
        ("data", "inputs") => &COLUMNS,
        ("data", "train" | "validation" | "test" | "limit")
        | ("train" | "predict", "batch_size")
        | ("predict", "statistics_images") => &ROWS,
        ("network" | "inducing" | "baseline", _)
        | ("data", "resize" | "crop" | "image")
        | ("predict", "draws" | "validation_draws" | "window") => &SIZE,
        _ => return None,
    })
}

fn beyond(key: &str, why: &str) -> LabError {
    LabError::config(key, format!("is too large: {why}"))
}
