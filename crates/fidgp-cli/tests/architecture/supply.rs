//! What fidgp is built of: where crates come from, under which licences, and who needs two versions of one. The advisories of
//! `deny.toml` need the network and are checked by `scripts/deny`.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::{assert_none, read, workspace};

/// Crates that parse files and are there twice, with those that need the older: untrusted files never reach it, since clippy.toml
/// bans the functions that would read them (torch-sys unpacks a libtorch that it fetches itself, which we have it not do).
const OLDER_PARSERS: [(&str, &str, &[&str]); 2] =
    [("zip", "0.6", &["tch", "torch-sys"]), ("safetensors", "0.3", &["tch"])];

/// What Cargo says of all packages, from what lies on this machine.
fn metadata() -> Value {
    let words =
        ["metadata", "--offline", "--locked", "--format-version=1", "--filter-platform=x86_64-unknown-linux-gnu"];
    let said = Command::new(env!("CARGO")).args(words).current_dir(workspace()).output().expect("cargo starts");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    serde_json::from_slice(&said.stdout).expect("JSON")
}

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or_default()
}

/// Whether a licence expression can be met with these licences. `/` is an older word for `OR`.
fn allows(allowed: &BTreeSet<String>, expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any(allowed, &words, &mut at) && at == words.len()
}

fn any(allowed: &BTreeSet<String>, words: &[&str], at: &mut usize) -> bool {
    let mut met = all(allowed, words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(allowed, words, at);
    }
    met
}

fn all(allowed: &BTreeSet<String>, words: &[&str], at: &mut usize) -> bool {
    let mut met = one(allowed, words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(allowed, words, at);
    }
    met
}

fn one(allowed: &BTreeSet<String>, words: &[&str], at: &mut usize) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let met = any(allowed, words, at);
        *at += 1; // the other bracket
        return met;
    }
    if words.get(*at) == Some(&"WITH") {
        *at += 2;
        return false; // an exception is a licence of its own, and none is on the list
    }
    allowed.contains(*word)
}

fn allowed() -> BTreeSet<String> {
    let deny: toml::Value = toml::from_str(&read(&workspace().join("deny.toml"))).expect("deny.toml");
    let list = deny["licenses"]["allow"].as_array().expect("licenses.allow");
    list.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

#[test]
fn every_crate_has_a_licence_that_is_allowed() {
    let (metadata, allowed) = (metadata(), allowed());
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 100, "{}", packages.len());
    let others = packages.iter().filter(|package| !allows(&allowed, text(package, "license")));
    assert_none(others.map(|package| {
        format!(
            "{} {}: `{}` is not in deny.toml",
            text(package, "name"),
            text(package, "version"),
            text(package, "license")
        )
    }));
}

#[test]
fn crates_come_from_crates_io_with_their_checksums() {
    let lock: toml::Value = toml::from_str(&read(&workspace().join("Cargo.lock"))).expect("Cargo.lock");
    let complaints = lock["package"].as_array().expect("packages").iter().filter_map(|package| {
        let source = package.get("source").and_then(|source| source.as_str());
        let sound = match source {
            None => package["name"].as_str().is_some_and(|name| name.starts_with("fidgp")),
            Some(source) => {
                source == "registry+https://github.com/rust-lang/crates.io-index" && package.get("checksum").is_some()
            }
        };
        (!sound).then(|| format!("{} comes from {source:?}", package["name"]))
    });
    assert_none(complaints);
}

#[test]
fn older_parsers_are_tchs_alone_and_banned() {
    let (metadata, banned) = (metadata(), read(&workspace().join("clippy.toml")));
    let nodes = metadata["resolve"]["nodes"].as_array().expect("nodes");
    for (name, version, known) in OLDER_PARSERS {
        let is_it = |id: &str| id.contains(&format!("#{name}@{version}."));
        let users = nodes.iter().filter(|node| {
            node["dependencies"].as_array().into_iter().flatten().any(|id| id.as_str().is_some_and(is_it))
        });
        let users: Vec<_> = users.map(|node| text(node, "id")).collect();
        let is_known = |user: &&str| known.iter().any(|known| user.contains(&format!("#{known}@")));
        assert!(users.len() == known.len() && users.iter().all(is_known), "{name} {version} is needed by {users:?}");
    }
    for function in ["read_npz", "read_safetensors", "VarStore::read_safetensors", "VarStore::load", "Tensor::load"] {
        assert!(banned.contains(&format!("{function}\"")), "{function} is not banned");
    }
}

#[test]
fn expressions_of_licences_are_understood() {
    let allowed: BTreeSet<String> = ["MIT", "ISC"].map(str::to_owned).into();
    for (expression, is_allowed) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT OR GPL-3.0", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("GPL-3.0 OR (MIT AND BSD-3-Clause)", false),
        ("MIT WITH something", false),
        ("GPL-2.0 WITH something OR ISC", true),
        ("", false),
        ("MIT ISC", false),
    ] {
        assert_eq!(allows(&allowed, expression), is_allowed, "{expression}");
    }
}
