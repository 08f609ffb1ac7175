//! What a method is: all that the rest of the program asks of one.

use std::fmt::{self, Debug};
use std::sync::Arc;

use fidgp::Key;
use fidgp::layer::{LayerGeometry, Network, PlannedWeight};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tch::nn::Path;
use toml::{Table, Value};

use super::{all, named};
use crate::{Error, LayerPlan, Result};

/// A method. One that is new is one file with its weight, its [`Settings`] and this trait, and a line in
/// [`METHODS`](super::METHODS); from another crate, a call of [`register`](super::register).
pub trait Method: Send + Sync {
    /// What it is.
    fn about(&self) -> About;

    /// What speaks against the plan of its section `[inducing]`: the end of a sentence about `inducing.posterior`.
    fn objects_to(&self, plan: &LayerPlan) -> Option<&'static str> {
        let _ = plan;
        None
    }

    /// Adds its weights to the plan of a network.
    fn plan(&self, plan: LayerPlan, own: Option<&dyn Settings>) -> LayerPlan {
        match own {
            Some(own) => own.plan(plan),
            None => plan,
        }
    }

    /// The network, from `one` or several of the plan, each under a path with a key.
    ///
    /// # Errors
    /// As `one`.
    fn assemble(&self, members: i64, (path, key): (&Path, Key), one: &BuildOne) -> Result<Box<dyn Network>> {
        let _ = members;
        one(path, key)
    }
}

/// What the rest of the program knows of a method.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub struct About {
    /// As it stands in configs and results.
    pub name: &'static str,
    /// In words, as the beginning of a sentence.
    pub words: &'static str,
    /// Its section `[baseline]`, if it has one.
    pub section: Option<Section>,
    /// Whether it has the section `[inducing]`.
    pub is_inducing: bool,
    /// Passes that make one prediction.
    pub passes: Passes,
    /// The method by which its members are trained one after another, with seeds of their own; none where one network is
    /// trained.
    pub trains_members_by: Option<&'static dyn Method>,
    /// What it says of other sections, where nothing is said, for a data set of this name.
    pub usual: fn(&str) -> Vec<Usual>,
    /// What it makes of `network.spectral_norm`, a bound of plain weights.
    pub spectral_norm: Extra,
    /// What it makes of `train.sharpness`.
    pub sharpness: Extra,
    /// Whether it is for regressions.
    pub predicts_numbers: bool,
    /// Whether it is for segmentations.
    pub predicts_pixels: bool,
    /// Why no class may have a single training example, where none may: `= "NAME"` and this are a sentence.
    pub needs_pairs: Option<&'static str>,
    /// Whether its loss has a KL that `train.kl` weights.
    pub has_kl: bool,
    /// Whether a training step is one pass forwards and backwards, so that its arithmetic can be counted.
    pub counts_steps: bool,
    /// What reads its section from a config of bayesianize that stands in `[inducing]`, if it knows such configs.
    pub from_bayesianize: Option<FromBayesianize>,
}

impl About {
    /// A method of these words that does nothing of its own.
    pub const fn new(name: &'static str, words: &'static str) -> Self {
        Self {
            name,
            words,
            section: None,
            is_inducing: false,
            passes: Passes::One,
            trains_members_by: None,
            usual: |_| Vec::new(),
            spectral_norm: Extra::Refused,
            sharpness: Extra::Allowed,
            predicts_numbers: true,
            predicts_pixels: true,
            needs_pairs: None,
            has_kl: false,
            counts_steps: false,
            from_bayesianize: None,
        }
    }
}

impl dyn Method {
    /// As it stands in configs and results.
    pub fn name(&self) -> &'static str {
        self.about().name
    }
}

/// Builds one network of a plan.
pub type BuildOne<'a> = dyn Fn(&Path, Key) -> Result<Box<dyn Network>> + 'a;

/// Section, key and value.
pub type Usual = (&'static str, &'static str, Value);

