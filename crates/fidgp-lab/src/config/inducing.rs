//! Which layers are made Bayesian and how: settings for all of them, and rules that change some of it for some.

use fidgp::layer::{LayerKind, SlotConfig};
use fidgp::weight::InducingConfig;
use fidgp_zoo::{LayerPlan, RuleSlot};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::read::explain;
use crate::error::{LabError, Result};

/// The `[inducing]` section: the settings of [`InducingConfig`], `layers` (patterns, default all) and `[[inducing.rules]]`,
/// each with its own `layers` and the settings that differ there; or a config of bayesianize in place of all that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Table", into = "Table")]
pub enum InducingPlan {
    /// Settings and rules.
    Settings(Box<Settings>),
    /// A config of bayesianize, as it was read, and its plan.
    Bayesianize(String, LayerPlan),
}

/// Settings for all layers, and rules for some.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    layers: Vec<String>,
    base: InducingConfig,
    rules: Vec<Rule>,
}

/// Settings that differ for some layers.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    layers: Vec<String>,
    changes: Table,
    config: InducingConfig,
}

impl InducingPlan {
    /// Whether the settings of every rule are possible.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |error: fidgp::Error| LabError::config("inducing", format!("does not fit: {error}"));
        self.layer_plan().rules().iter().try_for_each(|rule| match &rule.slot {
            RuleSlot::Inducing(config) => config.check(&rule.layers).map_err(wrong),
            RuleSlot::Size(_) | RuleSlot::Dense | RuleSlot::Custom(_) => Ok(()),
        })
    }

    /// The same settings for these layers alone, each with its own R = C.
    ///
    /// # Errors
    /// When a layer has no inducing weight under these settings.
    pub(crate) fn sized(&self, sizes: &[(String, i64, LayerKind)]) -> Result<Self> {
        let plan = self.layer_plan();
        let settings = |name: &str, kind| match plan.slot_for(name, kind) {
            SlotConfig::Inducing(config) => Ok(*config),
            _ => Err(LabError::config("inducing", format!("leaves `{name}` plain"))),
        };
        let Some((first, _, kind)) = sizes.first() else {
            return Err(LabError::config(
                "inducing",
                "leaves every layer plain: nothing is smaller with inducing weights",
            ));
        };
        let base = settings(first, *kind)?;
        let rule = |(name, size, kind): &(String, i64, LayerKind)| {
            let own = settings(name, *kind)?;
            let sized = InducingConfig { inducing_rows: (*size).into(), inducing_cols: (*size).into(), ..own };
            let mut changes =
                Table::try_from(&sized).map_err(|error| LabError::config("inducing", error.to_string()))?;
            let usual = Table::try_from(&base).map_err(|error| LabError::config("inducing", error.to_string()))?;
            changes.retain(|key, value| usual.get(key) != Some(value));
            Ok(Rule { layers: vec![name.clone()], changes, config: sized })
        };
        let rules = sizes.iter().map(rule).collect::<Result<_>>()?;
        Ok(Self::Settings(Box::new(Settings {
            layers: sizes.iter().map(|(name, ..)| name.clone()).collect(),
            base,
            rules,
        })))
    }

    /// The plan for a network: later rules win.
    pub(super) fn layer_plan(&self) -> LayerPlan {
        let settings = match self {
            Self::Settings(settings) => settings,
            Self::Bayesianize(_, plan) => return plan.clone(),
        };
        let mut plan = LayerPlan::dense();
        let rules = settings.rules.iter().map(|rule| (&rule.layers, &rule.config));
        for (layers, config) in std::iter::once((&settings.layers, &settings.base)).chain(rules) {
            for pattern in layers {
                plan = plan.inducing(pattern, config.clone());
            }
        }
        plan
    }
}

/// The plan of a bayesianize config, which has everything in itself.
fn bayesianize(json: Value, others: &Table) -> Result<InducingPlan> {
    let wrong = |why: String| LabError::config("inducing.bayesianize", why);
    if let Some(other) = others.keys().next() {
        return Err(wrong(format!("stands alone, but `inducing.{other}` is set too; say it in that file")));
    }
    let Value::String(json) = json else { return Err(wrong("must name a JSON file".to_owned())) };
    let plan = LayerPlan::from_bayesianize(&json).map_err(|error| wrong(format!("is wrong: {error}")))?;
    Ok(InducingPlan::Bayesianize(json, plan))
}

/// Every layer, in a word.
const ALL: &str = "all";

/// Takes the patterns out of a section.
fn take_layers(table: &mut Table, section: &str) -> Result<Option<Vec<String>>> {
    let Some(value) = table.remove("layers") else { return Ok(None) };
    let wrong = || {
        LabError::config(
            format!("{section}.layers"),
            "must be \"all\", or a list of layer names or patterns, such as [\"layer4.*\"] or [\"*\"]",
        )
    };
    if value.as_str() == Some(ALL) {
        return Ok(Some(vec!["*".to_owned()]));
    }
    let patterns: Vec<String> = value.try_into().map_err(|_| wrong())?;
    if patterns.is_empty() { Err(wrong()) } else { Ok(Some(patterns)) }
}

fn config_of(table: Table, section: &str) -> Result<InducingConfig> {
    Value::Table(table).try_into().map_err(|error: toml::de::Error| explain(&error, section))
}

impl TryFrom<Table> for InducingPlan {
    type Error = LabError;

    fn try_from(mut table: Table) -> Result<Self> {
        if let Some(json) = table.remove("bayesianize") {
            return bayesianize(json, &table);
        }
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
        Ok(Self::Settings(Box::new(Settings { layers, base: config_of(table, "inducing")?, rules })))
    }
}

impl From<InducingPlan> for Table {
    fn from(plan: InducingPlan) -> Self {
        let plan = match plan {
            InducingPlan::Settings(plan) => *plan,
            InducingPlan::Bayesianize(json, _) => {
                return Self::from_iter([("bayesianize".to_owned(), Value::String(json))]);
            }
        };
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
