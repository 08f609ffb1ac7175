//! Several methods side by side.

use std::fs;
use std::sync::LazyLock;

use serde_json::Value;

use crate::configs::{self, changed};
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
    assert!(json["commit"].is_string() && json["hardware"]["threads"].is_u64(), "{json}");
    assert!(json["command"].as_str().unwrap().contains("compare"), "{json}");
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

/// Two configs that differ in their seeds alone run under those of the first, and do not differ.
#[test]
fn configs_run_under_the_same_seeds() {
    let place = Place::new();
    let config =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/regression-left.toml")).unwrap();
    let (first, second) = (config.replace("seed = ", "seed = 1"), config.replace("seed = ", "seed = 9"));
    fs::write(place.0.path().join("first.toml"), first.replace("regression-left", "first")).unwrap();
    fs::write(place.0.path().join("second.toml"), second.replace("regression-left", "second")).unwrap();
    let mut words =
        vec!["compare", "first.toml", "second.toml", "--device", "cpu", "--seeds", "3", "--out", "compared"];
    let changes = TINY.iter().filter(|change| !change.starts_with("inducing."));
    words.extend(changes.flat_map(|change| ["--set", change]));
    words.extend(["--set", "method=deterministic"]);
    let said = place.fidgp(&words).ends(0);
    let document = crate::json(&place.0.path().join("compared/comparison.json"));
    assert_eq!(document["schema"], "fidgp-comparison/1");
    assert_eq!(document["contenders"][0]["seeds"], document["contenders"][1]["seeds"], "{document}");
    assert_eq!(document["settings"], serde_json::json!([]), "only name and seed differ");
    for difference in document["differences"].as_array().unwrap() {
        assert_eq!((&difference["units"], &difference["rule"]), (&"seeds".into(), &"student-t".into()), "{difference}");
        assert_eq!(difference["mean"].as_f64(), Some(0.0), "the same network under the same seed: {difference}");
    }
    assert!(said.out.contains("3 seeds: no difference shown"), "{}", said.out);
}

#[test]
fn settings_that_differ_are_shown() {
    let place = Place::new();
    let config =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/regression-left.toml")).unwrap();
    let other = config.replace("regression-left", "other").replace("batch_size = ", "batch_size = 1");
    fs::write(place.0.path().join("one.toml"), config.replace("regression-left", "one")).unwrap();
    fs::write(place.0.path().join("other.toml"), other).unwrap();
    let mut words = vec!["compare", "one.toml", "other.toml", "--device", "cpu", "--out", "compared"];
    let changes = TINY.iter().filter(|change| !change.starts_with("inducing."));
    words.extend(changes.flat_map(|change| ["--set", change]));
    words.extend(["--set", "method=deterministic", "--seeds", "1"]);
    place.fidgp(&words).ends(0);
    let document = crate::json(&place.0.path().join("compared/comparison.json"));
    assert_eq!(document["settings"].as_array().unwrap().len(), 1, "{}", document["settings"]);
    assert_eq!(document["settings"][0]["key"], "train.batch_size");
    let page = fs::read_to_string(place.0.path().join("compared/report.html")).unwrap();
    assert!(page.contains("Settings that differ") && page.contains("train.batch_size"));
}

/// One config diverges: the others are compared without it, the page and the exit code say so.
#[test]
fn a_config_that_fails_keeps_no_other_from_being_compared() {
    let place = Place::new();
    let config =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/regression-left.toml")).unwrap();
    for (name, rate) in [("one", "1e-3"), ("wild", "1e30"), ("other", "2e-3")] {
        let text = config
            .replace("regression-left", name)
            .replace("learning_rate = 0.003", &format!("learning_rate = {rate}"));
        assert!(name == "one" || text.contains(rate), "{text}");
        fs::write(place.0.path().join(format!("{name}.toml")), text).unwrap();
    }
    let compare = |configs: &[&str]| {
        let mut words = [&["compare"], configs].concat();
        words.extend(["--device", "cpu", "--out", "compared", "--seeds", "1", "--set", "method=deterministic"]);
        words
            .extend(TINY.iter().filter(|change| !change.starts_with("inducing.")).flat_map(|change| ["--set", change]));
        place.fidgp(&words)
    };
    let said = compare(&["one.toml", "wild.toml", "other.toml"]).ends(1);
    said.says(&["not compared: wild, seed ", "non-finite loss"]);
    let document = crate::json(&place.0.path().join("compared/comparison.json"));
    let names: Vec<_> = document["contenders"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["one", "other"]);
    assert_eq!(document["failed"][0]["name"], "wild", "{document}");
    assert_eq!(document["settings"][0]["values"].as_array().unwrap().len(), 2, "of those that are compared");
    let page = fs::read_to_string(place.0.path().join("compared/report.html")).unwrap();
    assert!(page.contains("Not compared") && page.contains("wild"));
    compare(&["wild.toml"]).ends(1).says(&["wild, seed", "Lower the learning rate"]);
}

