//! Several methods side by side.

use std::fs;

use serde_json::Value;

use crate::{Place, Said, TINY};

fn compare(place: &Place, more: &[&str]) -> Said {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/regression-left.toml");
    let mut words = vec!["compare", config, "--device", "cpu", "--seeds", "2", "--out", "compared"];
    for change in TINY.iter().filter(|change| !change.starts_with("inducing.")) {
        words.extend(["--set", change]);
    }
    words.extend(more);
    place.fidgp(&words)
}

#[test]
fn methods_are_compared_once_and_the_rest_is_read() {
    let place = Place::new();
    let methods = ["--methods", "deterministic,mc-dropout,batch-ensemble"];
    let said = compare(&place, &methods).ends(0);
    for name in ["regression-left-deterministic", "regression-left-mc-dropout", "regression-left-batch-ensemble"] {
        assert!(said.out.contains(name), "{said:?}");
        assert!(place.0.path().join("compared").join(name).join("seed-1/results.json").exists(), "{name}");
    }
    assert!(said.out.contains("too few pairs"), "{said:?}"); // two seeds, and no splits
    let json = fs::read_to_string(place.0.path().join("compared/comparison.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["contenders"][2]["passes"], 4);
    assert_eq!(json["contenders"][0]["relative_training"], 1.0);
    let page = fs::read_to_string(place.0.path().join("compared/report.html")).unwrap();
    assert!(page.contains("Size against quality") && page.contains("Differences from regression-left-deterministic"));
    let runs = || crate::contents(&place.0.path().join("compared/regression-left-mc-dropout"));
    let before = runs();
    let again = compare(&place, &methods).ends(0);
    assert_eq!(again.out, said.out);
    assert_eq!(runs(), before);
}

#[test]
fn what_cannot_be_compared_is_said() {
    let place = Place::new();
    compare(&place, &["--methods", "deterministic,deterministic"]).ends(2).says(&["names two configs", "--methods"]);
    compare(&place, &["--methods", "guesswork"]).ends(2).says(&["guesswork", "method"]);
    compare(&place, &["--methods", "deterministic"]).ends(0);
    compare(&place, &["--methods", "deterministic", "--set", "train.batch_size=25"])
        .ends(2)
        .says(&["holds a run of another config", "--out"]);
}
