//! Parameters of a request: a few plain values. Lists and objects are refused where they begin, before they take memory.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Parameters of one request or tensor; none of the clients sends more than a few.
const MOST: usize = 32;

/// Reads an object of plain values.
///
/// # Errors
/// When it holds anything else, or a name twice, or too many.
pub(super) fn scalars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    deserializer.deserialize_map(Named)
}

struct Named;

impl<'de> Visitor<'de> for Named {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object of parameters")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut named = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(Scalar)?;
            if named.len() == MOST {
                return Err(de::Error::custom(format!("more than {MOST} parameters")));
            }
            if named.contains_key(&name) {
                return Err(de::Error::custom(format!("parameter `{name}` stands there twice")));
            }
            named.insert(name, value);
        }
        Ok(named)
    }
}

/// A number, a text, true, false or null; nothing that could grow.
#[derive(Clone, Copy)]
pub struct Scalar;

impl<'de> DeserializeSeed<'de> for Scalar {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Scalar {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number, a text, true, false or null")
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<Value, E> {
        Ok(truth.into())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}
