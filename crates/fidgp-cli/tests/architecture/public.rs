//! The public names of a crate, read from its sources: what somebody else's program may use.

use std::collections::BTreeSet;

/// Words before the name of an item.
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "macro_rules!"];

/// Every public item of a crate's public modules, and the public functions of its types, sorted. Files come with their path in
/// `src`.
pub fn public_names(files: &[(String, String)]) -> Vec<String> {
    let modules: Vec<_> = files.iter().map(|(path, text)| (module(path), text)).collect();
    let open = |name: &str| is_open(name, &modules);
    let mut names = BTreeSet::new();
    for (module, text) in modules.iter().filter(|(module, _)| open(module)) {
        let at = |name: &str| if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") };
        names.extend(statements(text).iter().flat_map(|line| declared(line)).map(|name| at(&name)));
    }
    let known: BTreeSet<String> = names.iter().filter_map(|name| Some(name.rsplit("::").next()?.to_owned())).collect();
    for (_, text) in &modules {
        names.extend(
            methods(text).into_iter().filter(|(of, _)| known.contains(of)).map(|(of, name)| format!("{of}::{name}")),
        );
    }
    names.into_iter().collect()
}

/// `a/b/mod.rs` and `a/b.rs` are `a::b`; the root has no name.
fn module(path: &str) -> String {
    let path = path.trim_end_matches(".rs").trim_end_matches("mod").trim_end_matches('/');
    if path == "lib" { String::new() } else { path.replace('/', "::") }
}

/// Whether a module and all around it are declared public.
fn is_open(name: &str, modules: &[(String, &String)]) -> bool {
    let Some((around, own)) = name.rsplit_once("::").or_else(|| (!name.is_empty()).then_some(("", name))) else {
        return true;
    };
    let declared = modules
        .iter()
        .find(|(module, _)| module == around)
        .is_some_and(|(_, text)| text.lines().any(|line| line == format!("pub mod {own};")));
    declared && is_open(around, modules)
}

/// Public statements that begin a line, whole where they are `use`, before the tests.
fn statements(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found: Vec<String> = Vec::new();
    let mut unfinished = false;
    for line in code.lines() {
        if unfinished {
            found.last_mut().expect("one was begun").push_str(line.trim());
        } else if line.starts_with("pub ") || line.starts_with("macro_rules!") {
            found.push(line.to_owned());
        } else {
            continue;
        }
        unfinished = found.last().is_some_and(|own| own.starts_with("pub use ") && !own.ends_with(';'));
    }
    found
}

/// The names that a statement makes public.
fn declared(line: &str) -> Vec<String> {
    if let Some(used) = line.strip_prefix("pub use ") {
        let used = used.trim_end_matches(';');
        let list = used.split_once('{').map_or(used, |(_, list)| list.trim_end_matches('}'));
        let name = |one: &str| one.rsplit(" as ").next().and_then(|name| name.rsplit("::").next()).map(str::to_owned);
        return list.split(',').map(str::trim).filter(|one| !one.is_empty()).filter_map(name).collect();
    }
    named(line).into_iter().collect()
}

/// The name of an item.
fn named(line: &str) -> Option<String> {
    let mut words = line.split([' ', '<', '(', ':', '{', ';', '=']).filter(|word| !word.is_empty());
    let item = words.find(|word| {
        !["pub", "const", "async", "unsafe"].contains(word) || word == &"const" && !line.contains(" fn ")
    })?;
    ITEMS.contains(&item).then(|| words.next().map(str::to_owned)).flatten()
}

/// Public functions in `impl` blocks of a file, with their types; those that a trait asks for follow from it.
fn methods(text: &str) -> Vec<(String, String)> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let (mut of, mut found) = (None, Vec::new());
    for line in code.lines() {
        if line.starts_with("impl") {
            let line = line.trim_start_matches("impl").trim_start();
            let line = if line.starts_with('<') { line.split_once("> ").map_or("", |(_, rest)| rest) } else { line };
            of = (!line.contains(" for ")).then(|| line.split(['<', ' ']).next().unwrap_or_default().to_owned());
        } else if let (Some(of), Some(rest)) = (&of, line.strip_prefix("    pub ")) {
            let is_function = rest.contains("fn ");
            found.extend(named(&format!("pub {rest}")).filter(|_| is_function).map(|name| (of.clone(), name)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::public_names;

    #[test]
    fn what_is_public_is_found_and_nothing_else() {
        let files = [
            ("lib.rs", "pub mod open;\nmod shut;\npub use shut::{Out, Other as Name};\npub use open::Same;\n"),
            (
                "open.rs",
                "pub struct Same<'a> {\n    pub field: u8,\n}\nimpl<'a> Same<'a> {\n    pub const fn at(&self) {}\n    fn own() {}\n}\n\
                 pub const N: u8 = 1;\npub(crate) fn hidden() {}\npub async fn far() {}\n#[cfg(test)]\nmod tests {\npub fn no() {}\n}\n",
            ),
            (
                "shut/mod.rs",
                "pub struct Out;\npub struct Kept;\nimpl Out {\n    pub fn new() {}\n}\nimpl Kept {\n    pub fn new() {}\n}\n",
            ),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let expected = ["Name", "Out", "Out::new", "Same", "Same::at", "open::N", "open::Same", "open::far"];
        assert_eq!(public_names(&files), expected);
    }
}