/// A key that only one config has is a difference; what only one method has is none.
#[test]
fn a_setting_that_only_one_config_has_is_shown() {
    let place = Place::new();
    let config =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/regression-left.toml")).unwrap();
    fs::write(place.0.path().join("one.toml"), config.replace("regression-left", "one")).unwrap();
    let clipped = config.replace("regression-left", "clipped").replace("[train]", "[train]\nclip_norm = 0.5");
    fs::write(place.0.path().join("clipped.toml"), clipped).unwrap();
    let mut words = vec!["compare", "one.toml", "clipped.toml", "--device", "cpu", "--out", "compared", "--seeds", "1"];
    words.extend(TINY.iter().filter(|change| !change.starts_with("inducing.")).flat_map(|change| ["--set", change]));
    words.extend(["--methods", "deterministic,mc-dropout"]);
    place.fidgp(&words).ends(0);
    let document = crate::json(&place.0.path().join("compared/comparison.json"));
    let keys: Vec<_> =
        document["settings"].as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap()).collect();
    assert!(keys.contains(&"train.clip_norm") && !keys.iter().any(|key| key.starts_with("baseline.")), "{keys:?}");
}

#[test]
fn what_cannot_be_compared_is_said() {
    let place = Place::new();
    compare(&place, &["--methods", "deterministic,deterministic"]).ends(2).says(&["names two configs", "--methods"]);
    compare(&place, &["--methods", "guesswork"]).ends(2).says(&["guesswork", "method"]);
    compare(&place, &["--methods", "deterministic", "--temperature"]).ends(2).says(&["regression", "temperatures"]);
    compare(&place, &["--methods", "deterministic"]).ends(0);
    compare(&place, &["--methods", "deterministic", "--set", "train.batch_size=25"])
        .ends(2)
        .says(&["holds a run of another config", "--out"]);
}

