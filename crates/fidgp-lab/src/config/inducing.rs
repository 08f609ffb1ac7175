//! Which layers are made Bayesian and how: settings for all of them, and rules that change some of it for some.

use fidgp::posterior::PosteriorConfig;
use fidgp::weight::InducingConfig;
use fidgp_zoo::LayerPlan;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::read::explain;
use crate::error::{LabError, Result};

/// The `[inducing]` section: the settings of [`InducingConfig`], `layers` (patterns, default all) and `[[inducing.rules]]`,
/// each with its own `layers` and the settings that differ there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Table", into = "Table")]
pub struct InducingPlan {
    layers: Vec<String>,
    base: InducingConfig,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    layers: Vec<String>,
    changes: Table,
    config: InducingConfig,
}

impl InducingPlan {
    /// Whether every layer has the diagonal posterior of FFG-U.
    pub(super) fn is_ffgu(&self) -> bool {
        self.configs().all(|config| config.posterior == PosteriorConfig::Diagonal)
    }

    fn configs(&self) -> impl Iterator<Item = &InducingConfig> {
        std::iter::once(&self.base).chain(self.rules.iter().map(|rule| &rule.config))
    }

    /// The plan for a network: later rules win.
    pub(super) fn layer_plan(&self) -> LayerPlan {
        let mut plan = LayerPlan::dense();
        let rules = self.rules.iter().map(|rule| (&rule.layers, &rule.config));
        for (layers, config) in std::iter::once((&self.layers, &self.base)).chain(rules) {
            for pattern in layers {
                plan = plan.inducing(pattern, config.clone());
            }
        }
        plan
    }
}

/// Takes the patterns out of a section.
fn take_layers(table: &mut Table, section: &str) -> Result<Option<Vec<String>>> {
    let Some(value) = table.remove("layers") else { return Ok(None) };
    let wrong = || {
        LabError::config(
            format!("{section}.layers"),
            "must be a list of layer names or patterns, such as [\"layer4.*\"] or [\"*\"]",
        )
    };
    let patterns: Vec<String> = value.try_into().map_err(|_| wrong())?;
    if patterns.is_empty() { Err(wrong()) } else { Ok(Some(patterns)) }
}

fn config_of(table: Table, section: &str) -> Result<InducingConfig> {
    Value::Table(table).try_into().map_err(|error: toml::de::Error| explain(&error, section))
}

impl TryFrom<Table> for InducingPlan {
    type Error = LabError;

    fn try_from(mut table: Table) -> Result<Self> {
        let layers = take_layers(&mut table, "inducing")?.unwrap_or_else(|| vec!["*".to_owned()]);
        let rules = match table.remove("rules") {
            None => Vec::new(),
            Some(Value::Array(rules)) => rules,
            Some(_) => return Err(LabError::config("inducing.rules", "must be written as [[inducing.rules]]")),
        };
        let parse_rule = |rule: Value| {
            let Value::Table(mut changes) = rule else {
                return Err(LabError::config("inducing.rules", "each must be a table"));
            };
            let layers = take_layers(&mut changes, "inducing.rules")?
                .ok_or_else(|| LabError::config("inducing.rules", "each needs `layers`"))?;
            let merged = table.clone().into_iter().chain(changes.clone()).collect();
            Ok(Rule { layers, changes, config: config_of(merged, "inducing.rules")? })
        };
        let rules = rules.into_iter().map(parse_rule).collect::<Result<_>>()?;
        Ok(Self { layers, base: config_of(table, "inducing")?, rules })
    }
}

impl From<InducingPlan> for Table {
    fn from(plan: InducingPlan) -> Self {
        let patterns = |layers: Vec<String>| Value::Array(layers.into_iter().map(Value::String).collect());
        let mut table = Self::try_from(plan.base).expect("every setting has a TOML form");
        table.insert("layers".to_owned(), patterns(plan.layers));
        let rules = plan.rules.into_iter().map(|mut rule| {
            rule.changes.insert("layers".to_owned(), patterns(rule.layers));
            Value::Table(rule.changes)
        });
        let rules: Vec<_> = rules.collect();
        if !rules.is_empty() {
            table.insert("rules".to_owned(), Value::Array(rules));
        }
        table
    }
}
