//! Triton's extension for repositories: what is listed, loaded and unloaded.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::BadRequest;
use super::scalars::scalars;

/// `POST v2/repository/index`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexRequest {
    /// Whether models that cannot be asked are left out.
    #[serde(default)]
    pub ready: bool,
}

impl IndexRequest {
    /// Reads a body; nothing asks for all models.
    ///
    /// # Errors
    /// When it is something else.
    pub fn read(body: &[u8]) -> Result<Self, BadRequest> {
        if body.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(body).map_err(|error| BadRequest::new(error.to_string()))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlRequest {
    #[serde(default, deserialize_with = "scalars")]
    parameters: Map<String, Value>,
}

/// Looks at the body of a request to load or unload. A model comes from its own folder alone, and none depends on another.
///
/// # Errors
/// When it asks for more.
pub fn check_control(body: &[u8]) -> Result<(), BadRequest> {
    if body.is_empty() {
        return Ok(());
    }
    let read: ControlRequest = serde_json::from_slice(body).map_err(|error| BadRequest::new(error.to_string()))?;
    let known = |(name, value): &(&String, &Value)| *name == "unload_dependents" && value.is_boolean();
    match read.parameters.iter().find(|parameter| !known(parameter)) {
        Some((name, _)) => {
            Err(BadRequest::new(format!("parameter `{name}` is not known: a model is loaded from its own folder")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_strictly() {
        assert!(!IndexRequest::read(b"").unwrap().ready && IndexRequest::read(br#"{"ready": true}"#).unwrap().ready);
        for bad in ["{\"redy\": true}", "1", "{\"ready\": 1}"] {
            assert!(IndexRequest::read(bad.as_bytes()).is_err(), "{bad}");
        }
        for good in ["", "{}", r#"{"parameters": {}}"#, r#"{"parameters": {"unload_dependents": false}}"#] {
            assert!(check_control(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [r#"{"parameters": {"config": "{}"}}"#, r#"{"parameters": {"file:1/model": "…"}}"#, "1"] {
            assert!(check_control(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
