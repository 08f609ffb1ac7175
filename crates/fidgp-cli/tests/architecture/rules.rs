//! The two orders, and functions from text to complaints about what goes against them.

use std::collections::HashMap;

use crate::rust_text::{Token, code_only, is_name, tokens};

/// Every crate and the crates it may build on. Its tests may also use whatever stands above it.
const CRATES: &[(&str, &[&str])] = &[
    ("fidgp-metrics", &[]),
    ("fidgp-files", &[]),
    ("fidgp-decision", &["fidgp-metrics", "fidgp-files"]),
    ("fidgp-report", &["fidgp-metrics", "fidgp-files", "fidgp-decision"]),
    ("fidgp-serve", &["fidgp-files"]),
    ("fidgp-data", &["fidgp-files"]),
    ("fidgp-torch", &[]),
    ("fidgp", &["fidgp-torch"]),
    ("fidgp-zoo", &["fidgp", "fidgp-files"]),
    ("fidgp-onnx", &["fidgp", "fidgp-files"]),
    (
        "fidgp-lab",
        &[
            "fidgp",
            "fidgp-zoo",
            "fidgp-onnx",
            "fidgp-decision",
            "fidgp-metrics",
            "fidgp-files",
            "fidgp-report",
            "fidgp-data",
            "fidgp-torch",
        ],
    ),
    (
        "fidgp-cli",
        &[
            "fidgp",
            "fidgp-zoo",
            "fidgp-onnx",
            "fidgp-decision",
            "fidgp-metrics",
            "fidgp-files",
            "fidgp-report",
            "fidgp-data",
            "fidgp-torch",
            "fidgp-lab",
            "fidgp-serve",
        ],
    ),
];

/// Where the orders of modules are written down; that of crates stands above.
const ORDERS: &str = "ARCHITECTURE.md";

/// The modules of a crate in order. Each uses earlier lines only; neighbours on one line may use each other in one direction.
pub type Order = Vec<Vec<String>>;

/// The orders of a page: lines such as `crate: a → b, c → d` and their continuations, in blocks fenced with `order`.
pub fn orders(page: &str) -> HashMap<String, Order> {
    let blocks = page.split("```order\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let mut texts: Vec<(String, String)> = Vec::new();
    for line in blocks.flat_map(str::lines) {
        match (line.split_once(':'), texts.last_mut()) {
            (Some((name, text)), _) => texts.push((name.trim().to_owned(), text.to_owned())),
            (None, Some((_, text))) => *text += line,
            (None, None) => {}
        }
    }
    let names = |level: &str| level.split(',').map(|name| name.trim().to_owned()).collect();
    texts.into_iter().map(|(name, text)| (name, text.split('→').map(names).collect())).collect()
}

/// Where the order of crates is written down.
const PLACE: &str = file!();

/// Dependencies of one manifest that go against `CRATES`.
pub fn backwards_dependencies(manifest: &str) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().expect("a manifest in TOML");
    let name = manifest["package"]["name"].as_str().expect("a package has a name");
    let Some(place) = CRATES.iter().position(|(known, _)| *known == name) else {
        return vec![format!("crate `{name}` has no place in the order: give it one in {PLACE}")];
    };
    let targets = manifest.get("target").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::values);
    let sections = std::iter::once(&manifest).chain(targets.filter_map(toml::Value::as_table));
    let mut complaints = Vec::new();
    for section in sections {
        for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let names = section.get(kind).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
            for dependency in names.filter(|dependency| dependency.starts_with("fidgp")) {
                let above = CRATES[..place].iter().any(|(known, _)| known == dependency);
                let allowed = CRATES[place].1.contains(&dependency.as_str()) || kind == "dev-dependencies" && above;
                if !allowed {
                    complaints
                        .push(format!("crates/{name}/Cargo.toml: `{name}` may not have `{dependency}` in [{kind}]"));
                }
            }
        }
    }
    complaints
}