/// Image classifiers of every shape of output (one pass, members, draws of the last layer) on real images.
#[test]
fn images_are_compared_out_of_distribution_too_and_a_run_is_calibrated() {
    let place = Place::new();
    fs::write(place.0.path().join("images.toml"), &*IMAGES).unwrap();
    let (data, pictures) = (crate::fixture("cifar100-small"), crate::fixture("cifar100-pictures"));
    let (data, pictures) = (data.to_str().unwrap(), pictures.to_str().unwrap());
    let methods = "deterministic,batch-ensemble,laplace,ddu,mc-dropout";
    let compare = |methods: &str, limit: &str| {
        let words = ["compare", "images.toml", "--methods", methods, "--seeds", "1", "--out", "compared"];
        let ood = ["--device", "cpu", "--data", data, "--ood", pictures, "--ood-limit", limit];
        place.fidgp(&[&words[..], &ood].concat()).ends(0)
    };
    let said = compare(methods, "30");
    assert!(said.out.contains("images-batch-ensemble  AUROC % on cifar100-pictures: msp"), "{}", said.out);
    let compared = |part: &str| crate::json(&place.0.path().join("compared/comparison.json"))[part].clone();
    let document = compared("contenders");
    let has_doubt = [false, true, true, false, true];
    for (contender, has_doubt) in document.as_array().unwrap().iter().zip(has_doubt) {
        let scores = &contender["ood"]["cifar100-pictures"];
        assert!((0.0..=1.0).contains(&scores["msp"]["mean"].as_f64().unwrap()), "{contender}");
        assert_eq!(scores["mutual-information"].is_object(), has_doubt, "{contender}");
        let why = contender["ood_left_out"].as_array().unwrap();
        let why = why.iter().any(|why| why.as_str().unwrap().starts_with("total-entropy, mutual-information: "));
        assert_eq!(why, !has_doubt, "{contender}");
    }
    for difference in compared("differences").as_array().unwrap() {
        assert_eq!(difference["units"], "examples", "one seed is no pair: {difference}");
    }
    assert!(document[3]["ood"]["cifar100-pictures"]["ddu"].is_object(), "its own density: {}", document[3]);
    let page = fs::read_to_string(place.0.path().join("compared/report.html")).unwrap();
    assert!(page.contains("Out of distribution") && page.contains("cifar100-pictures: energy"));
    assert!(page.contains("images-deterministic: total-entropy, mutual-information: "), "{page}");

    let benchmark = place.0.path().join("compared/images-ddu/seed-3/ood/ood.json");
    let before = fs::read(&benchmark).unwrap();
    compare("ddu", "30");
    assert_eq!(fs::read(&benchmark).unwrap(), before); // read, not made again
    compare("ddu", "20");
    let after = crate::json(&benchmark);
    assert_eq!((&after["limit"], &after["id_images"]), (&20.into(), &20.into()));

    let run = "compared/images-laplace/seed-3";
    let said = place.fidgp(&["calibrate", run, "--data", data, "--device", "cpu", "--json"]).ends(0);
    let found: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert!(found["nll_after"].as_f64().unwrap() <= found["nll_before"].as_f64().unwrap(), "{found}");
    // results.json is of the network as it was trained, and so is what stands beside it, whoever left a benchmark there
    let temperature = || crate::json(&place.0.path().join(run).join("ood/ood.json"))["temperature"].clone();
    let tempered = ["ood", run, "--data", data, "--device", "cpu", "--ood", pictures, "--limit", "30", "--fit", "30"];
    place.fidgp(&tempered).ends(0);
    assert_eq!(temperature(), found["temperature"]);
    compare(methods, "30");
    assert!(temperature().is_null());
    assert_eq!(compared("contenders")[2]["ood"], document[2]["ood"]);
    let said = place.fidgp(&["predict", "compared/images-ddu/seed-3", pictures, "--device", "cpu"]).ends(0);
    assert!(said.out.contains("log density"), "{}", said.out);

    // what was fitted keeps its precision: roots of covariances have small numbers on their diagonals
    let density = |model: &str| {
        let said = place.fidgp(&["predict", model, pictures, "--device", "cpu", "--json"]).ends(0);
        serde_json::from_str::<serde_json::Value>(&said.out).unwrap()["inputs"][0]["log_density"].as_f64().unwrap()
    };
    place.fidgp(&["export", "compared/images-ddu/seed-3", "--out", "half", "--dtype", "f16"]).ends(0);
    let (whole, half) = (density("compared/images-ddu/seed-3"), density("half"));
    assert!((whole - half).abs() < 0.05 * whole.abs(), "{whole} {half}");
    // a temperature is told wherever it counts
    let said = place.fidgp(&["eval", run, "--data", data, "--device", "cpu"]).ends(0);
    assert!(said.out.contains("(temperature "), "{}", said.out);
    place.fidgp(&["export", run, "--out", "tempered"]).ends(0);
    let card = fs::read_to_string(place.0.path().join("tempered/README.md")).unwrap();
    assert!(card.contains("divides its logits by a temperature of"), "{card}");
}

/// A network that never left its random start is too sure of everything: no temperature is high enough.
#[test]
fn a_temperature_at_the_end_of_its_range_is_said_to_be() {
    let place = Place::new();
    fs::write(place.0.path().join("images.toml"), &*IMAGES).unwrap();
    let data = crate::fixture("cifar100-small");
    let place_of_data = ["--data", data.to_str().unwrap(), "--device", "cpu"];
    let still = ["--set", "train.optimiser.learning_rate=1e-9", "--set", "seed=1"];
    let train = [&["train", "images.toml", "--out", "run"][..], &still, &place_of_data].concat();
    place.fidgp(&train).ends(0);
    let said = place.fidgp(&[&["calibrate", "run"][..], &place_of_data].concat()).ends(0);
    assert!(said.out.contains("temperature 1.0000") && said.out.contains("so none is used"), "{}", said.out);
    assert_eq!(crate::json(&place.path("run/temperature.json"))["at_edge"], true);
}