/// From the text of a config to a section; none where the config is for another method.
pub type FromBayesianize = fn(&str) -> Result<Option<Table>>;

/// The passes of one prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// One: nothing is drawn.
    One,
    /// One for each member.
    Members,
    /// As many as the config has draws.
    Draws,
}

/// What a method makes of a setting of another section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// It does not go with it.
    Refused,
    /// It may be given.
    Allowed,
    /// With it the method has this other name.
    Renames(&'static str),
    /// It belongs to the method, and goes with it.
    Own,
}

/// The settings of a method: its section `[baseline]`.
pub trait Settings: Debug + Send + Sync {
    /// Checks the numbers.
    ///
    /// # Errors
    /// Names the setting that does not fit, and what would.
    fn check(&self) -> Result<()>;

    /// Adds the weights of these settings to a plan.
    fn plan(&self, plan: LayerPlan) -> LayerPlan {
        plan
    }

    /// Networks that are trained or predict together.
    fn members(&self) -> i64 {
        1
    }

    /// Parameters that learn at a rate of their own.
    fn groups(&self) -> Vec<Group> {
        Vec::new()
    }
}

/// Parameters that learn at a rate of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Names of parameters, `*` for any run of characters.
    pub parameters: &'static [&'static str],
    /// What the learning rate is multiplied by.
    pub rate: f64,
    /// Their weight decay.
    pub weight_decay: f64,
}

/// A section with what was left out, and what it means.
type SectionRead = Result<(Table, Arc<dyn Settings>), toml::de::Error>;

/// A section `[baseline]`: its `kind`, and how its other keys become settings.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// As `kind` has it. Methods with equal kinds share a section.
    pub kind: &'static str,
    read: fn(Table) -> SectionRead,
}

impl Section {
    /// The section of these settings.
    pub const fn of<S: Settings + Serialize + DeserializeOwned + 'static>(kind: &'static str) -> Self {
        Self { kind, read: read::<S> }
    }

    /// Reads it: the settings, and the table with what was left out.
    ///
    /// # Errors
    /// When a key is not known, or a value of the wrong type.
    pub fn read(&self, table: Table) -> SectionRead {
        (self.read)(table)
    }
}

fn read<S: Settings + Serialize + DeserializeOwned + 'static>(table: Table) -> SectionRead {
    let settings: S = Value::Table(table).try_into()?;
    let whole = Table::try_from(&settings).map_err(toml::de::Error::custom)?;
    Ok((whole, Arc::new(settings)))
}

impl Debug for dyn Method {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for dyn Method {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Serialize for dyn Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for &'static dyn Method {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        named(&name).ok_or_else(|| {
            let known: Vec<_> = all().iter().map(|method| format!("`{}`", method.name())).collect();
            D::Error::custom(format!("unknown variant `{name}`, expected one of {}", known.join(", ")))
        })
    }
}

/// Every layer, as a setting has it.
pub(super) fn everywhere() -> Vec<String> {
    vec!["*".to_owned()]
}

/// Refuses an empty list of layers.
pub(super) fn check_layers(layers: &[String]) -> Result<()> {
    if layers.is_empty() {
        return Err(Error::setting("layers", "[]", "must be a list of layer names or patterns, such as [\"*\"]"));
    }
    Ok(())
}

/// Outputs and inputs of a layer's weight.
pub(super) fn widths(layer: &LayerGeometry) -> [i64; 2] {
    let (outputs, inputs, _) = layer.operation.widths();
    [outputs, inputs]
}

/// Outputs and inputs of a linear layer that a Gaussian process stands in place of.
pub(super) fn linear_shape(planned: &PlannedWeight) -> fidgp::Result<[i64; 2]> {
    planned.shape.as_slice().try_into().map_err(|_| {
        fidgp::Error::setting("layers", &planned.name, "a Gaussian process is for the last, linear layer only")
    })
}
