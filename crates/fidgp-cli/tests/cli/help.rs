use crate::Place;

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
        "serve",
        "complexity",
        "report",
        "cost",
        "bench",
        "verify",
        "data",
        "data check",
        "doctor",
    ] {
        let words: Vec<_> = command.split_whitespace().chain(["--help"]).collect();
        let said = place.fidgp(&words).ends(0);
        let name = format!("help_{}", if command.is_empty() { "fidgp".to_owned() } else { command.replace(' ', "_") });
        insta::assert_snapshot!(name, said.out);
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
