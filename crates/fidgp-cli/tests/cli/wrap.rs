//! A trained network wrapped: measured before and after, and trained on.

use std::fs;
use std::sync::LazyLock;

use serde_json::Value;

use crate::configs::{self, changed};
use crate::{Place, fixture, json};

/// A plain network for the little images of the tests.
pub static PLAIN: LazyLock<String> = LazyLock::new(|| {
    changed(
        configs::IMAGES,
        r#"
name = "plain"
seed = 5
data.name = "cifar100"
network = { kind = "resnet-cifar", depth = 8 }
train = { epochs = 2, optimiser = { kind = "sgd", learning_rate = 0.05 } }
"#,
    )
});

const INDUCING: &str = "\n[inducing]\ninducing_rows = 100\ninducing_cols = 100\n[predict]\ndraws = 3\n";

/// Under a bound a layer is smaller than its stored weights: without it they are another network's.
#[test]
fn bounded_weights_are_refused_without_their_bound() {
    let place = Place::new();
    place.write("plain.toml", &PLAIN);
    let data = fixture("cifar100-small");
    let train = |out: &str, more: &[&str]| {
        let words = ["train", "plain.toml", "--device", "cpu", "--data", data.to_str().unwrap(), "--out", out];
        place.fidgp(&[&words[..], &["--set", "train.epochs=1"], more].concat())
    };
    train("bounded", &["--set", "network.spectral_norm=0.2"]).ends(0);
    let start = ["--set", "start={weights=\"bounded/checkpoint/last.safetensors\", statistics_images=0}"];
    train("free", &start).ends(2).says(&["start.weights", "spectral bound (`conv1`)", "network.spectral_norm"]);
    let as_it_is = [&start[..], &["--set", "network.spectral_norm=0.2", "--set", "train.epochs=0", "--set", "seed=9"]];
    train("same", &as_it_is.concat()).ends(0);
    let nll = |run: &str| json(&place.path(&format!("{run}/results.json")))["metrics"]["cls/NLL"].as_f64().unwrap();
    assert!((nll("same") / nll("bounded") - 1.0).abs() < 0.02, "{} {}", nll("same"), nll("bounded"));
}

fn wrap(place: &Place, more: &[&str]) -> crate::Said {
    let data = fixture("cifar100-small");
    let words = ["wrap", "bayes.toml", "--device", "cpu", "--data", data.to_str().unwrap()];
    place.fidgp(&[&words, more].concat())
}

#[test]
fn a_wrapped_network_starts_at_the_trained_one_and_is_trained_on() {
    let place = Place::new();
    let data = fixture("cifar100-small");
    let data = data.to_str().unwrap();
    place.write("plain.toml", &PLAIN);
    place.write("bayes.toml", &(PLAIN.replace("deterministic", "fidgp") + INDUCING));
    place.fidgp(&["train", "plain.toml", "--device", "cpu", "--data", data, "--out", "plain"]).ends(0);
    let weights = "plain/checkpoint/last.safetensors";

    wrap(&place, &[]).ends(2).says(&["start.weights", "--weights FILE"]);
    wrap(&place, &["--weights", "nowhere.pt"]).ends(2).says(&["nowhere.pt"]);
    wrap(&place, &["--weights", weights, "--set", "method=deterministic"]).ends(2).says(&["nothing to wrap"]);

    let said = wrap(&place, &["--weights", weights, "--json", "--out", "wrapped"]).ends(0);
    let said: Value = serde_json::from_str(&said.out).unwrap();
    let stage = |index: usize| &said["stages"][index];
    // as many inducing rows and columns as the rank: the same network
    assert_eq!(stage(0)["accuracy"], stage(1)["accuracy"], "{said}");
    assert!((stage(0)["nll"].as_f64().unwrap() - stage(1)["nll"].as_f64().unwrap()).abs() < 1e-3, "{said}");
    assert_eq!(said["stages"].as_array().unwrap().len(), 5);
    assert!(stage(4)["name"].as_str().unwrap().contains("linearised posterior (classes, features of"), "{said}");
    assert!(said["uncertainty"]["share"].as_f64().unwrap() > 0.005, "{}", said["uncertainty"]);
    assert_eq!(json(&place.path("wrapped/posterior.json"))["step"], 0);
    let drawn = ["--weights", weights, "--set", "posterior.kind=flow"];
    let drawn = wrap(&place, &drawn).ends(0);
    assert!(!drawn.out.contains("linearised posterior (") && drawn.err.contains("practically nil"), "{}", drawn.err);
    assert!(
        said["start"]["layers"].as_array().unwrap().iter().all(|layer| layer["energy_kept"].as_f64().unwrap() > 0.999)
    );

    // its own normalisation comes with the weights: another one is refused, the record would not be true
    let other = ["--weights", weights, "--set", "normalisation=imagenet"];
    wrap(&place, &other).ends(2).says(&["`normalisation` gives mean [0.4850", weights, "bring their own"]);

    // a training that names the weights starts there too, and quietly: nobody listens to what it says about it
    let start = format!("start.weights={weights}");
    let still = ["train.epochs=1", "train.optimiser.learning_rate=1e-9", &start];
    let still = still.into_iter().flat_map(|change| ["--set", change]);
    let words = ["train", "bayes.toml", "--device", "cpu", "--data", data, "--out", "started"];
    place.fidgp(&words.into_iter().chain(still).collect::<Vec<_>>()).ends(0);
    let nll = json(&place.path("started/results.json"))["metrics"]["cls/NLL"].as_f64().unwrap();
    let wrapped = stage(3)["nll"].as_f64().unwrap();
    assert!((nll - wrapped).abs() < 0.1, "{nll} after a start at {wrapped}");

    let table = wrap(&place, &["--weights", weights, "--set", "inducing.inducing_cols=4"]).ends(0);
    assert!(table.out.contains("energy %") && table.out.contains("mean of 3 weight draws"), "{}", table.out);
    wrap(&place, &["--weights", weights, "--out", "wrapped"]).ends(2).says(&["holds a run already"]);

    place.fidgp(&["train", "--resume", "wrapped", "--device", "cpu", "--data", data]).ends(0);
    let epochs = fs::read_to_string(place.path("wrapped/metrics.jsonl")).unwrap();
    assert_eq!(epochs.lines().count(), 2);
    assert_eq!(json(&place.path("wrapped/results.json"))["method"], "fidgp");
    let step = json(&place.path("wrapped/posterior.json"))["step"].as_u64().unwrap();
    assert!(step > 0, "fitted anew to the trained weights");
    place.fidgp(&["fit-posterior", "wrapped", "--device", "cpu", "--data", data]).ends(0);
    place.fidgp(&["eval", "wrapped", "--device", "cpu", "--data", data]).ends(0);
}

