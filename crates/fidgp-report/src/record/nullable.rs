//! Numbers that may not be finite: the text `not finite` in JSON, which has no such numbers, and NaN in memory. Records of before
//! have `null` there.

use serde::{Deserialize, Deserializer, Serializer};

/// In place of a number.
const WORDS: &str = "not finite";

/// A number, or what stands in place of one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Number(f64),
    Words(String),
    Nothing(()),
}

impl Said {
    fn number<E: serde::de::Error>(self) -> Result<Option<f64>, E> {
        match self {
            Self::Number(number) => Ok(Some(number)),
            Self::Nothing(()) => Ok(None),
            Self::Words(words) if words == WORDS => Ok(None),
            Self::Words(words) => {
                let words = words.chars().take(40).collect::<String>();
                Err(E::custom(format!("`{words}` is no number, and a number that is not finite is written `{WORDS}`")))
            }
        }
    }
}

/// As it is written.
struct Written(f64);

impl serde::Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        number::serialize(&self.0, serializer)
    }
}

/// For `#[serde(with)]` on an `f64`.
pub mod number {
    use super::{Deserialize, Deserializer, Said, Serializer, WORDS};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde lends what it has written")]
    pub fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if number.is_finite() { serializer.serialize_f64(*number) } else { serializer.serialize_str(WORDS) }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Said::deserialize(deserializer)?.number()?.unwrap_or(f64::NAN))
    }
}

/// The same for a `Vec<f64>`.
pub mod numbers {
    use super::{Deserialize, Deserializer, Said, Serializer, Written};

    pub fn serialize<S: Serializer>(numbers: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(numbers.iter().map(|number| Written(*number)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        let said = Vec::<Said>::deserialize(deserializer)?;
        said.into_iter().map(|one| Ok(one.number()?.unwrap_or(f64::NAN))).collect()
    }
}

/// For metrics, which are `None` in memory where they are not finite.
pub mod metrics {
    use std::collections::BTreeMap;

    use super::{Deserialize, Deserializer, Said, Serializer, Written};

    pub fn serialize<S: Serializer>(metrics: &BTreeMap<String, Option<f64>>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(metrics.iter().map(|(name, value)| (name, Written(value.unwrap_or(f64::NAN)))))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Option<f64>>, D::Error> {
        let said = BTreeMap::<String, Said>::deserialize(deserializer)?;
        said.into_iter().map(|(name, one)| Ok((name, one.number()?))).collect()
    }
}

/// For metrics of parts of the data.
pub mod parts {
    use std::collections::BTreeMap;

    use super::{Deserialize, Deserializer, Serializer, metrics};

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Part(#[serde(with = "metrics")] BTreeMap<String, Option<f64>>);

    type Parts = BTreeMap<String, BTreeMap<String, Option<f64>>>;

    pub fn serialize<S: Serializer>(parts: &Parts, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(parts.iter().map(|(name, part)| (name, Part(part.clone()))))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Parts, D::Error> {
        let said = BTreeMap::<String, Part>::deserialize(deserializer)?;
        Ok(said.into_iter().map(|(name, Part(metrics))| (name, metrics)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Record {
        #[serde(with = "super::number")]
        one: f64,
        #[serde(with = "super::numbers")]
        many: Vec<f64>,
        #[serde(with = "super::metrics")]
        metrics: BTreeMap<String, Option<f64>>,
        #[serde(with = "super::parts")]
        parts: BTreeMap<String, BTreeMap<String, Option<f64>>>,
    }

    #[test]
    fn a_number_is_never_null() {
        let metrics: BTreeMap<_, _> = [("a".to_owned(), None), ("b".to_owned(), Some(2.5))].into();
        let parts = [("validation".to_owned(), metrics.clone())].into();
        let record = Record { one: f64::INFINITY, many: vec![1.0, f64::NAN], metrics, parts };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(
            text,
            r#"{"one":"not finite","many":[1.0,"not finite"],"metrics":{"a":"not finite","b":2.5},"parts":{"validation":{"a":"not finite","b":2.5}}}"#
        );
        for text in [text.clone(), text.replace("\"not finite\"", "null")] {
            let read: Record = serde_json::from_str(&text).unwrap();
            assert!(read.one.is_nan() && read.many[1].is_nan() && read.many[0] > 0.5, "{text}");
            assert_eq!((read.metrics["a"], read.metrics["b"], read.parts["validation"]["a"]), (None, Some(2.5), None));
        }
        let wrong = text.replacen("not finite", "many", 1);
        assert!(serde_json::from_str::<Record>(&wrong).err().unwrap().to_string().contains("`many` is no number"));
    }
}
