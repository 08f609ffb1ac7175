//! The linearised posterior from a config, for what is trained already, exported, and refused.

use std::fs;

use serde_json::Value;

use crate::tables::{TRAIN, place};
use crate::{Place, json};

/// Rows within the data, and one far from them.
const ROWS: &str = "\"size, m2\",age\n0.5,0.5\n0.2,0.7\n12,-9\n";

fn predicted(place: &Place, model: &str) -> Vec<Value> {
    place.write("rows.csv", ROWS);
    let said = place.fidgp(&["predict", model, "rows.csv", "--device", "cpu", "--json"]).ends(0);
    let said: Value = serde_json::from_str(&said.out).unwrap();
    said["inputs"].as_array().unwrap().iter().map(|input| input["prediction"].clone()).collect()
}

fn epistemic(rows: &[Value]) -> Vec<f64> {
    rows.iter().map(|row| row["epistemic_sd"].as_f64().unwrap()).collect()
}

#[test]
fn what_is_trained_gets_one_keeps_it_when_exported_and_loses_it_when_asked() {
    let place = place();
    place.fidgp(&[&TRAIN[..], &["run"]].concat()).ends(0);
    let before = predicted(&place, "run");
    let fit =
        |more: &[&str]| place.fidgp(&[&["fit-posterior", "run", "--device", "cpu", "--data", "data"], more].concat());
    fit(&["--set", "posterior.prior_precision=evidence"]).ends(0);
    let record = json(&place.path("run/posterior.json"));
    assert_eq!(record["structure"], "dense");
    assert!(record["decided"].as_f64().unwrap() > 1.0 && record["prior_precision"].as_f64().unwrap() > 0.0, "{record}");
    let after = predicted(&place, "run");
    let sd = epistemic(&after);
    assert!(sd[2] > 5.0 * sd[0].max(sd[1]), "far from the data there is more uncertainty: {sd:?}");
    for (before, after) in before.iter().zip(&after).take(2) {
        let (a, b) = (before["mean"].as_f64().unwrap(), after["mean"].as_f64().unwrap());
        assert!((a - b).abs() < 30.0, "the mean is that of the trained network: {a} {b}");
    }
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    for (mine, theirs) in after.iter().zip(predicted(&place, "model")) {
        for field in ["mean", "epistemic_sd", "noise_sd"] {
            let (a, b) = (mine[field].as_f64().unwrap(), theirs[field].as_f64().unwrap());
            assert!((a - b).abs() <= 1e-6 * a.abs(), "{field}: {a} {b}");
        }
    }
    let low = ["--set", "posterior.structure=low-rank", "--set", "posterior.rank=3"];
    fit(&low).ends(0);
    assert!(json(&place.path("run/posterior.json"))["share"].as_f64().unwrap() < 1.0);
    fit(&["--set", "posterior.kind=flow"]).ends(0);
    assert!(!place.path("run/posterior.json").exists() && !place.path("run/posterior.safetensors").exists());
    assert_eq!(predicted(&place, "run"), before);
}

#[test]
fn a_config_that_asks_for_one_is_measured_with_it() {
    let place = place();
    let train = |out: &str, more: &[&str]| {
        place.fidgp(&[&TRAIN[..], &[out], more].concat()).ends(0);
        json(&place.path(&format!("{out}/results.json")))["metrics"].clone()
    };
    let (flow, linearised) = (train("flow", &[]), train("own", &["--set", "posterior.kind=linearised"]));
    assert_ne!(flow["reg/EpistemicSD"], linearised["reg/EpistemicSD"]);
    let again = place.fidgp(&["eval", "own", "--device", "cpu", "--data", "data", "--json"]).ends(0);
    let again: Value = serde_json::from_str(&again.out).unwrap();
    for name in ["reg/NLL", "reg/EpistemicSD", "validation/reg/NLL"] {
        let (a, b) = (again["metrics"][name].as_f64().unwrap(), linearised[name].as_f64().unwrap());
        assert!((a - b).abs() < 1e-4 * b.abs().max(1.0), "{name}: {a} {b}");
    }
}

#[test]
fn a_posterior_of_other_weights_or_damaged_is_named() {
    let place = place();
    place.fidgp(&[&TRAIN[..], &["run", "--set", "posterior.kind=linearised"]].concat()).ends(0);
    place.write("rows.csv", ROWS);
    let path = place.path("run/posterior.json");
    let sound = fs::read_to_string(&path).unwrap();
    let step = json(&path)["step"].as_u64().unwrap();
    fs::write(&path, sound.replace(&format!("\"step\": {step}"), "\"step\": 1")).unwrap();
    let predict = || place.fidgp(&["predict", "run", "rows.csv", "--device", "cpu"]);
    predict().ends(1).says(&["posterior.json", "belongs to the weights of step 1", "fit-posterior"]);
    fs::write(&path, sound.replace("\"dense\"", "\"sparse\"")).unwrap();
    predict().ends(1).says(&["posterior.safetensors", "sparse"]);
    fs::write(&path, sound).unwrap();
    predict().ends(0);
    fs::remove_file(place.path("run/posterior.safetensors")).unwrap();
    predict().ends(1).says(&["posterior.safetensors"]);
}

#[test]
fn what_cannot_have_one_is_refused() {
    let place = place();
    let refused = |overrides: &[&str], words: &[&str]| {
        let set: Vec<_> = overrides.iter().flat_map(|o| ["--set", o]).collect();
        place.fidgp(&[&TRAIN[..], &["run"], &set].concat()).ends(2).says(words);
    };
    refused(&["posterior.kind=linearised", "posterior.rank=0"], &["posterior.rank", "at least 1"]);
    refused(
        &["posterior.kind=linearised", "posterior.prior_precision=-1"],
        &["posterior.prior_precision", "greater than 0"],
    );
    refused(&["posterior.kind=sometimes"], &["posterior"]);
    refused(
        &["posterior.kind=linearised", "posterior.layers=[\"fc9\"]", "train.epochs=1", "train.select=last"],
        &["fc9", "fc1"],
    );
}