/// References between modules of a crate that go against their order. Files are given by their path under `src`.
pub fn backwards_references(name: &str, order: &Order, files: &[(String, String)]) -> Vec<String> {
    let is_root = |path: &str| path == "lib.rs" || path == "main.rs";
    let rank = |module: &str| order.iter().position(|line| line.iter().any(|known| known == module));
    let exports = files.iter().find(|(path, _)| is_root(path)).map(|(_, text)| re_exports(text)).unwrap_or_default();
    let mut complaints = Vec::new();
    let mut between_neighbours: HashMap<(String, String), String> = HashMap::new();
    for (path, text) in files.iter().filter(|(path, _)| !is_root(path)) {
        let module = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let Some(own_rank) = rank(module) else {
            complaints.push(format!(
                "crates/{name}/src/{path}: `{module}` has no place in the order: give it one in {ORDERS}"
            ));
            continue;
        };
        for (used, line) in root_references(text, module_depth(path)) {
            let used = exports.get(&used).unwrap_or(&used);
            let place = format!("crates/{name}/src/{path}:{line}");
            if used == "*" {
                complaints.push(format!("{place}: a glob over the whole crate hides what is used: name it"));
            } else if rank(used).is_some_and(|rank| rank > own_rank) {
                complaints.push(format!(
                    "{place}: `{module}` uses `{used}`, which comes later: move what they share to an earlier module \
                     (or, if only a test needs it, move the test to crates/{name}/tests)"
                ));
            } else if rank(used) == Some(own_rank) && used != module {
                if let Some(other) = between_neighbours.get(&(used.clone(), module.to_owned())) {
                    complaints
                        .push(format!("{place}: `{module}` uses `{used}`, but `{used}` uses `{module}` too ({other})"));
                }
                between_neighbours.insert((module.to_owned(), used.clone()), place);
            }
        }
    }
    complaints
}

/// How many `super`s lead from a file to the root of its crate.
fn module_depth(path: &str) -> usize {
    path.trim_end_matches("/mod.rs").split('/').count()
}

/// Names that `lib.rs` makes available at the root, each with the module it comes from.
fn re_exports(lib: &str) -> HashMap<String, String> {
    let code = code_only(lib);
    let tokens = tokens(&code);
    let starts = tokens.iter().enumerate().filter(|(_, token)| token.text == "use").map(|(i, _)| i + 1);
    let statements = starts.map(|start| tokens[start..].iter().map(|token| token.text).take_while(|text| *text != ";"));
    let mut exports = HashMap::new();
    for statement in statements {
        let mut names = statement.filter(|text| is_name(text) && !["crate", "self"].contains(text));
        let module = names.next().unwrap_or_default();
        exports.extend(names.map(|name| (name.to_owned(), module.to_owned())));
    }
    exports
}

/// What a file names at the root of its crate, by `crate::` or by enough `super::`s, with the line.
fn root_references(source: &str, depth: usize) -> Vec<(String, usize)> {
    let code = code_only(source);
    let tokens = tokens(&code);
    let text = |i: usize| tokens.get(i).map_or("", |token| token.text);
    let mut found = Vec::new();
    let mut braces = Vec::new(); // for every open one, whether it is a module's
    let mut i = 0;
    while i < tokens.len() {
        match text(i) {
            "{" => braces.push(i >= 2 && text(i - 2) == "mod"),
            "}" => drop(braces.pop()),
            "crate" if text(i + 1) == "::" => found.extend(heads(&tokens[i + 2..])),
            "super" => {
                let supers =
                    (0..tokens.len()).take_while(|n| text(i + 2 * n) == "super" && text(i + 2 * n + 1) == "::").count();
                if supers == depth + braces.iter().filter(|module| **module).count() {
                    found.extend(heads(&tokens[i + 2 * supers..]));
                }
                i += (2 * supers).saturating_sub(1);
            }
            _ => {}
        }
        i += 1;
    }
    found
}