/// Weights of a deeper network have all that a shallower one needs; that some are left over is said, by default.
#[test]
fn weights_of_a_deeper_network_are_warned_of() {
    let place = Place::new();
    let data = fixture("cifar100-small");
    let data = data.to_str().unwrap();
    place.write("deep.toml", &PLAIN.replace("depth = 8", "depth = 14").replace("epochs = 2", "epochs = 1"));
    place.write("bayes.toml", &(PLAIN.replace("deterministic", "fidgp") + INDUCING));
    place.fidgp(&["train", "deep.toml", "--device", "cpu", "--data", data, "--out", "deep"]).ends(0);
    let weights = "deep/checkpoint/last.safetensors";
    let warning = "the network has no place for 12 layers of the file (layer1.1.bn1, layer1.1.bn2, layer1.1.conv1, …)";
    let line = "last.safetensors: 39 tensors matched, 0 renamed, 0 missing, 30 unused";
    wrap(&place, &["--weights", weights]).ends(0).says(&[warning, line]);
    let start = format!("start.weights={weights}");
    let words = ["train", "bayes.toml", "--device", "cpu", "--data", data, "--set", &start, "--set", "train.epochs=1"];
    place.fidgp(&words).ends(0).says(&[warning, line]);

    // nothing of ours is counted as a foreign file's
    let header = r#"{"conv1.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat();
    fs::write(place.path("foreign.safetensors"), file).unwrap();
    let said = wrap(&place, &["--weights", "foreign.safetensors"]).ends(2);
    said.says(&["the weights do not fit the network", "matched          0", "conv1.weight [1] in the file"]);
}

/// Without training images the normalisation must be given, and be that of the weights.
#[test]
fn the_training_set_is_not_needed_where_the_normalisation_is_given() {
    let place = Place::new();
    let data = place.path("data/cifar-100-binary");
    fs::create_dir_all(&data).unwrap();
    fs::copy(fixture("cifar100-small/cifar-100-binary/test.bin"), data.join("test.bin")).unwrap();
    place.write("plain.toml", &PLAIN);
    let small = fixture("cifar100-small");
    let train = ["train", "plain.toml", "--device", "cpu", "--data", small.to_str().unwrap(), "--out", "plain"];
    let normalised = ["--set", "normalisation=imagenet"];
    place.fidgp(&[&train[..], &normalised].concat()).ends(0);
    place.write("bayes.toml", &(PLAIN.replace("deterministic", "fidgp") + INDUCING));
    let words =
        ["wrap", "bayes.toml", "--device", "cpu", "--data", "data", "--weights", "plain/checkpoint/last.safetensors"];
    place.fidgp(&words).ends(1).says(&["data/cifar-100-binary/train.bin: cannot be read"]);
    let said = place.fidgp(&[&words[..], &normalised].concat()).ends(0);
    said.says(&["BatchNorm statistics are those of the file", "train.bin", "no linearised posterior was fitted"]);
    let asked = ["--set", "posterior.kind=linearised"];
    let refused = place.fidgp(&[&words[..], &normalised, &asked].concat()).ends(2);
    refused.says(&["posterior.kind", "training images", "train.bin", "posterior.kind=flow"]);
    // what is kept says that weights are drawn, and they are
    place.fidgp(&[&words[..], &normalised, &["--out", "wrapped"]].concat()).ends(0);
    assert!(fs::read_to_string(place.path("wrapped/run.toml")).unwrap().contains("kind = \"flow\""));
    assert!(!place.path("wrapped/posterior.json").exists());
}

