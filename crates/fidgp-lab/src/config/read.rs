//! From text to a checked config: overrides first, then strict reading, with a suggestion for every unknown key.

use std::path::Path;
use std::str::FromStr;

use toml::{Table, Value};

use super::RunConfig;
use crate::error::{LabError, Result};

/// `dotted.key=value` from the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    key: String,
    value: Value,
}

impl FromStr for Override {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self> {
        let Some((key, value)) = text.split_once('=') else {
            return Err(LabError::config(text, "is no override; write --set dotted.key=value"));
        };
        // A value that is no TOML on its own is taken as a plain string: --set method=fidgp
        let parsed = format!("v = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
        Ok(Self { key: key.trim().to_owned(), value: parsed.unwrap_or_else(|| Value::String(value.trim().to_owned())) })
    }
}

/// Reads a config file.
///
/// # Errors
/// When the file cannot be read, or as [`parse`] says.
pub fn read(path: &Path, overrides: &[Override]) -> Result<RunConfig> {
    let text = std::fs::read_to_string(path).map_err(|error| LabError::ConfigFile { path: path.to_owned(), why: error.to_string() })?;
    parse(&text, overrides).map_err(|error| match error {
        LabError::Config { key, why } => LabError::ConfigFile { path: path.to_owned(), why: format!("`{key}` {why}") },
        other => other,
    })
}

/// Reads a config.
///
/// # Errors
/// Names the line or key that is wrong, what is known there, and the nearest known name.
pub fn parse(text: &str, overrides: &[Override]) -> Result<RunConfig> {
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| LabError::config("TOML", error.to_string().trim().to_owned()))?;
    for change in overrides {
        set(&mut table, &change.key, change.value.clone())?;
    }
    let method_is_overridden = overrides.iter().any(|change| change.key == "method");
    fit_to_method(&mut table, method_is_overridden);
    let config: RunConfig = Value::Table(table.clone()).try_into().map_err(|error: toml::de::Error| explain(&error, text))?;
    config.check()?;
    Ok(config)
}

fn set(table: &mut Table, key: &str, value: Value) -> Result<()> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((section, rest)) => match table.entry(section).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => set(inner, rest, value),
            _ => Err(LabError::config(key, format!("`{section}` is a value, not a section"))),
        },
    }
}

/// What the method says about the `[inducing]` section: FFG-U is the diagonal family, which need not be written twice;
/// and a config for one method serves another with `--set method=…`, the section being adapted.
fn fit_to_method(table: &mut Table, overridden: bool) {
    let method = table.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
    if overridden && method == "deterministic" {
        table.remove("inducing");
    }
    let Some(Value::Table(inducing)) = table.get_mut("inducing") else { return };
    if overridden {
        inducing.remove("posterior");
    }
    if method == "ffgu" {
        let diagonal = Table::from_iter([("family".to_owned(), Value::String("diagonal".to_owned()))]);
        inducing.entry("posterior").or_insert(Value::Table(diagonal));
    }
}

/// serde's message, the line it is about, and the nearest known name.
fn explain(error: &toml::de::Error, text: &str) -> LabError {
    let message = error.message().trim().to_owned();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(unknown) = quoted.next().filter(|_| message.starts_with("unknown")) else {
        return LabError::config("config", message);
    };
    let nearest = quoted.min_by_key(|known| strsim::damerau_levenshtein(unknown, known)).filter(|known| strsim::damerau_levenshtein(unknown, known) <= 3);
    let hint = nearest.map_or(String::new(), |known| format!("; did you mean `{known}`?"));
    let line = text.lines().position(|line| line.trim_start().starts_with(unknown)).map_or(String::new(), |index| format!(" (line {})", index + 1));
    LabError::config(unknown, format!("is not known{line}{hint} ({message})"))
}
