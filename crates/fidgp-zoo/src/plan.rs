//! Which layers are Bayesian, and how: decided before a network is built.

use std::sync::Arc;

use fidgp::layer::{LayerGeometry, LayerKind, MakeWeight, SlotConfig};
use fidgp::weight::InducingConfig;
use serde::{Deserialize, Serialize};

use crate::nearest::nearest;
use crate::{Error, Result};

/// The four layers of the paper's ResNet-18.
pub const PAPER_FOUR: [&str; 4] = ["layer2.1.conv1", "layer2.1.conv2", "layer4.1.conv1", "layer4.1.conv2"];

/// In a rule: the first layer of the network.
pub const FIRST: &str = "<first>";
/// In a rule: the last layer of the network.
pub const HEAD: &str = "<head>";

/// What a rule does to the layers it matches.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleSlot {
    /// Plain weights.
    Dense,
    /// Bayesian weights with these settings.
    Inducing(Box<InducingConfig>),
    /// The weight of another method. A plan that has such cannot be written down.
    #[serde(skip)]
    Custom(Arc<dyn MakeWeight>),
    /// Other inducing sizes `[rows, cols]` where an earlier rule made the layer Bayesian.
    Size([i64; 2]),
}

impl PartialEq for RuleSlot {
    /// Weights of other methods are equal where their settings print the same.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dense, Self::Dense) => true,
            (Self::Inducing(own), Self::Inducing(other)) => own == other,
            (Self::Size(own), Self::Size(other)) => own == other,
            (Self::Custom(own), Self::Custom(other)) => format!("{own:?}") == format!("{other:?}"),
            _ => false,
        }
    }
}

/// One line of a plan: `{ layers = "layer4.*", kind = "conv", slot = { size = [64, 64] } }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A layer's path with `*` for any run of characters: `layer2.1.conv1`, `layer4.*`, `*`.
    pub layers: String,
    /// Only layers of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<LayerKind>,
    /// What becomes of them.
    pub slot: RuleSlot,
}

/// Rules in order; a later rule overrides an earlier one, and layers without a rule have plain weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerPlan {
    rules: Vec<Rule>,
}

impl LayerPlan {
    /// Plain weights everywhere.
    pub fn dense() -> Self {
        Self::default()
    }

    /// Every layer Bayesian with the same settings.
    pub fn all(config: InducingConfig) -> Self {
        Self::dense().inducing("*", config)
    }

    /// The named layers (or patterns) Bayesian, all others plain.
    pub fn only(layers: &[&str], config: &InducingConfig) -> Self {
        layers.iter().fold(Self::dense(), |plan, layers| plan.inducing(layers, config.clone()))
    }

    /// A plan of these rules.
    pub fn of(rules: Vec<Rule>) -> Self {
        Self { rules }
    }

    /// The rules, first to last.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Makes the matching layers Bayesian.
    #[must_use]
    pub fn inducing(self, layers: &str, config: InducingConfig) -> Self {
        self.rule(layers, None, RuleSlot::Inducing(Box::new(config)))
    }

    /// Gives the matching layers the weight of another method.
    #[must_use]
    pub fn custom(self, layers: &str, weight: impl MakeWeight + 'static) -> Self {
        self.rule(layers, None, RuleSlot::Custom(Arc::new(weight)))
    }

    /// Makes the matching layers plain.
    #[must_use]
    pub fn dense_layers(self, layers: &str) -> Self {
        self.rule(layers, None, RuleSlot::Dense)
    }

    /// Changes the inducing sizes of the matching layers.
    #[must_use]
    pub fn size(self, layers: &str, rows: i64, cols: i64) -> Self {
        self.rule(layers, None, RuleSlot::Size([rows, cols]))
    }

    /// Changes the inducing sizes of all layers of a kind.
    #[must_use]
    pub fn kind_size(self, kind: LayerKind, rows: i64, cols: i64) -> Self {
        self.rule("*", Some(kind), RuleSlot::Size([rows, cols]))
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, layers: &str, kind: Option<LayerKind>, slot: RuleSlot) -> Self {
        self.rules.push(Rule { layers: layers.to_owned(), kind, slot });
        self
    }

    /// How the layer's weight is held.
    pub fn slot_for(&self, path: &str, kind: LayerKind) -> SlotConfig {
        let matching = self.rules.iter().filter(|rule| rule.matches(path, kind));
        matching.fold(SlotConfig::Dense, |slot, rule| rule.apply(slot))
    }

    /// The plan for a traced network: its first and last layer by their names.
    ///
    /// # Errors
    /// [`Error::NoSuchLayer`] when it names a layer that the network does not have.
    pub fn of_network(&self, network: &[LayerGeometry]) -> Result<Self> {
        let layers: Vec<_> = network.iter().filter_map(|layer| Some((layer.name.as_str(), layer.kind()?))).collect();
        let head = network.iter().find(|layer| layer.is_head).map(|layer| layer.name.as_str());
        let plan = self.for_layers(&layers, head);
        plan.check(&layers)?;
        Ok(plan)
    }

