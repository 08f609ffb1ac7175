//! The mean-field configs of bayesianize (`"inference": "ffg"`), read unchanged.

use serde::Deserialize;
use serde_json::Value;

use super::MeanFieldConfig;
use crate::methods::Settings as _;
use crate::{Error, Result};

/// The bound of a config that has none. Far below it the deviation grows with its raw number as it does without a bound.
const NO_BOUND: f64 = 100.0;

/// Settings of `FFGMixin`, with its defaults.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    #[serde(rename = "inference")]
    _inference: String,
    key_layers: Vec<String>,
    init_sd: f64,
    max_sd: Option<f64>,
    prior_mean: f64,
    prior_weight_sd: f64,
    prior_bias_sd: f64,
    nonlinearity_scale: f64,
    local_reparameterization: bool,
    sqrt_width_scaling: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            _inference: String::new(),
            key_layers: vec!["*".to_owned()],
            init_sd: 1e-4,
            max_sd: None,
            prior_mean: 0.0,
            prior_weight_sd: 1.0,
            prior_bias_sd: 1.0,
            nonlinearity_scale: 1.0,
            local_reparameterization: true,
            sqrt_width_scaling: false,
        }
    }
}

/// The settings of a config that has `"inference": "ffg"` for all its layers; nothing where it has another.
///
/// # Errors
/// When a key or value is not known, or the prior is one that [`MeanFieldConfig`] does not have.
pub fn mean_field_from_bayesianize(json: &str) -> Result<Option<MeanFieldConfig>> {
    let invalid = |error: serde_json::Error| Error::setting("bayesianize config", error, "is not a config of FFG");
    let value: Value = serde_json::from_str(json).map_err(invalid)?;
    if !value["inference"].as_str().is_some_and(|name| name.eq_ignore_ascii_case("ffg")) {
        return Ok(None);
    }
    let settings: Settings = serde_json::from_value(value).map_err(invalid)?;
    let is = |value: f64, wanted: f64| (value - wanted).abs() < f64::EPSILON;
    let centred = is(settings.prior_mean, 0.0) && is(settings.nonlinearity_scale, 1.0);
    if !centred || !is(settings.prior_bias_sd, settings.prior_weight_sd) || !settings.local_reparameterization {
        let advice =
            "only one deviation for weights and biases, mean 0, scale 1 and local reparameterization are there";
        return Err(Error::setting(
            "prior_mean, prior_bias_sd, nonlinearity_scale, local_reparameterization",
            "other than usual",
            advice,
        ));
    }
    let config = MeanFieldConfig {
        layers: settings.key_layers,
        init_sd: settings.init_sd,
        max_sd: settings.max_sd.unwrap_or(NO_BOUND),
        prior_sd: settings.prior_weight_sd,
        sqrt_width_scaling: settings.sqrt_width_scaling,
    };
    config.check()?;
    Ok(Some(config))
}
