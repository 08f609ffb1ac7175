//! From text to a checked config: overrides first, then strict reading, with a suggestion for every unknown key.

use std::path::Path;
use std::str::FromStr;

use fidgp_zoo::Method;
use fidgp_zoo::methods::{self, Extra, Usual};
use toml::{Table, Value};

use super::{NetworkConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::files::{CONFIG_FILE, NETWORK_FILE};

/// Pictures in a batch of a segmentation's prediction.
const USUAL_PICTURES: i64 = 4;

/// `dotted.key=value` from the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    key: String,
    value: Value,
}

impl Override {
    /// Whether it sets a key, or something within it.
    pub fn sets(&self, key: &str) -> bool {
        self.key.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// Names in the key of one override; the configs have four.
const DEEPEST: usize = 16;

impl FromStr for Override {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('=').map(|(key, value)| (key.trim(), value));
        let Some((key, value)) = parts.filter(|(key, _)| !key.split('.').any(str::is_empty)) else {
            return Err(LabError::config(text, "is no override; write --set dotted.key=value"));
        };
        if key.split('.').count() > DEEPEST {
            let start: String = key.chars().take(40).collect();
            return Err(LabError::config(
                format!("--set {start}…"),
                format!("has more than {DEEPEST} names in one key"),
            ));
        }
        // A value that is no TOML on its own is taken as a plain string: --set method=fidgp
        let parsed = format!("v = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
        Ok(Self { key: key.to_owned(), value: parsed.unwrap_or_else(|| Value::String(value.trim().to_owned())) })
    }
}

/// Reads a config file.
///
/// # Errors
/// When the file cannot be read, or as [`parse`] says.
pub fn read(path: &Path, overrides: &[Override]) -> Result<RunConfig> {
    let text = fidgp_files::text(path)
        .map_err(|error| LabError::ConfigFile { path: path.to_owned(), why: error.to_string() })?;
    let config = parse(&text, overrides).map_err(|error| match error {
        LabError::Config { key, why } => LabError::ConfigFile { path: path.to_owned(), why: format!("`{key}` {why}") },
        other => other,
    });
    Ok(with_own_graph(config?, path))
}

/// A run has its own copy of the graph that its network is built of, and the digest of it.
fn with_own_graph(mut config: RunConfig, path: &Path) -> RunConfig {
    let copy = path.with_file_name(NETWORK_FILE);
    if let NetworkConfig::Onnx(graph) = &mut config.network
        && graph.sha256.is_some()
        && path.file_name().is_some_and(|name| name == CONFIG_FILE)
        && copy.exists()
    {
        graph.kept = Some(copy);
    }
    config
}

/// A message that quotes a line of a file, which may be long.
fn short(message: &str) -> String {
    const MOST: usize = 240;
    let cut =
        |line: &str| line.chars().take(MOST).collect::<String>() + if line.chars().count() > MOST { "…" } else { "" };
    message.lines().map(cut).collect::<Vec<_>>().join("\n")
}

/// Reads a config.
///
/// # Errors
/// Names the line or key that is wrong, what is known there, and the nearest known name.
pub fn parse(text: &str, overrides: &[Override]) -> Result<RunConfig> {
    let mut table: Table =
        text.parse().map_err(|error: toml::de::Error| LabError::config("TOML", short(error.to_string().trim())))?;
    let (method, others): (Vec<_>, Vec<_>) = overrides.iter().partition(|change| change.key == "method");
    if let Some(change) = method.last().filter(|change| table.get("method") != Some(&change.value)) {
        leave_method(&mut table, change.value.as_str().and_then(methods::named));
    }
    for change in method.iter().chain(&others) {
        set(&mut table, &change.key, change.value.clone())?;
    }
    take_in_settings(&mut table)?;
    fit_to_method(&mut table, !method.is_empty());
    take_in_bayesianize(&mut table)?;
    let config: RunConfig = Value::Table(table.clone()).try_into().map_err(|error: toml::de::Error| {
        on_its_line(narrowed(explain(&error, ""), &table, error.message()), text, overrides)
    })?;
    config.check()?;
    Ok(config)
}

/// Puts a value at a dotted key; a number is an entry of a list, counted from 0.
fn set(table: &mut Table, key: &str, value: Value) -> Result<()> {
    let Some((section, rest)) = key.split_once('.') else {
        table.insert(key.to_owned(), value);
        return Ok(());
    };
    set_within(table.entry(section).or_insert_with(|| Value::Table(Table::new())), section, rest, value)
}

fn set_within(place: &mut Value, name: &str, key: &str, value: Value) -> Result<()> {
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    match place {
        Value::Table(inner) => set(inner, key, value),
        Value::Array(entries) => {
            let count = entries.len();
            let entry = first.parse::<usize>().ok().and_then(|index| entries.get_mut(index)).ok_or_else(|| {
                let why = format!("`{first}` is no entry of `{name}`, which has {count}, counted from 0");
                LabError::config(format!("{name}.{key}"), why)
            })?;
            match rest {
                None => *entry = value,
                Some(rest) => return set_within(entry, first, rest, value),
            }
            Ok(())
        }
        _ => Err(LabError::config(format!("{name}.{key}"), format!("`{name}` is a value, not a section"))),
    }
}

/// Puts the text of a bayesianize file in place of its name, so that the resolved config needs no other file.
fn take_in_bayesianize(table: &mut Table) -> Result<()> {
    let named = table.get_mut("inducing").and_then(|inducing| inducing.get_mut("bayesianize"));
    let Some(Value::String(file)) = named else { return Ok(()) };
    if !file.trim_start().starts_with('{') {
        let why = |error: std::io::Error| LabError::config("inducing.bayesianize", format!("`{file}`: {error}"));
        *file = fidgp_files::text(std::path::Path::new(&*file)).map_err(why)?;
    }
    Ok(())
}

/// Puts the settings of a config of bayesianize into `[baseline]`, for a method that has its settings there.
fn take_in_settings(table: &mut Table) -> Result<()> {
    let Some(section_of) = method_of(table).and_then(|method| method.about().from_bayesianize) else { return Ok(()) };
    take_in_bayesianize(table)?;
    let text = table.get("inducing").and_then(|section| section.get("bayesianize")).and_then(Value::as_str);
    let Some(text) = text else { return Ok(()) };
    let wrong = |error: fidgp_zoo::Error| LabError::config("inducing.bayesianize", format!("is wrong: {error}"));
    let Some(section) = section_of(text).map_err(wrong)? else { return Ok(()) };
    table.remove("inducing");
    let baseline = table.entry("baseline").or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(baseline) = baseline {
        section.into_iter().for_each(|(key, value)| _ = baseline.entry(key).or_insert(value));
    }
    Ok(())
}

/// Takes out what belongs to the method of the file, before --set names another one (and perhaps settings of it).
fn leave_method(table: &mut Table, next: Option<&dyn Method>) {
    if let Some(Value::Table(inducing)) = table.get_mut("inducing") {
        inducing.remove("posterior");
    }
    table.remove("baseline");
    if let Some(Value::Table(train)) = table.get_mut("train") {
        train.remove("sharpness");
    }
    // the bound goes with a method that has one of its own, and where the next has no plain layers to bound
    let bounded = method_of(table).is_some_and(|method| method.about().spectral_norm == Extra::Own);
    let may_stay = next.is_some_and(|next| matches!(next.about().spectral_norm, Extra::Allowed | Extra::Own));
    if let Some(Value::Table(network)) = table.get_mut("network")
        && (bounded || !may_stay)
    {
        network.remove("spectral_norm");
    }
}

/// The method that a config names.
fn method_of(table: &Table) -> Option<&'static dyn Method> {
    table.get("method").and_then(Value::as_str).and_then(methods::named)
}

/// Takes out what only inducing weights have: their section, their posterior, and groups of their parameters.
fn leave_inducing(table: &mut Table) {
    const PARAMETERS: [&str; 7] = ["z_row", "z_col", "_d_row", "_d_col", "inducing_mean", "_inducing_sd", "_lamda"];
    table.remove("inducing");
    table.remove("posterior");
    let train = table.get_mut("train").and_then(Value::as_table_mut);
    let Some(groups) = train.and_then(|train| train.get_mut("groups")).and_then(Value::as_array_mut) else { return };
    let of_inducing =
        |pattern: &Value| pattern.as_str().is_some_and(|text| PARAMETERS.iter().any(|own| text.ends_with(own)));
    groups.retain(|group| {
        !group.get("parameters").and_then(Value::as_array).is_some_and(|all| all.iter().all(of_inducing))
    });
}

/// Adds what the method says about other sections, where nothing is said: its own section, its usual step or draws. With
/// `--set method=…` a config of one method serves the others.
fn fit_to_method(table: &mut Table, overridden: bool) {
    let of_data = |key: &str| table.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
    let (pixels, data) = (of_data("set") == Some("segmentation"), of_data("name").unwrap_or_default().to_owned());
    if let Some(method) = method_of(table).map(Method::about) {
        if overridden && !method.is_inducing {
            leave_inducing(table);
        }
        if overridden && method.is_inducing {
            table.entry("inducing").or_insert_with(|| Value::Table(Table::new())); // its defaults
        }
        let kind = method.section.map(|section| ("baseline", "kind", Value::from(section.kind)));
        kind.into_iter().chain((method.usual)(&data)).for_each(|usual| add(table, pixels, usual));
    }
    if pixels {
        add(table, pixels, ("predict", "batch_size", USUAL_PICTURES.into()));
    }
}

/// Adds what is usual where nothing is said. Networks for pixels have no bound; a method that needs [inducing] says so itself
/// where it is missing, and a config of bayesianize stands there alone.
fn add(table: &mut Table, pixels: bool, (section, key, value): Usual) {
    let within = table.get(section);
    let unwanted = match section {
        "network" => pixels,
        "inducing" => within.is_none_or(|inducing| inducing.get("bayesianize").is_some()),
        _ => false,
    };
    if unwanted {
        return;
    }
    let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(section) = section {
        section.entry(key).or_insert(value);
    }
}

/// serde's message as an error of ours: the dotted key it is about (below `section`), and the nearest known name.
pub(super) fn explain(error: &toml::de::Error, section: &str) -> LabError {
    let message = error.message().trim();
    if let Some((key, why)) = message.strip_prefix('`').and_then(|rest| rest.split_once("` ")) {
        return LabError::config(key, why); // a section has said it already
    }
    let shown = error.to_string();
    let within = shown.trim_end().rsplit_once("\nin `").map_or("", |(_, keys)| keys.trim_end_matches('`'));
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(unknown) = quoted.next().filter(|_| message.starts_with("unknown")) else {
        let key = join(&[section, within]);
        return LabError::config(if key.is_empty() { "config" } else { &key }, in_words(message));
    };
    let distance = |known: &&str| strsim::damerau_levenshtein(unknown, known);
    let most = (unknown.chars().count() / 3).clamp(1, 3); // three changes make any short word of any other
    let nearest = quoted.min_by_key(distance).filter(|known| distance(known) <= most);
    let hint = nearest.map_or(String::new(), |known| format!("; did you mean `{known}`?"));
    if message.starts_with("unknown variant") {
        return LabError::config(join(&[section, within]), format!("= `{unknown}` is not known{hint} ({message})"));
    }
    LabError::config(join(&[section, within, unknown]), format!("is not known{hint} ({message})"))
}

/// The same error with the very key, where it names a table: the key without which something else is said. Tables that have a
/// `kind` are read as a whole, and do not know where in them they failed.
fn narrowed(error: LabError, table: &Table, message: &str) -> LabError {
    match error {
        LabError::Config { key, why } if !message.starts_with("missing field") => {
            let path: Vec<_> = key.split('.').collect();
            let inner = culprit(table, &path, message);
            LabError::config(join(&[&key, &inner]), why)
        }
        other => other,
    }
}

/// Keys that say which table it is.
const TAGS: [&str; 3] = ["kind", "set", "family"];

/// The dotted key within a table without which a config does not fail with this message; empty where there is none.
fn culprit(table: &Table, path: &[&str], message: &str) -> String {
    let names = within(&mut table.clone(), path).map_or(Vec::new(), |inner| inner.keys().cloned().collect());
    // what says which table it is comes last: without it everything else fails
    let (tags, names): (Vec<String>, Vec<_>) = names.into_iter().partition(|name| TAGS.contains(&name.as_str()));
    let changes = |name: &&String| {
        let mut without = table.clone();
        let removed = within(&mut without, path).and_then(|inner| inner.remove(*name));
        let said = Value::Table(without).try_into::<RunConfig>().map_err(|error| error.message().to_owned());
        removed.is_some() && said.err().as_deref() != Some(message)
    };
    let Some(name) = names.iter().chain(&tags).find(changes) else { return String::new() };
    join(&[name, &culprit(table, &[path, &[name]].concat(), message)])
}

/// The table at a path.
fn within<'a>(table: &'a mut Table, path: &[&str]) -> Option<&'a mut Table> {
    path.iter().try_fold(table, |table, name| table.get_mut(*name)?.as_table_mut())
}

