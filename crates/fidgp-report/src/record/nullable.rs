//! Numbers that may not be finite: `null` in JSON, NaN in memory.

use serde::{Deserialize, Deserializer};

/// For `#[serde(deserialize_with)]` on an `f64`; writing needs no help, serde_json writes NaN as `null`.
pub fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// The same for a `Vec<f64>`.
pub fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let values = Vec::<Option<f64>>::deserialize(deserializer)?;
    Ok(values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect())
}
