//! The order of crates and modules, checked: data flows one way. A new crate gets its place in `rules.rs` first, a new module
//! in ARCHITECTURE.md.

mod cycles;
mod public;
mod rules;
mod rust_text;
mod supply;

use std::fs;
use std::path::{Path, PathBuf};

use cycles::cycles;
use public::public_names;
use rules::{backwards_dependencies, backwards_references, orders};
use rust_text::{code_only, tokens};

const LONGEST_FILE: usize = 500;

#[test]
fn crates_build_only_on_those_before_them() {
    let complaints = folders(&workspace().join("crates"))
        .into_iter()
        .flat_map(|folder| backwards_dependencies(&read(&folder.join("Cargo.toml"))));
    assert_none(complaints);
}

#[test]
fn modules_use_only_those_before_them() {
    let orders = orders(&read(&workspace().join("ARCHITECTURE.md")));
    let crates = folders(&workspace().join("crates"));
    let complaints = crates.iter().flat_map(|folder| {
        let (name, source) = (relative(folder, &workspace().join("crates")), folder.join("src"));
        let files: Vec<_> = rust_files(&source).iter().map(|path| (relative(path, &source), read(path))).collect();
        match orders.get(&name) {
            Some(order) => backwards_references(&name, order, &files),
            None => vec![format!("crates/{name}: ARCHITECTURE.md gives its modules no order")],
        }
    });
    assert_none(complaints);
}

#[test]
fn modules_beside_each_other_use_each_other_in_one_direction() {
    let complaints = folders(&workspace().join("crates")).into_iter().flat_map(|folder| {
        let (name, source) = (relative(&folder, &workspace().join("crates")), folder.join("src"));
        let files: Vec<_> = rust_files(&source).iter().map(|path| (relative(path, &source), read(path))).collect();
        cycles(&name, &files)
    });
    assert_none(complaints);
}

#[test]
fn unsafe_code_lives_in_one_crate() {
    let files = rust_files(&workspace().join("crates"));
    let elsewhere = files.iter().filter(|path| !path.components().any(|part| part.as_os_str() == "fidgp-torch"));
    let complaints = elsewhere.flat_map(|path| {
        let (code, name) = (code_only(&read(path)), relative(path, &workspace()));
        let lines: Vec<_> =
            tokens(&code).iter().filter(|token| token.text == "unsafe").map(|token| token.line).collect();
        lines.into_iter().map(move |line| format!("{name}:{line}: `unsafe` belongs in fidgp-torch alone"))
    });
    assert_none(complaints);
}

/// Records, pages, decisions and the server build in seconds, on machines that have no libtorch.
#[test]
fn five_crates_need_no_libtorch() {
    let with = ["tch", "torch-sys", "fidgp", "fidgp-torch", "fidgp-zoo", "fidgp-onnx", "fidgp-lab"];
    for name in ["fidgp-files", "fidgp-metrics", "fidgp-decision", "fidgp-report", "fidgp-serve"] {
        let manifest = read(&workspace().join("crates").join(name).join("Cargo.toml"));
        let named = manifest.lines().filter_map(|line| line.split([' ', '=', '.']).next());
        let needed: Vec<_> = named.filter(|word| with.contains(word)).collect();
        assert!(manifest.contains("[dependencies]") && needed.is_empty(), "{name} needs {needed:?}");
    }
}

#[test]
fn files_stay_short() {
    let sources = folders(&workspace().join("crates")).into_iter().flat_map(|folder| rust_files(&folder.join("src")));
    let lengths = sources.map(|path| (read(&path).lines().count(), relative(&path, &workspace())));
    let complaints = lengths.filter(|(lines, _)| *lines > LONGEST_FILE);
    assert_none(complaints.map(|(lines, name)| format!("{name}: {lines} lines, more than {LONGEST_FILE}: split it")));
}

/// What a user programs against. A name that goes, or gets another meaning, is a line under *Breaking* in CHANGELOG.md.
#[test]
fn public_names_are_as_they_were() {
    let of_lab = ["experiment/", "model/", "ood/", "predict/", "source/"];
    let crates: [(&str, &[&str]); 6] = [
        ("fidgp", &[""]),
        ("fidgp-zoo", &[""]),
        ("fidgp-metrics", &[""]),
        ("fidgp-report", &[""]),
        ("fidgp-onnx", &[""]),
        ("fidgp-lab", &of_lab),
    ];
    for (name, parts) in crates {
        let source = workspace().join("crates").join(name).join("src");
        let files = rust_files(&source).into_iter().map(|path| (relative(&path, &source), read(&path)));
        let files: Vec<_> =
            files.filter(|(path, _)| path == "lib.rs" || parts.iter().any(|part| path.starts_with(part))).collect();
        insta::assert_snapshot!(format!("public-{name}"), public_names(&files).join("\n"));
    }
}

/// ARCHITECTURE.md leads through a training step in at most twelve files. Each of them, and of those it steps over, has the
/// functions that it names.
#[test]
fn the_walk_through_a_training_step_is_true() {
    let page = read(&workspace().join("ARCHITECTURE.md"));
    let walk = page.split("## What happens in one training step").nth(1).and_then(|rest| rest.split("\n## ").next());
    let listed = |mark: &str| -> Vec<Vec<&str>> {
        let lines = walk.expect("a walk").lines().filter_map(|line| line.split_once(mark));
        lines.map(|(_, rest)| rest.split(": ").next().unwrap_or_default().split('`').step_by(2).collect()).collect()
    };
    let (steps, others) = (listed(". `crates/"), listed("- `crates/"));
    assert!((8..=12).contains(&steps.len()) && others.len() == 6, "{steps:?}, {others:?}");
    let missing = steps.iter().chain(&others).flat_map(|step| {
        let text = read(&workspace().join("crates").join(step[0]));
        let absent = step[1..].iter().filter(move |name| !text.contains(&format!("fn {name}")));
        absent.map(|name| format!("{}: no function `{name}`", step[0]))
    });
    assert_none(missing.collect::<Vec<_>>());
}

#[test]
fn every_promise_has_its_test() {
    let tests: String = folders(&workspace().join("crates"))
        .iter()
        .flat_map(|folder| ["src", "tests"].map(|part| folder.join(part)))
        .filter(|folder| folder.is_dir())
        .flat_map(|folder| rust_files(&folder))
        .map(|path| read(&path))
        .collect();
    let page = read(&workspace().join("docs/promises.md"));
    let names = page.split('`').filter_map(|code| code.rsplit_once("::")).map(|(_, name)| name);
    assert_none(
        names
            .filter(|name| !tests.contains(&format!("fn {name}(")))
            .map(|name| format!("docs/promises.md: no test `{name}`")),
    );
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/fidgp-cli is two folders down").to_owned()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().filter(|path| path.join("Cargo.toml").is_file()).collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let (folders, files): (Vec<_>, Vec<_>) = entries(folder).into_iter().partition(|path| path.is_dir());
    let rust = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.chain(folders.iter().flat_map(|folder| rust_files(folder))).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn relative(path: &Path, base: &Path) -> String {
    path.strip_prefix(base).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

#[track_caller]
fn assert_none(complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<_> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "\n\n{}\n", complaints.join("\n"));
}
