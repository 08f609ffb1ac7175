//! `[baseline]`: the settings of a method, whose `kind` follows from it.

use std::sync::Arc;

use fidgp_zoo::methods::{self, Section, Settings};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use toml::{Table, Value};

use super::read::explain;
use crate::error::{LabError, Result};

/// The `[baseline]` section.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Table")]
pub struct BaselineConfig {
    section: Section,
    table: Table,
    settings: Arc<dyn Settings>,
}

impl BaselineConfig {
    /// As `kind` has it.
    pub fn kind(&self) -> &'static str {
        self.section.kind
    }

    /// Every other key.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// What they mean.
    pub fn settings(&self) -> &dyn Settings {
        self.settings.as_ref()
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// Names the key that does not fit, and what would.
    pub fn check(&self) -> Result<()> {
        use fidgp_zoo::Error as Zoo;
        self.settings.check().map_err(|error| match error {
            Zoo::Setting { setting, value, advice } | Zoo::Method(fidgp::Error::Setting { setting, value, advice }) => {
                LabError::config(format!("baseline.{setting}"), format!("= {value} does not fit: {advice}"))
            }
            other => LabError::config("baseline", format!("does not fit: {other}")),
        })
    }
}

impl TryFrom<Table> for BaselineConfig {
    type Error = LabError;

    fn try_from(mut table: Table) -> Result<Self> {
        let Some(Value::String(kind)) = table.remove("kind") else {
            return Err(LabError::config("baseline", "lacks `kind`, a text"));
        };
        let section = methods::section(&kind).ok_or_else(|| unknown(&kind))?;
        let (table, settings) = section.read(table).map_err(|error| explain(&error, "baseline"))?;
        Ok(Self { section, table, settings })
    }
}

/// A kind that no method has.
fn unknown(kind: &str) -> LabError {
    let mut known: Vec<_> =
        methods::all().into_iter().filter_map(|method| Some(method.about().section?.kind)).collect();
    known.dedup();
    let known: Vec<_> = known.into_iter().map(|kind| format!("`{kind}`")).collect();
    let message = format!("unknown variant `{kind}`, expected one of {}", known.join(", "));
    explain(&serde::de::Error::custom(message), "baseline.kind")
}

impl PartialEq for BaselineConfig {
    fn eq(&self, other: &Self) -> bool {
        (self.kind(), &self.table) == (other.kind(), &other.table)
    }
}

impl Serialize for BaselineConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1 + self.table.len()))?;
        map.serialize_entry("kind", self.kind())?;
        self.table.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}