/// What serde says of a value of the wrong type, for people who do not know Rust's types.
fn in_words(message: &str) -> String {
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("lacks {key}");
    }
    let found = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    let Some((found, expected)) = found.and_then(|found| found.rsplit_once(", expected ")) else {
        let said = ["is ", "must "].iter().any(|verb| message.starts_with(verb)); // by ourselves
        return if said { message.to_owned() } else { format!("is wrong: {message}") };
    };
    let wanted = match expected {
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "text in quotes",
        "a sequence" => "a list, such as [1, 2]",
        "a map" => TABLE,
        rust if rust.starts_with("struct ") || rust.starts_with("internally tagged enum ") => TABLE,
        other => other,
    };
    format!("was given {found} where it takes {wanted}")
}

/// What a section or an inline table is, in words.
const TABLE: &str = "a table, { key = value, … }; the guide lists its keys";

fn join(parts: &[&str]) -> String {
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(".")
}

/// The same error with the line of its key, where the file has one and the command line does not change it.
fn on_its_line(error: LabError, text: &str, overrides: &[Override]) -> LabError {
    let LabError::Config { key, why } = error else { return error };
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if overrides.iter().any(|change| within(&change.key, &key) || within(&key, &change.key)) {
        return LabError::config(key, why);
    }
    let name = key.rsplit('.').next().unwrap_or_default();
    let sets =
        |line: &&str| line.trim_start().strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('='));
    let mut lines = text.lines().enumerate().filter(|(_, line)| sets(line));
    match (lines.next(), lines.next()) {
        (Some((index, _)), None) => LabError::config(key, format!("(line {}) {why}", index + 1)),
        _ => LabError::config(key, why),
    }
}
