//! Counts of the paper's plans, to the last digit.

use crate::Place;

fn parameters(config: &str, overrides: &[&str]) -> i64 {
    let path = format!("{}/../../configs/{config}.toml", env!("CARGO_MANIFEST_DIR"));
    let mut words = vec!["cost", path.as_str(), "--compat", "--json"];
    words.extend(overrides.iter().flat_map(|change| ["--set", change]));
    let said = Place::new().fidgp(&words).ends(0);
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    json["parameters"].as_i64().unwrap()
}

#[test]
fn plans_of_the_paper_have_its_parameters() {
    assert_eq!(parameters("cifar100-deterministic", &[]), 11_220_132);
    assert_eq!(parameters("cifar100-ffgu", &[]), 5_354_377);
    assert_eq!(parameters("cifar100-fidgp-four", &[]), 8_008_168);
    for (size, count) in [(32, 1_354_637), (64, 2_657_773), (128, 5_509_805), (256, 12_196_909)] {
        let sizes = [format!("inducing.inducing_rows={size}"), format!("inducing.inducing_cols={size}")];
        assert_eq!(parameters("cifar100-fidgp-all", &[&sizes[0], &sizes[1]]), count, "M = {size}");
    }
    assert_eq!(parameters("imagenet-deterministic", &[]), 11_689_512);
    assert_eq!(parameters("imagenet-fidgp-all", &[]), 5_615_165);
    assert_eq!(parameters("imagenet-fidgp-four", &[]), 8_477_548);
    assert_eq!(parameters("camvid-deterministic", &[]), 35_317_601);
    assert_eq!(parameters("camvid-ffgu", &[]), 15_845_817);
    assert_eq!(parameters("camvid-fidgp-all", &[]), 16_288_137);
    assert_eq!(parameters("camvid-fidgp-four", &[]), 32_695_461);
    assert_eq!(parameters("camvid-fidgp-four-reparam", &[]), 32_695_461);
    assert_eq!(parameters("cityscapes-deterministic", &[]), 65_859_379);
    assert_eq!(parameters("cityscapes-ffgu", &[]), 55_646_803);
    assert_eq!(parameters("cityscapes-fidgp-all", &[]), 58_029_123);
    // FFG-U: FiD-GP less R + C of every layer's scales and less 7,504 of the flow of each of its 20 convolutions
    assert_eq!(parameters("imagenet-ffgu", &[]), 5_615_165 - 20 * (256 + 7_504) - 228);
}

/// bayesianize's own JSON in place of our settings: 128×128 everywhere and 100×128 at the end is the FFG-U of our config.
#[test]
fn a_bayesianize_config_is_taken_unchanged() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/cifar100-ffgu.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let (start, end) = (text.find("[inducing]").unwrap(), text.find("[likelihood]").unwrap());
    let place = Place::new();
    place.write("run.toml", &format!("{}[inducing]\nbayesianize = \"plan.json\"\n{}", &text[..start], &text[end..]));
    place.fidgp(&["cost", "run.toml"]).ends(2).says(&["inducing.bayesianize", "plan.json"]);
    let plan = r#"{"inference": {"Conv2d": {"inference": "inducing", "inducing_rows": 128, "inducing_cols": 128},
        "Linear": {"inference": "inducing", "inducing_rows": 100, "inducing_cols": 128}}, "q_inducing": "diagonal",
        "whitened_u": true, "max_lamda": 0.03, "max_sd_u": 0.1, "prior_sd": 1.0, "sqrt_width_scaling": true}"#;
    place.write("plan.json", plan);
    let said = place.fidgp(&["cost", "run.toml", "--compat", "--json"]).ends(0);
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(json["parameters"], 5_354_377);
    let both = ["cost", "run.toml", "--set", "inducing.inducing_rows=3"];
    place.fidgp(&both).ends(2).says(&["stands alone", "inducing.inducing_rows"]);
    place.write("plan.json", &plan.replace("max_sd_u", "max_sd"));
    place.fidgp(&["cost", "run.toml"]).ends(2).says(&["inducing.bayesianize", "max_sd"]);
}

/// A folder is not read for its cost: the config must say how many classes there are.
#[test]
fn a_folder_without_a_class_count_has_no_cost() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/imagenet-fidgp-all.toml");
    let text = std::fs::read_to_string(path).unwrap().replace("classes = 1000\n", "");
    let place = Place::new();
    place.write("unknown.toml", &text);
    place.fidgp(&["cost", "unknown.toml"]).ends(2).says(&["data.classes", "say how many"]);
}

#[test]
fn a_table_is_printed_without_json() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/regression-left.toml");
    insta::assert_snapshot!("cost_regression", Place::new().fidgp(&["cost", path]).ends(0).out);
}