    /// The plan with the names of a network's first and last layer in place of [`FIRST`] and [`HEAD`].
    pub(crate) fn for_layers(&self, layers: &[(&str, LayerKind)], head: Option<&str>) -> Self {
        let first = layers.first().map(|(name, _)| *name);
        let named = |rule: &Rule| {
            let name = match rule.layers.as_str() {
                FIRST => first,
                HEAD => head,
                other => Some(other),
            };
            Rule { layers: name.unwrap_or(&rule.layers).to_owned(), ..rule.clone() }
        };
        Self { rules: self.rules.iter().map(named).collect() }
    }

    /// Refuses a plan that names a layer the network does not have.
    ///
    /// # Errors
    /// [`Error::NoSuchLayer`] with the names there are, and the nearest of them.
    pub(crate) fn check(&self, layers: &[(&str, LayerKind)]) -> Result<()> {
        let idle = |rule: &&Rule| rule.layers != "*" && !layers.iter().any(|(name, kind)| rule.matches(name, *kind));
        let Some(rule) = self.rules.iter().find(idle) else { return Ok(()) };
        Err(Error::NoSuchLayer {
            pattern: rule.layers.clone(),
            nearest: nearest(&rule.layers, layers.iter().map(|(name, _)| *name)),
            layers: layers.iter().map(|(name, _)| (*name).to_owned()).collect(),
        })
    }
}

impl Rule {
    /// Whether the rule speaks of this layer.
    pub fn matches(&self, path: &str, kind: LayerKind) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind) && glob(&self.layers, path)
    }

    fn apply(&self, slot: SlotConfig) -> SlotConfig {
        match (&self.slot, slot) {
            (RuleSlot::Inducing(config), _) => SlotConfig::Inducing(config.clone()),
            (RuleSlot::Custom(weight), _) => SlotConfig::Custom(weight.clone()),
            (RuleSlot::Size([rows, cols]), SlotConfig::Inducing(config)) => {
                SlotConfig::Inducing(Box::new(InducingConfig {
                    inducing_rows: (*rows).into(),
                    inducing_cols: (*cols).into(),
                    ..*config
                }))
            }
            (RuleSlot::Size(_), other) => other,
            (RuleSlot::Dense, _) => SlotConfig::Dense,
        }
    }
}

/// Whether the text is the pattern with every `*` replaced by some run of characters.
pub fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    text.strip_prefix(head).is_some_and(|text| {
        text.char_indices().map(|(i, _)| i).chain([text.len()]).any(|start| glob(rest, &text[start..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(plan: &LayerPlan, path: &str, kind: LayerKind) -> Option<(i64, i64)> {
        match plan.slot_for(path, kind) {
            SlotConfig::Dense | SlotConfig::Custom(_) => None,
            SlotConfig::Inducing(config) => {
                let sizes = config.sizes(1000, 1000);
                Some((sizes.rows, sizes.cols))
            }
        }
    }

    #[test]
    fn globs() {
        for (pattern, text, expected) in [
            ("fc", "fc", true),
            ("fc", "fc1", false),
            ("*", "", true),
            ("layer4.*", "layer4.0.downsample.0", true),
            ("layer4.*", "layer14.0.conv1", false),
            ("*.conv1", "layer1.0.conv1", true),
            ("*.conv1", "conv1", false),
            ("layer*.1.conv*", "layer2.1.conv2", true),
            ("layer*.1.conv*", "layer2.0.conv2", false),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn later_rules_override_earlier_ones_and_sizes_go_by_kind_and_layer() {
        let plan = LayerPlan::all(InducingConfig::default())
            .kind_size(LayerKind::Linear, 100, 128)
            .size("layer4.*", 64, 32)
            .dense_layers("conv1");
        assert_eq!(size(&plan, "layer1.0.conv1", LayerKind::Conv), Some((128, 128)));
        assert_eq!(size(&plan, "layer4.0.conv1", LayerKind::Conv), Some((64, 32)));
        assert_eq!(size(&plan, "fc", LayerKind::Linear), Some((100, 128)));
        assert_eq!(size(&plan, "conv1", LayerKind::Conv), None);
        let four = LayerPlan::only(&PAPER_FOUR, &InducingConfig::default()).size("*", 8, 8);
        assert_eq!(size(&four, "layer2.1.conv1", LayerKind::Conv), Some((8, 8)));
        assert_eq!(size(&four, "layer2.0.conv1", LayerKind::Conv), None);
    }

    #[test]
    fn a_plan_goes_through_json_and_unknown_fields_are_refused() {
        let plan = LayerPlan::only(&["fc1"], &InducingConfig::default())
            .kind_size(LayerKind::Linear, 3, 4)
            .dense_layers("fc2");
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<LayerPlan>(&json).unwrap(), plan);
        let wrong = r#"[{"layers": "*", "slot": "dense", "colour": 1}]"#;
        assert!(serde_json::from_str::<LayerPlan>(wrong).unwrap_err().to_string().contains("colour"));
    }
}