/// The weights in common use (github.com/akamaster/pytorch_resnet_cifar10) on the real test set: 91.73 % and 93.39 %.
///
/// `FIDGP_DATA=… FIDGP_WEIGHTS=… cargo test --release -p fidgp-cli --test cli -- --ignored real_weights`
#[test]
#[ignore = "needs CIFAR-10 under $FIDGP_DATA and resnet{20,56}-cifar10.safetensors in $FIDGP_WEIGHTS"]
fn real_weights_have_their_accuracy_and_keep_it_when_wrapped() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("set {name}"));
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/cifar10-resnet20-fidgp.toml");
    for (depth, expected) in [(20, 0.917), (56, 0.934)] {
        let weights = format!("{}/resnet{depth}-cifar10.safetensors", variable("FIDGP_WEIGHTS"));
        let changes = [
            format!("network.depth={depth}"),
            "inducing.inducing_rows=64".to_owned(),
            "inducing.inducing_cols=64".to_owned(),
            "predict.draws=1".to_owned(),
        ];
        let mut words = vec!["wrap", config, "--json", "--weights", &weights, "--device", "cpu"];
        words.extend(changes.iter().flat_map(|change| ["--set", change.as_str()]));
        let output = Place::new().command(&words).env("FIDGP_DATA", variable("FIDGP_DATA")).output().unwrap();
        let said: Value = serde_json::from_str(&crate::Said::by(&output).ends(0).out).unwrap();
        for stage in said["stages"].as_array().unwrap() {
            let accuracy = stage["accuracy"].as_f64().unwrap();
            assert!((accuracy - expected).abs() < 0.003, "ResNet-{depth}: {stage}");
        }
    }
}

/// A trained network for a table: as safetensors of its own and as a graph, for numbers; wrapped, kept, used, trained further.
#[test]
fn a_network_for_a_table_is_wrapped() {
    let place = crate::tables::place();
    let train = [&crate::tables::TRAIN[..], &["plain", "--set", "method=deterministic"]].concat();
    place.fidgp(&train).ends(0);
    place.fidgp(&["export", "plain", "--format", "onnx", "--normalised", "--draws", "mean", "--out", "x.onnx"]).ends(0);
    let weights = ["--weights", "plain/checkpoint/last.safetensors", "--set", "normalisation=data"];
    let words = ["wrap", "houses.toml", "--device", "cpu", "--data", "data", "--out", "run"];
    let said = place.fidgp(&[&words[..], &weights].concat()).ends(0);
    assert!(said.out.contains("40 test rows") && said.out.contains("RMSE"), "{}", said.out);
    let said = place.fidgp(&[&words[..6], &["--json"], &weights].concat()).ends(0);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let stages = report["stages"].as_array().unwrap();
    let rmse: Vec<f64> = stages.iter().map(|stage| stage["rmse"].as_f64().unwrap()).collect();
    assert_eq!(stages.len(), 3, "{stages:?}");
    assert!(rmse[0] < 30.0 && rmse[2] < 1.5 * rmse[0] && stages[0].get("accuracy").is_none(), "{stages:?}");
    assert!(report["uncertainty"]["share"].as_f64().unwrap() > 0.0, "{report}");
    let row = ["predict", "run", "data/houses.csv", "--device", "cpu", "--json"];
    let said: Value = serde_json::from_str(&place.fidgp(&row).ends(0).out).unwrap();
    assert!(said["inputs"][0]["prediction"]["mean"].as_f64().unwrap() > 500.0, "{said}");
    let resume = ["train", "--resume", "run", "--device", "cpu", "--data", "data"];
    place.fidgp(&resume).ends(0);
    assert!(json(&place.path("run/results.json"))["metrics"]["reg/RMSE"].as_f64().unwrap() < 30.0);
}