/// What is stored is of all members, what one pass computes of one of them, what a prediction computes of all.
#[test]
fn a_prediction_is_counted_with_all_its_passes() {
    let count = |method: &str| -> serde_json::Value {
        let method = format!("method={method}");
        let said = Place::new().fidgp(&["cost", FOUR, "--json", "--set", &method, "--set", "predict.draws=8"]).ends(0);
        serde_json::from_str(&said.out).unwrap()
    };
    let plain = count("deterministic");
    let (macs, head) = (plain["macs"].as_i64().unwrap(), 512 * 100);
    let turned = 100 * 100 * 513 + 100 * 513 * 513; // a draw of Laplace: noise turned by both bases
    for (method, passes, expected) in [
        ("deterministic", 1, macs),
        ("ensemble", 5, 5 * macs),
        ("batch-ensemble", 4, 4 * macs),
        ("mean-field", 8, 8 * macs),
        ("laplace", 8, macs + 7 * head + 8 * turned),
    ] {
        let cost = count(method);
        assert_eq!(cost["macs"], macs, "{method}");
        let prediction =
            serde_json::json!({"passes": passes, "backward_passes": 0, "macs": expected, "flops": 2 * expected});
        assert_eq!(cost["prediction"], prediction, "{method}");
    }
    assert_eq!(count("ensemble")["parameters"], 5 * plain["parameters"].as_i64().unwrap());
    let table = Place::new().fidgp(&["cost", FOUR, "--set", "method=batch-ensemble"]).ends(0).out;
    assert!(table.contains("MACs of a prediction, 4 passes, our order"), "{table}");
    assert!(table.contains("2,221,875,200"), "{table}"); // 4 × 555,468,800
}

/// A linearised posterior draws no weights: one pass, and for numbers a backward pass for each output.
#[test]
fn a_linearised_posterior_costs_its_own_passes() {
    let count = |config: &str, change: &str| -> serde_json::Value {
        let path = format!("{}/../../configs/{config}.toml", env!("CARGO_MANIFEST_DIR"));
        let said = Place::new().fidgp(&["cost", &path, "--json", "--set", change]).ends(0);
        serde_json::from_str(&said.out).unwrap()
    };
    let (drawn, linear) = (count("demo", "posterior.kind=flow"), count("demo", "predict.draws=9"));
    assert_eq!((&linear["prediction"]["passes"], &linear["prediction"]["backward_passes"]), (&1.into(), &1.into()));
    let macs = |cost: &serde_json::Value| cost["prediction"]["macs"].as_i64().unwrap();
    let layers = linear["layers"].as_array().unwrap();
    let forward: i64 = layers.iter().map(|layer| layer["macs_ours"].as_i64().unwrap()).sum();
    assert!(macs(&linear) == 2 * forward && macs(&linear) < macs(&drawn), "{} {}", macs(&linear), macs(&drawn));
    let images = count("cifar100-fidgp-four", "posterior={kind=\"linearised\"}");
    assert_eq!((&images["prediction"]["passes"], &images["prediction"]["backward_passes"]), (&1.into(), &0.into()));
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/demo.toml");
    let table = Place::new().fidgp(&["cost", demo]).ends(0).out;
    assert!(table.contains("MACs of a prediction, 1 forward + 1 backward, our order"), "{table}");
}

const FOUR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/cifar100-fidgp-four.toml");

/// Both orders of evaluation side by side, and why one is taken.
#[test]
fn the_order_of_evaluation_is_explained() {
    let outputs = ["--set", "inducing.conditional=reparam", "--set", "inducing.noise=outputs"];
    let words: Vec<_> = ["cost", FOUR, "--explain"].into_iter().chain(outputs).collect();
    insta::assert_snapshot!("cost_explained", Place::new().fidgp(&words).ends(0).out);
    let matheron = Place::new().fidgp(&["cost", FOUR, "--explain"]).ends(0).out;
    assert_eq!(matheron.matches("built: noise of").count(), 4, "{matheron}");
    let plain = Place::new().fidgp(&["cost", FOUR, "--explain", "--set", "method=deterministic"]).ends(0).out;
    assert!(plain.starts_with("No layer is Bayesian"), "{plain}");
    Place::new().fidgp(&["cost", FOUR, "--explain", "--compat"]).ends(2).says(&["--compat"]);
}

#[test]
fn an_explanation_fits_a_hundred_columns() {
    let outputs = ["--set", "inducing.conditional=reparam", "--set", "inducing.noise=outputs"];
    for config in ["camvid-fidgp-all", "cityscapes-fidgp-all", "imagenet-fidgp-all"] {
        let path = format!("{}/../../configs/{config}.toml", env!("CARGO_MANIFEST_DIR"));
        let words: Vec<_> = ["cost", path.as_str(), "--explain"].into_iter().chain(outputs).collect();
        let said = Place::new().fidgp(&words).ends(0).out;
        assert!(said.contains("factored: C(") && said.contains("built: C("), "{config}");
        let wide = said.lines().find(|line| line.chars().count() > 100);
        assert!(wide.is_none(), "{config}: {wide:?}");
    }
}
