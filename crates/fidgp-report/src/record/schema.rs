use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The version this code writes and reads.
pub const SCHEMA: &str = "fidgp-results/1";

/// The field `schema`: always [`SCHEMA`], so that a document cannot claim to be another version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Schema;

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(SCHEMA)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = String::deserialize(deserializer)?;
        if found == SCHEMA { Ok(Self) } else { Err(de::Error::custom(format!("schema is `{found}`, not `{SCHEMA}`"))) }
    }
}