/// Each network with the temperature that `fidgp calibrate` would fit; the run itself stays as it was trained.
#[test]
fn every_classification_is_measured_with_a_temperature_too() {
    let place = Place::new();
    fs::write(place.0.path().join("images.toml"), &*IMAGES).unwrap();
    let data = crate::fixture("cifar100-small");
    let at = ["--data", data.to_str().unwrap(), "--device", "cpu"];
    let compare = |more: &[&str]| {
        let words =
            ["compare", "images.toml", "--methods", "deterministic,mc-dropout", "--seeds", "1", "--out", "compared"];
        place.fidgp(&[&words[..], &at, more].concat())
    };
    compare(&["--ood", "nowhere"]).ends(2).says(&["nowhere", "neither a known set nor a folder"]);
    compare(&["--ood", "cifar100"]).ends(2).says(&["--ood cifar100", "the ID set itself"]);
    compare(&["--temperature", "--set", "data.validation_fraction=0.0"]).ends(2).says(&["validation_fraction"]);
    compare(&["--temperature", "--set", "train.checkpoint_every=0"]).ends(2).says(&["--temperature", "no checkpoint"]);
    compare(&["--set", "data.name=CIFAR100"]).ends(2).says(&["data.name", "is written `cifar100`"]);
    assert!(!place.path("compared").exists(), "refused before anything is trained");
    let said = compare(&["--temperature"]).ends(0);
    let run = "compared/images-mc-dropout/seed-3";
    assert!(!place.path(run).join("temperature.json").exists());
    let document = crate::json(&place.path("compared/comparison.json"));
    let tempered = &document["contenders"][1]["tempered"];
    let page = fs::read_to_string(place.path("compared/report.html")).unwrap();
    assert!(page.contains("With a temperature"), "{said:?}");
    assert_eq!(compare(&["--temperature"]).ends(0).out, said.out);

    let fitted = place.fidgp(&[&["calibrate", run, "--json"][..], &at].concat()).ends(0);
    let fitted: Value = serde_json::from_str(&fitted.out).unwrap();
    let measured = place.fidgp(&[&["eval", run, "--json"][..], &at].concat()).ends(0);
    let measured: Value = serde_json::from_str(&measured.out).unwrap();
    let [total, aleatoric, epistemic] =
        ["cls/Entropy", "test/ens_Entropy", "test/ens_MI"].map(|name| measured["metrics"][name].as_f64().unwrap());
    assert!((total - aleatoric - epistemic).abs() < 1e-5 && epistemic > 1e-3, "{total} {aleatoric} {epistemic}");
    let same = |a: &Value, b: &Value| (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-5;
    assert!(same(&tempered["temperature"]["mean"], &fitted["temperature"]), "{tempered} {fitted}");
    assert!(same(&tempered["metrics"]["cls/NLL"]["mean"], &measured["metrics"]["cls/NLL"]), "{tempered} {measured}");
    assert!(!same(&tempered["metrics"]["cls/NLL"]["mean"], &document["contenders"][1]["metrics"]["cls/NLL"]["mean"]));
}

static IMAGES: LazyLock<String> = LazyLock::new(|| {
    changed(
        configs::IMAGES,
        r#"
seed = 3
data = { name = "cifar100", augment = "none", validation_fraction = 0.2 }
"#,
    )
});

#[test]
fn complexity_is_counted_measured_and_drawn() {
    let place = Place::new();
    let said = place.fidgp(&["complexity", "--out", "cx", "--rounds", "1", "--device", "cpu", "--json"]).ends(0);
    let table: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(table["by_width"].as_array().unwrap().len(), 20);
    for file in ["complexity.json", "report.html", "storage-width.svg", "time-width.svg", "time-inducing.svg"] {
        assert!(place.0.path().join("cx").join(file).exists(), "{file}");
    }
}