/// The first names of what follows a path's prefix: one of `a::b`, two of `{a::b, c::{d, e}}`.
fn heads(tokens: &[Token<'_>]) -> Vec<(String, usize)> {
    let own = |token: &Token<'_>| (token.text.to_owned(), token.line);
    if tokens.first().is_none_or(|token| token.text != "{") {
        return tokens.first().map(own).into_iter().collect();
    }
    let (mut names, mut depth) = (Vec::new(), 0);
    for pair in tokens.windows(2) {
        match pair[0].text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        match (depth, pair[0].text) {
            (0, _) => break,
            (1, "{" | ",") if pair[1].text != "}" => names.push(own(&pair[1])),
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "```order\nfidgp-data: a → b\nfidgp: error → linalg →\n  flow, prior → layer → ood\n```\nother: text";

    fn complaints_about(files: &[(&str, &str)]) -> Vec<String> {
        let own: Vec<_> = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        backwards_references("fidgp", &orders(PAGE)["fidgp"], &own)
    }

    #[test]
    fn orders_are_read_from_a_page() {
        let orders = orders(PAGE);
        assert_eq!((orders.len(), orders["fidgp-data"].len(), orders["fidgp"].len()), (2, 2, 5));
        assert_eq!(orders["fidgp"][2], ["flow", "prior"]);
    }

    #[test]
    fn a_backwards_reference_is_caught_with_file_and_line() {
        let complaints = complaints_about(&[("prior.rs", "use crate::linalg;\n\nuse crate::layer::Linear;\n")]);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("crates/fidgp/src/prior.rs:3: `prior` uses `layer`"), "{}", complaints[0]);
    }

    #[test]
    fn a_backwards_reference_does_not_hide() {
        let lib = ("lib.rs", "mod error;\npub use error::{Error, Result};\npub use layer::{Linear, Conv2d};");
        for hidden in [
            "use crate::{\n    error::Error,\n    layer::{Linear, Mode},\n};",
            "use super::layer::Linear;",
            "fn f() { crate::layer::g(\"}\") }",
            "mod tests { use super::super::layer; }",
            "use crate::{Error, Conv2d};",
            "use crate::*;",
            "const QUOTE: char = '\"'; use crate::ood; // \"",
        ] {
            assert_eq!(complaints_about(&[lib, ("prior.rs", hidden)]).len(), 1, "{hidden}");
        }
        assert_eq!(complaints_about(&[("flow/made/masks.rs", "use super::super::super::layer;")]).len(), 1);
    }

    #[test]
    fn what_is_in_order_passes() {
        let innocent = "//! Used by crate::layer.\nuse crate::{Error, linalg::solve, prior::Sizes};\n\
                    const A: &str = \"crate::ood\"; const B: &str = r#\"\"crate::ood\"#; /* crate::ood */\n\
                    fn f<'a>(x: &'a str) {} mod tests { use super::*; use super::layer; }";
        let lib = ("lib.rs", "pub mod layer;\npub use error::{Error, Result};");
        let files = [lib, ("prior.rs", innocent), ("flow/mod.rs", "use crate::prior::Sizes;")];
        assert_eq!(complaints_about(&files), Vec::<String>::new());
    }

    #[test]
    fn neighbours_use_each_other_in_one_direction() {
        let complaints = complaints_about(&[("flow/mod.rs", "use crate::prior;"), ("prior.rs", "use crate::flow;")]);
        assert_eq!(complaints.len(), 1);
        assert!(
            complaints[0].contains("`flow` uses `prior` too (crates/fidgp/src/flow/mod.rs:1)"),
            "{}",
            complaints[0]
        );
    }

    #[test]
    fn a_new_module_needs_a_place() {
        assert!(complaints_about(&[("sundry.rs", "")])[0].contains("`sundry` has no place"));
    }

    #[test]
    fn a_backwards_dependency_is_caught() {
        let manifest = |name: &str, rest: &str| format!("[package]\nname = \"{name}\"\n{rest}");
        let complaints = |name: &str, rest: &str| backwards_dependencies(&manifest(name, rest)).len();
        assert_eq!(complaints("fidgp", "[dependencies]\ntch = \"0\"\nfidgp-zoo = {}"), 1);
        assert_eq!(complaints("fidgp", "[dev-dependencies]\nfidgp-lab = {}"), 1);
        assert_eq!(complaints("fidgp", "[dev-dependencies]\nfidgp-metrics = {}"), 0);
        assert_eq!(complaints("fidgp-data", "[target.'cfg(unix)'.dependencies]\nfidgp-metrics = {}"), 1);
        assert_eq!(complaints("fidgp-lab", "[dependencies]\nfidgp = {}\nfidgp-data = {}"), 0);
        assert_eq!(complaints("fidgp-attic", ""), 1);
    }
}
