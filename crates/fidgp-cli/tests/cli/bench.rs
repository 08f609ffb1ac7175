//! Times: what is measured, and how it grows. The times themselves are the machine's affair.

use std::sync::LazyLock;

use crate::child::Running;
use crate::configs::{self, changed};
use crate::{Place, contents, json};

/// A ResNet-18 of a sixteenth of the usual width.
static TINY: LazyLock<String> = LazyLock::new(|| {
    changed(
        configs::IMAGES,
        r#"
name = "tiny"
method = "fidgp"
data.name = "mnist"
inducing = { inducing_rows = 4, inducing_cols = 4, rules = [{ layers = ["fc"], inducing_rows = 2 }] }
train = { batch_size = 2, optimiser.learning_rate = 0.001 }
"#,
    )
});

const QUICK: [&str; 10] = ["bench", "tiny.toml", "--batch", "2", "--draws", "2", "--rounds", "1", "--device", "cpu"];

fn place() -> Place {
    let place = Place::new();
    place.write("tiny.toml", &TINY);
    place
}

fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    QUICK.iter().chain(more).copied().collect()
}

#[test]
fn time_grows_along_four_axes() {
    let place = place();
    let sweeps = ["--grow", "m=2,4", "--grow", "k=1,2", "--grow", "batch=1,2", "--grow", "layers=0,1,all"];
    let said = place.fidgp(&words(&[&sweeps[..], &["--out", "growth"]].concat())).ends(0);
    let said = said.says(&["m = 2: train", "k = 2: predict", "layers = 21: train", "report.html"]);
    assert!(said.out.contains("train, ms     x first     counted"), "{}", said.out);
    let growth = json(&place.path("growth/growth.json"));
    assert_eq!((growth["schema"].as_str(), growth["method"].as_str()), (Some("fidgp-growth/1"), Some("fidgp")));
    assert!(growth["command"].as_str().unwrap().starts_with("fidgp bench tiny.toml"));
    assert!(growth["hardware"]["threads"].as_u64().unwrap() >= 1 && !growth["commit"].as_str().unwrap().is_empty());
    let axis = |index: usize| growth["axes"][index]["points"].as_array().unwrap().clone();
    let values = |index: usize| axis(index).iter().map(|point| point["value"].as_i64().unwrap()).collect::<Vec<_>>();
    assert_eq!((values(0), values(1), values(2), values(3)), (vec![2, 4], vec![1, 2], vec![1, 2], vec![0, 1, 21]));
    for index in 0..4 {
        let points = axis(index);
        assert!(points.iter().all(|point| point["predict"]["least_ms"].as_f64().unwrap() > 0.0));
        assert!(points.windows(2).all(|pair| pair[0]["predict_macs"].as_i64() < pair[1]["predict_macs"].as_i64()));
        assert!(points.iter().all(|point| point["train"].is_null() == (index == 1)), "K is the prediction's alone");
        assert_eq!(points[0]["train_macs"].is_null(), index == 1);
    }
    // every pass of a network that is Bayesian from its first layer on costs the same
    assert_eq!(axis(1)[1]["predict_macs"].as_i64(), axis(1)[0]["predict_macs"].as_i64().map(|macs| 2 * macs));
    let page = std::fs::read_to_string(place.path("growth/report.html")).unwrap();
    assert_eq!(page.matches("<table>").count(), 4);
    for name in ["growth", "growth-m", "growth-k", "growth-batch", "growth-layers"] {
        assert!(place.path(&format!("growth/{name}.svg")).is_file(), "{name}");
    }
    assert_eq!(contents(&place.path("growth")).len(), 7, "nothing else is left");
}

#[test]
fn what_cannot_grow_is_misuse_and_found_before_measuring() {
    let place = place();
    let refused = |more: &[&str], says: &[&str]| {
        let said = place.fidgp(&words(&[more, &["--out", "growth"]].concat())).ends(2).says(says);
        assert!(said.out.is_empty() && !place.path("growth").exists(), "{said:?}");
    };
    refused(&["--grow", "width"], &["--grow width", "m, k, batch or layers"]);
    refused(&["--grow", "layers=5"], &["`5`", "0 to 4"]);
    refused(&["--grow", "k=2", "--grow", "m=2", "--set", "method=deterministic"], &["--grow k", "deterministic"]);
    refused(&["--grow", "m=2", "--set", "method=deterministic"], &["--grow m", "needs inducing weights"]);
    refused(&["--grow", "k=1", "tiny.toml"], &["--grow", "one config"]);
    refused(&[], &["--grow"]);
}

/// Stopped in the middle: there is no folder, not even an empty one. Not by Ctrl-C's signal, which a process that was started
/// in the background ignores.
#[test]
#[cfg(unix)]
fn an_interrupted_growth_leaves_nothing() {
    let place = place();
    let axis = format!("batch=1{}", ",1024".repeat(15)); // long enough, however slowly the interrupt comes
    let all = words(&["--grow", &axis, "--out", "growth"]);
    let mut child = Running::start(place.command(&all));
    child.until("its first line", |said| said.err.starts_with("batch = 1: train"));
    child.signal("-TERM");
    assert_ne!(child.said().code, Some(0));
    assert!(!place.path("growth").exists());
}

#[test]
fn parts_name_factors_draw_and_one_layer_by_both_orders() {
    let said = place().fidgp(&words(&["--parts", "--json"])).ends(0);
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let times = json[0]["times"].as_array().unwrap();
    let named = |name: &str| times.iter().any(|time| time["what"] == name && time["median_ms"].as_f64() > Some(0.0));
    for name in ["factors", "factors and draw", "layer4.1.conv2, W built", "layer4.1.conv2, factored"] {
        assert!(named(name), "{name}: {times:?}");
    }
}
