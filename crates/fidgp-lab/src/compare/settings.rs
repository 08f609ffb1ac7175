//! In what the configs of a comparison differ.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::config::RunConfig;
use crate::error::{LabError, Result};
use crate::record::comparison::Differing;

/// Names the run and its noise, and is meant to differ.
const MEANT_TO: [&str; 3] = ["name", "method", "seed"];

/// Sections of which a method has its own keys.
const OF_METHODS: [&str; 3] = ["baseline.", "inducing.", "posterior."];

/// One of these that is a part of the training all the same.
const OF_TRAINING: &str = "baseline.weight_decay";

/// The keys that the configs do not agree on, one that only some have among them; but what methods do not share of their own
/// settings is no difference in protocol.
pub(super) fn differing(configs: &[RunConfig]) -> Result<Vec<Differing>> {
    let mut found: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    for (place, config) in configs.iter().enumerate() {
        let table = Table::try_from(config).map_err(|error| LabError::config("config", error.to_string()))?;
        for (key, value) in flat("", &table) {
            found.entry(key).or_insert_with(|| vec![None; configs.len()])[place] = Some(value);
        }
    }
    let differ = |key: &str, values: &[Option<String>]| {
        let own = key != OF_TRAINING && OF_METHODS.iter().any(|section| key.starts_with(section));
        let mut compared = values.iter().filter(|value| !own || value.is_some());
        compared.next().is_some_and(|first| compared.any(|value| value != first))
    };
    let kept = found.into_iter().filter(|(key, values)| !MEANT_TO.contains(&key.as_str()) && differ(key, values));
    Ok(kept.map(|(key, values)| Differing { key, values }).collect())
}

/// All values under their dotted keys.
fn flat(prefix: &str, table: &Table) -> Vec<(String, String)> {
    let of = |(key, value): (&String, &Value)| match value {
        Value::Table(inner) => flat(&format!("{prefix}{key}."), inner),
        value => vec![(format!("{prefix}{key}"), value.to_string())],
    };
    table.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    #[test]
    fn what_only_one_method_has_is_no_difference() {
        let text = include_str!("../../../../configs/table.toml");
        let of = |method: &str| parse(text, &[method.parse().unwrap()]).unwrap();
        let found = differing(&[of("method=deterministic"), of("method=fidgp")]).unwrap();
        let keys: Vec<_> = found.iter().map(|one| one.key.as_str()).collect();
        assert!(keys.iter().all(|key| !key.starts_with("posterior.") && !key.starts_with("inducing.")), "{keys:?}");
        let both = [of("posterior.prior_precision=2.0"), of("posterior.prior_precision=3.0")];
        assert_eq!(differing(&both).unwrap()[0].key, "posterior.prior_precision");
    }
}
