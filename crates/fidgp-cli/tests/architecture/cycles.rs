//! Modules beside each other, at every depth of a crate, use each other in one direction. A child may use its parent, and a parent
//! its children.

use std::collections::{BTreeMap, BTreeSet};

use crate::rust_text::{Token, code_only, is_name, tokens};

/// Where a cycle stays, and why. Of a registry, only what it lists does not count; of a whole module, nothing does.
const EXCEPTIONS: [(&str, &str); 3] = [
    ("fidgp::flow::config", "the registry: it lists the flows, and a flow's settings implement its trait"),
    ("fidgp::linearised::structure", "the registry: it lists the structures, which implement its trait"),
    (
        "fidgp::layer",
        "one thing in many files: a layer takes a pass, and a pass knows what layers, traces and blocks are",
    ),
];

/// The path of a module in its crate; empty for the root.
type Path = Vec<String>;

/// A use of one of two modules in the other, with its file and line.
struct Use {
    from: String,
    to: String,
    place: String,
}

/// Cycles between modules with one parent. Files are given by their path under `src`.
pub fn cycles(name: &str, files: &[(String, String)]) -> Vec<String> {
    let codes: Vec<_> = files.iter().map(|(path, text)| (path, code_only(before_tests(text)))).collect();
    let modules: BTreeMap<Path, _> = codes.iter().map(|(path, code)| (module(path), (*path, tokens(code)))).collect();
    let exports = modules.iter().map(|(path, (_, tokens))| (path.clone(), exports(path, tokens, &modules))).collect();
    let mut uses: BTreeMap<Path, Vec<Use>> = BTreeMap::new();
    for (own, (file, tokens)) in &modules {
        for (used, line) in paths(tokens) {
            let target = resolved(&absolute(own, &used), &modules, &exports, 0);
            let shared = own.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (own.get(shared), target.get(shared)) {
                let place = format!("crates/{name}/src/{file}:{line}");
                let one = Use { from: from.clone(), to: to.clone(), place };
                uses.entry(own[..shared].to_vec()).or_default().push(one);
            }
        }
    }
    uses.iter().flat_map(|(parent, uses)| complaints(name, parent, uses)).collect()
}

/// The inline tests of a file may use whatever they test with.
fn before_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or_default()
}

fn complaints(name: &str, parent: &[String], uses: &[Use]) -> Vec<String> {
    let crate_name = name.replace('-', "_");
    let full = |module: Option<&str>| {
        let parts = std::iter::once(crate_name.as_str()).chain(parent.iter().map(String::as_str)).chain(module);
        parts.collect::<Vec<_>>().join("::")
    };
    let is_exception = |path: &str| EXCEPTIONS.iter().any(|(known, _)| *known == path);
    if is_exception(&full(None)) {
        return Vec::new();
    }
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for one in uses.iter().filter(|one| !is_exception(&full(Some(&one.from)))) {
        edges.entry(&one.from).or_default().insert(&one.to);
    }
    let within_cycle = |one: &&Use| reaches(&edges, &one.to, &one.from);
    let within = uses.iter().filter(|one| !is_exception(&full(Some(&one.from)))).filter(within_cycle);
    let said = |one: &Use| format!("{}: `{}` uses `{}`, which uses it too", one.place, full(Some(&one.from)), one.to);
    within.map(said).collect()
}

fn reaches(edges: &BTreeMap<&str, BTreeSet<&str>>, from: &str, to: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module) {
            next.extend(edges.get(module).into_iter().flatten());
        }
    }
    false
}

