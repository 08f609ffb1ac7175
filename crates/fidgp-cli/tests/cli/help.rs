use crate::Place;

/// The page of the book that has all of it; `scripts/cli-page` writes it.
const PAGE: &str = include_str!("../../../../docs/reference/cli.md");

#[test]
fn every_command_explains_itself() {
    let place = Place::new();
    for command in [
        "",
        "demo",
        "init",
        "train",
        "eval",
        "predict",
        "ood",
        "wrap",
        "compress",
        "export",
        "compare",
        "calibrate",
        "reference",
        "monitor",
        "complexity",
        "report",
        "cost",
        "bench",
        "verify",
        "data",
        "data check",
        "doctor",
        "launch",
        "fit-posterior",
        "serve",
        "onnx",
        "onnx inspect",
        "onnx run",
        "onnx operators",
        "completions",
        "man",
    ] {
        let words: Vec<_> = command.split_whitespace().chain(["--help"]).collect();
        let said = place.fidgp(&words).ends(0);
        let name = format!("help_{}", if command.is_empty() { "fidgp".to_owned() } else { command.replace(' ', "_") });
        let lines: Vec<_> = said.out.trim_end().lines().map(str::trim_end).collect();
        let text = format!("```text\n{}\n```", lines.join("\n"));
        insta::assert_snapshot!(name, said.out);
        assert!(PAGE.contains(&text), "docs/reference/cli.md: not what `fidgp {command}` says; run scripts/cli-page");
        if !["", "doctor", "onnx", "onnx operators"].contains(&command) {
            assert!(said.out.contains("\nExample"), "the help of `{command}` has no example");
        }
    }
}

#[test]
fn help_is_readable_without_colour() {
    let said = Place::new().fidgp(&["train", "-h"]).ends(0);
    assert!(!said.out.contains('\u{1b}'), "{said:?}");
}

#[test]
fn the_version_is_the_crates() {
    let said = Place::new().fidgp(&["--version"]).ends(0);
    assert_eq!(said.out.trim(), concat!("fidgp ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn what_is_not_a_command_is_misuse() {
    Place::new().fidgp(&["trian"]).ends(2).says(&["unrecognized subcommand 'trian'", "'train'"]);
    Place::new().fidgp(&["train"]).ends(2).says(&["<CONFIG>"]);
}

#[test]
fn a_program_alone_shows_where_to_begin() {
    let said = Place::new().fidgp(&[]).ends(2);
    assert!(said.err.contains("Start here:") && said.err.contains("fidgp init DATA"), "{said:?}");
}

#[test]
fn shells_and_man_know_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.fidgp(&["completions", shell]).ends(0).out;
        assert!(script.contains("fit-posterior") && script.contains("calibrate"), "{shell}");
    }
    assert!(place.fidgp(&["man", "--out", "pages"]).ends(0).out.contains("man pages to pages"));
    let page = std::fs::read_to_string(place.path("pages/fidgp-onnx-run.1")).unwrap();
    assert!(page.starts_with(".ie") || page.contains(".TH"), "{page}");
}

#[test]
fn quiet_leaves_results_and_errors() {
    let place = Place::new();
    std::fs::write(place.path("t.csv"), "a,b\n".to_owned() + &"1,2\n3,5\n".repeat(40)).unwrap();
    let loud = place.fidgp(&["init", "t.csv", "--out", "a.toml"]).ends(0);
    let quiet = place.fidgp(&["init", "t.csv", "--out", "b.toml", "--quiet"]).ends(0);
    assert!(loud.err.contains("train it with"), "{loud:?}");
    assert_eq!((quiet.err.as_str(), quiet.out.is_empty()), ("", false));
    assert!(place.fidgp(&["-q", "report", "nowhere"]).ends(2).err.starts_with("error:"));
}
