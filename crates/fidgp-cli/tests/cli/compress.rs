//! A trained network made smaller: sizes by layer within a budget.

use std::fs;

use serde_json::Value;

use crate::wrap::PLAIN;
use crate::{Place, fixture, json};

fn place() -> Place {
    let place = Place::new();
    let wide = PLAIN.replace("name = \"cifar100\"", "name = \"cifar100\"\nvalidation_fraction = 0.2");
    place.write("plain.toml", &wide.replace("epochs = 2", "epochs = 1"));
    let inducing = "\n[inducing]\ninducing_rows = 8\ninducing_cols = 8\n";
    place.write("bayes.toml", &(wide.replace("deterministic", "ffgu") + inducing));
    let data = fixture("cifar100-small");
    let data = data.to_str().unwrap();
    place.fidgp(&["train", "plain.toml", "--device", "cpu", "--data", data, "--out", "plain"]).ends(0);
    place
}

fn compress(place: &Place, more: &[&str]) -> crate::Said {
    let data = fixture("cifar100-small");
    let words = ["compress", "bayes.toml", "--device", "cpu", "--data", data.to_str().unwrap(), "--images", "32"];
    let start = ["--weights", "plain/checkpoint/last.safetensors"];
    place.fidgp(&[&words[..], &start, more].concat())
}

#[test]
fn a_budget_is_kept_and_the_network_can_be_trained_on() {
    let place = place();
    let said = compress(
        &place,
        &["--budget", "parameters=0.7", "--curve", "0.6,0.8", "--json", "--out", "small", "--epochs", "0"],
    )
    .ends(0);
    let said: Value = serde_json::from_str(&said.out).unwrap();
    let (plain, chosen) = (&said["trained"], &said["chosen"]);
    assert!(chosen["share"].as_f64().unwrap() <= 0.7 && chosen["share"].as_f64().unwrap() > 0.5, "{chosen}");
    assert_eq!(plain["share"], 1.0);
    let sizes: Vec<_> = said["layers"].as_array().unwrap().iter().map(|layer| &layer["size"]).collect();
    let different: std::collections::BTreeSet<_> = sizes.iter().map(ToString::to_string).collect();
    assert!(different.len() > 2, "sizes by layer: {sizes:?}");

    let drawn = &chosen["drawn"];
    assert_eq!(drawn["draws"], json(&place.path("small/compress.json"))["config"]["predict"]["draws"]);
    assert!(drawn["nll"].as_f64().unwrap() > 0.0 && drawn["nll"] != chosen["nll"], "{chosen}");
    assert!(plain["drawn"].is_null() && said["tuned"].is_null());

    // both ways have equally many parameters, as far as sizes allow, and what is expected falls with them
    let curve = said["curve"].as_array().unwrap();
    assert_eq!(curve.len(), 6);
    for three in curve.chunks(3) {
        let of = |index: usize, field: &str| three[index][field].as_f64().unwrap();
        assert_eq!(three[0]["parameters"], three[1]["parameters"]);
        assert!(of(2, "parameters") <= of(0, "parameters"));
        assert!(of(2, "expected_loss") <= of(1, "expected_loss"), "{three:?}");
    }

    // the file counts what the report says
    let cost = place.fidgp(&["cost", "small/run.toml", "--json"]).ends(0);
    let cost: Value = serde_json::from_str(&cost.out).unwrap();
    assert_eq!(cost["parameters"], chosen["parameters"]);
    assert_eq!(json(&place.path("small/compress.json"))["chosen"], *chosen);
    assert!(fs::read_to_string(place.path("small/compress.svg")).unwrap().contains("sizes by layer"));
    let data = fixture("cifar100-small");
    place.fidgp(&["train", "--resume", "small", "--device", "cpu", "--data", data.to_str().unwrap()]).ends(0);
}

#[test]
fn bytes_and_accuracy_are_budgets_too_and_what_cannot_be_is_refused() {
    let place = place();
    let table = compress(&place, &["--budget", "size=220kB", "--curve", "0.7"]).ends(0).out;
    assert!(table.contains("expected NLL") && table.contains("one size for all"), "{table}");
    let found = compress(&place, &["--budget", "accuracy-loss=99", "--curve", "0.7", "--json"]).ends(0);
    let found: Value = serde_json::from_str(&found.out).unwrap();
    assert!(found["chosen"]["share"].as_f64().unwrap() < 0.3, "{}", found["chosen"]);
    let none = ["--budget", "accuracy-loss=1", "--set", "data.validation_fraction=0"];
    compress(&place, &none).ends(2).says(&["data.validation_fraction", "accuracy-loss"]);
    compress(&place, &["--budget", "size=1kB"]).ends(2).says(&["--budget", "are the least"]);
    compress(&place, &["--budget", "half"]).ends(2).says(&["parameters=0.5", "size=6MB"]);
    compress(&place, &["--budget", "size=1MB", "--set", "method=deterministic"]).ends(2).says(&["no inducing sizes"]);
}

/// A graph: its sizes chosen, trained for an epoch, calibrated, measured again, and passed on.
#[test]
fn a_graph_is_compressed_tuned_and_calibrated() {
    let place = Place::new();
    fs::copy(crate::onnx::graph("pictures.dynamo.onnx"), place.path("pictures.onnx")).unwrap();
    crate::onnx::ten_classes(&place);
    let on = ["--device", "cpu", "--threads", "1", "--data", ".", "--images", "32"];
    let mine = "data={set=\"arrays\", path=\"mine\", classes=10, image=[3,32,32], validation_fraction=0.2}";
    let set = [mine, "normalisation=imagenet", "method=ffgu", "train.batch_size=20", "start.statistics_images=16"];
    let set = set.into_iter().flat_map(|change| ["--set", change]).collect::<Vec<_>>();
    let budget = ["--budget", "parameters=0.9", "--curve", "0.9", "--out", "small"];
    let said = place.fidgp(&[&["compress", "pictures.onnx"][..], &on, &set, &budget].concat()).ends(0);
    for words in ["conv1", "… mean of 8 weight draws", "after 1 epochs of training, calibrated"] {
        assert!(said.out.contains(words), "`{words}` is not in\n{}", said.out);
    }
    let report = json(&place.path("small/compress.json"));
    let (chosen, tuned) = (&report["chosen"]["drawn"]["nll"], &report["tuned"]);
    assert_eq!(tuned["epochs"], 1);
    assert!(tuned["temperature"].is_f64() && tuned["drawn"]["nll"] != *chosen, "{report}");
    place.fidgp(&["export", "small", "--format", "onnx", "--out", "small.onnx"]).ends(0).says(&["probabilities"]);
}