fn module(path: &str) -> Path {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    if path == "lib" || path == "main" { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// From `crate`, `super` and `self` to the root.
fn absolute(own: &[String], used: &[String]) -> Path {
    let mut base = if used[0] == "crate" { Vec::new() } else { own.to_vec() };
    let supers = used.iter().take_while(|part| *part == "super").count();
    base.truncate(base.len().saturating_sub(supers));
    base.extend(used.iter().filter(|part| !["crate", "super", "self"].contains(&part.as_str())).cloned());
    base
}

/// What a module re-exports: a name, and the module that has it.
type Exports = BTreeMap<Path, BTreeMap<String, Path>>;

fn exports<T>(own: &Path, tokens: &[Token], modules: &BTreeMap<Path, T>) -> BTreeMap<String, Path> {
    let mut found = BTreeMap::new();
    for i in (1..tokens.len()).filter(|&i| tokens[i].text == "use" && matches!(tokens[i - 1].text, "pub" | ")")) {
        for (used, _) in tree(tokens, &mut (i + 1)) {
            let Some((name, path)) = used.split_last() else { continue };
            let child = path.first().map(|first| [own.as_slice(), std::slice::from_ref(first)].concat());
            let path = match (path.first().map(String::as_str), child) {
                (Some("crate" | "super" | "self"), _) => absolute(own, path),
                (_, Some(child)) if modules.contains_key(&child) => [own.as_slice(), path].concat(),
                _ => continue,
            };
            found.insert(name.clone(), path);
        }
    }
    found
}

/// The module that a path leads to.
fn resolved<T>(path: &[String], modules: &BTreeMap<Path, T>, exports: &Exports, depth: usize) -> Path {
    let mut at = Path::new();
    for (i, part) in path.iter().enumerate() {
        let child = [at.as_slice(), std::slice::from_ref(part)].concat();
        if modules.contains_key(&child) {
            at = child;
            continue;
        }
        return match exports.get(&at).and_then(|names| names.get(part)) {
            Some(home) if depth < 5 && *home != at => {
                resolved(&[home.as_slice(), &path[i..]].concat(), modules, exports, depth + 1)
            }
            _ => at,
        };
    }
    at
}

/// Every path that begins with `crate`, `super` or `self`, in `use` or in code, with its line.
fn paths(tokens: &[Token]) -> Vec<(Path, usize)> {
    let (mut found, mut i) = (Vec::new(), 0);
    while i < tokens.len() {
        let begins = matches!(tokens[i].text, "crate" | "super" | "self")
            && tokens.get(i + 1).is_some_and(|next| next.text == "::")
            && (i == 0 || tokens[i - 1].text != "::");
        if begins { found.extend(tree(tokens, &mut i)) } else { i += 1 }
    }
    found
}

/// The paths of a tree such as `a::{b, c::d}`, from a place which it moves behind them.
fn tree(tokens: &[Token], i: &mut usize) -> Vec<(Path, usize)> {
    let text = |i: usize| tokens.get(i).map_or(";", |token| token.text);
    if text(*i) == "{" {
        *i += 1;
        let mut all = Vec::new();
        while !matches!(text(*i), "}" | ";") {
            if text(*i) == "," { *i += 1 } else { all.extend(tree(tokens, i)) }
        }
        *i += 1;
        return all;
    }
    let (mut path, line) = (vec![text(*i).to_owned()], tokens.get(*i).map_or(0, |token| token.line));
    *i += 1;
    while text(*i) == "::" {
        if text(*i + 1) == "{" {
            *i += 1;
            let inner = tree(tokens, i);
            return inner.into_iter().map(|(rest, line)| ([path.clone(), rest].concat(), line)).collect();
        }
        if !is_name(text(*i + 1)) && text(*i + 1) != "*" {
            *i += 1;
            break;
        }
        path.push(text(*i + 1).to_owned());
        *i += 2;
    }
    if text(*i) == "as" {
        *i += 2;
    }
    vec![(path, line)]
}

#[cfg(test)]
mod tests {
    use super::cycles;

    fn said(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        cycles("fidgp", &files)
    }

    #[test]
    fn modules_beside_each_other_use_each_other_in_one_direction() {
        for back in
            ["use super::b::B;", "fn f() { crate::a::b::g() }", "use crate::a::{self, b::{B}};", "use super::B;"]
        {
            let files = [
                ("lib.rs", "pub mod a;"),
                ("a/mod.rs", "pub use b::B;"),
                ("a/b.rs", "use super::c::C;"),
                ("a/c.rs", back),
            ];
            assert_eq!(said(&files).len(), 2, "{back}: {:?}", said(&files));
        }
        let around = [
            ("c/mod.rs", ""),
            ("a.rs", "use crate::b;"),
            ("b.rs", "\nuse super::c;"),
            ("c/d.rs", "use super::super::a::{A};"),
        ];
        let said = said(&around);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[1].starts_with("crates/fidgp/src/b.rs:2: `fidgp::b` uses `c`"), "{said:?}");
    }

    #[test]
    fn parents_children_tests_and_registries_are_no_cycles() {
        let files = [
            ("a/mod.rs", "use b::B; pub use c::C; fn f() { self::c::g() }"),
            ("a/b.rs", "use super::{f, c::C};"),
            ("a/c.rs", "use super::f;\n#[cfg(test)]\nmod tests { use super::super::b::B; }"),
            ("flow/mod.rs", ""),
            ("layer/mod.rs", ""),
            ("flow/config.rs", "use super::{iaf, linear};"),
            ("flow/iaf.rs", "use super::config::Flow;"),
            ("layer/pass.rs", "use super::linear;"),
            ("layer/linear.rs", "use super::pass;"),
        ];
        assert_eq!(said(&files), Vec::<String>::new());
        let hidden =
            [("flow/mod.rs", ""), ("flow/linear.rs", "use super::iaf;"), ("flow/iaf.rs", "use super::linear;")];
        assert_eq!(said(&hidden).len(), 2);
    }
}
