//! Ritter, Kukla, Zhang, Li: Sparse Uncertainty Representation in Deep Learning with Inducing Weights (2021).
//! The JSON configs of its code, bayesianize, read unchanged into a [`LayerPlan`].
//!
//! A config is an object of settings for all layers; its `inference` is either the name of a method for all layers, or an
//! object from layer classes (`Conv2d`, `Linear`) or layer names to a method or to settings of their own, which go before
//! the common ones. A layer's name goes before its class. `key_layers` restricts everything to the layers it lists.

use fidgp::distribution::BoundMap;
use fidgp::linalg::Jitter;
use fidgp::posterior::PosteriorConfig;
use fidgp::weight::{InducingConfig, InducingSize};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::nearest::nearest;
use crate::{Error, LayerKind, LayerPlan, Result, Rule, RuleSlot};

/// Every key a config may have, `inference` and `key_layers` apart.
const KEYS: [&str; 13] = [
    "inducing_rows",
    "inducing_cols",
    "whitened_u",
    "q_inducing",
    "ensemble_size",
    "learn_lamda",
    "init_lamda",
    "max_lamda",
    "max_sd_u",
    "cache_cholesky",
    "prior_sd",
    "sqrt_width_scaling",
    "inference",
];

/// Settings as bayesianize names them; what is left out has bayesianize's default.
#[derive(Deserialize)]
#[serde(default)]
struct Settings {
    inducing_rows: Option<i64>,
    inducing_cols: Option<i64>,
    whitened_u: bool,
    q_inducing: String,
    ensemble_size: i64,
    learn_lamda: bool,
    init_lamda: f64,
    max_lamda: Option<f64>,
    max_sd_u: Option<f64>,
    prior_sd: f64,
    sqrt_width_scaling: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            inducing_rows: None,
            inducing_cols: None,
            whitened_u: true,
            q_inducing: "diagonal".to_owned(),
            ensemble_size: 8,
            learn_lamda: true,
            init_lamda: 1e-4,
            max_lamda: None,
            max_sd_u: None,
            prior_sd: 1.0,
            sqrt_width_scaling: false,
        }
    }
}

impl LayerPlan {
    /// The plan of a bayesianize config.
    ///
    /// # Errors
    /// When it is not JSON, or has a key or value that is not known (with the nearest that is).
    pub fn from_bayesianize(json: &str) -> Result<Self> {
        let invalid = |error: serde_json::Error| Error::setting("bayesianize config", error, "is not a JSON object");
        let mut common: Map<String, Value> = serde_json::from_str(json).map_err(invalid)?;
        let inference = common.remove("inference").ok_or_else(|| {
            Error::setting(
                "inference",
                "missing",
                "say \"inducing\", or an object from layer classes or names to settings",
            )
        })?;
        let key_layers = common.remove("key_layers");
        let mut rules = match inference {
            Value::Object(layers) => by_layer(&layers, &common)?,
            method => vec![Rule { layers: "*".to_owned(), kind: None, slot: slot(&method, &common)? }],
        };
        if let Some(names) = key_layers {
            rules = restrict(&rules, &layer_names(&names)?);
        }
        Ok(Self::of(rules))
    }
}

/// Classes first, so that names override them.
fn by_layer(layers: &Map<String, Value>, common: &Map<String, Value>) -> Result<Vec<Rule>> {
    let (classes, names): (Vec<_>, Vec<_>) = layers.iter().partition(|(name, _)| class(name).is_some());
    let rule = |(name, value): (&String, &Value)| -> Result<Rule> {
        let layers = if class(name).is_some() { "*".to_owned() } else { name.clone() };
        Ok(Rule { layers, kind: class(name), slot: slot(value, common)? })
    };
    classes.into_iter().chain(names).map(rule).collect()
}

fn class(name: &str) -> Option<LayerKind> {
    match name {
        "Conv2d" => Some(LayerKind::Conv),
        "Linear" => Some(LayerKind::Linear),
        _ => None,
    }
}

/// What becomes of a layer: `"inducing"`, or an object with its own settings.
fn slot(value: &Value, common: &Map<String, Value>) -> Result<RuleSlot> {
    let mut settings = common.clone();
    match value {
        Value::Object(own) => settings.extend(own.clone()),
        method => _ = settings.insert("inference".to_owned(), method.clone()),
    }
    match settings.get("inference").and_then(Value::as_str).map(str::to_lowercase).as_deref() {
        Some("inducing") => Ok(RuleSlot::Inducing(Box::new(inducing(settings)?))),
        Some("deterministic" | "none") => Ok(RuleSlot::Dense),
        other => {
            let advice =
                "must be \"inducing\"; \"ffg\" for all layers goes with method = \"mean-field\", \"fcg\" is not there";
            Err(Error::setting("inference", other.unwrap_or("missing"), advice))
        }
    }
}

fn inducing(settings: Map<String, Value>) -> Result<InducingConfig> {
    check_keys(&settings)?;
    let wrong = |error: serde_json::Error| Error::setting("bayesianize config", error, "has a value of the wrong type");
    let s: Settings = serde_json::from_value(Value::Object(settings)).map_err(wrong)?;
    let size = |size: Option<i64>| size.map_or(InducingSize::Root, InducingSize::Count);
    Ok(InducingConfig {
        inducing_rows: size(s.inducing_rows),
        inducing_cols: size(s.inducing_cols),
        cap_inducing: false,
        posterior: posterior(&s)?,
        whitened_u: s.whitened_u,
        init_sd_u: 1e-3,
        max_sd_u: s.max_sd_u,
        init_lamda: s.init_lamda,
        max_lamda: s.max_lamda,
        learn_lamda: s.learn_lamda,
        bound: BoundMap::Clamp,
        prior_sd: s.prior_sd,
        sqrt_width_scaling: s.sqrt_width_scaling,
        jitter: Jitter::BAYESIANIZE.relative,
        ..InducingConfig::default()
    })
}

fn posterior(settings: &Settings) -> Result<PosteriorConfig> {
    Ok(match settings.q_inducing.as_str() {
        "diagonal" => PosteriorConfig::Diagonal,
        "matrix" => PosteriorConfig::MatrixNormal,
        "full" => PosteriorConfig::Full,
        "ensemble" => PosteriorConfig::Ensemble { members: settings.ensemble_size },
        other => return Err(Error::setting("q_inducing", other, "must be diagonal, matrix, full or ensemble")),
    })
}

fn check_keys(settings: &Map<String, Value>) -> Result<()> {
    let Some(key) = settings.keys().find(|key| !KEYS.contains(&key.as_str())) else { return Ok(()) };
    let near = nearest(key, KEYS).map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    Err(Error::setting(key.clone(), &settings[key], format!("is not a setting of bayesianize{near}")))
}

fn layer_names(value: &Value) -> Result<Vec<String>> {
    serde_json::from_value(value.clone())
        .map_err(|_| Error::setting("key_layers", value, "must be a list of layer names"))
}

/// The rules again for each of the named layers alone.
fn restrict(rules: &[Rule], names: &[String]) -> Vec<Rule> {
    let covers = |rule: &Rule, name: &str| rule.layers == "*" || rule.layers == name;
    let only = |name: &String| {
        rules
            .iter()
            .filter(|rule| covers(rule, name))
            .map(|rule| Rule { layers: name.clone(), ..rule.clone() })
            .collect::<Vec<_>>()
    };
    names.iter().flat_map(only).collect()
}
