//! Runs that succeed: what they leave, and what the command line changes in them.

use std::fs;

use crate::{Place, json, left};

#[test]
fn a_run_leaves_config_checkpoint_epochs_and_results_and_a_report_is_made_of_them() {
    let place = Place::new();
    let said = place.train(&[]).ends(0).says(&["look at it with: fidgp report run"]);
    assert!(said.out.contains("reg/RMSE"), "{said:?}");
    for file in ["run/run.toml", "run/checkpoint/last.safetensors", "run/metrics.jsonl", "run/results.json"] {
        assert!(place.path(file).is_file(), "{file} is missing");
    }
    assert_eq!(fs::read_to_string(place.path("run/metrics.jsonl")).unwrap().lines().count(), 3);

    let page = place.fidgp(&["report", "run"]).ends(0).out;
    assert_eq!(page.trim(), "run/report.html");
    let html = fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(html.contains("<svg") && !html.contains("src=\"http"), "one page with its figures inside");
    assert!(place.path("run/regression-left-regression.svg").is_file());
}

#[test]
fn results_say_what_was_done() {
    let place = Place::new();
    place.train(&["--set", "seed=7", "--set", "name=\"other\""]).ends(0);
    let results = json(&place.path("run/results.json"));
    assert_eq!(results["schema"], "fidgp-results/1");
    assert_eq!(
        (&results["name"], &results["method"], &results["data"]),
        (&"other".into(), &"fidgp".into(), &"synthetic-1d".into())
    );
    assert_eq!(results["seed"], 7);
    assert_eq!(results["config"]["train"]["epochs"], 3);
    assert!(results["command"].as_str().unwrap().starts_with("fidgp train "), "{}", results["command"]);
    for name in ["reg/RMSE", "reg/NLL", "reg/CRPS", "reg/Coverage", "reg/RMSE_truth", "reg/EpistemicSD_gap_ratio"] {
        assert!(results["metrics"][name].is_number(), "{name}: {}", results["metrics"]);
    }
    for name in ["parameters", "bytes", "macs"] {
        assert!(results["cost"][name].as_u64().unwrap() > 0, "{name}");
    }
}

/// `run.toml` is whole: it needs nothing else to give the same run.
#[test]
fn the_written_config_repeats_the_run() {
    let place = Place::new();
    place.train(&[]).ends(0);
    place.fidgp(&["train", "run/run.toml", "--device", "cpu", "--out", "again"]).ends(0);
    assert_eq!(fs::read(place.path("run/run.toml")).unwrap(), fs::read(place.path("again/run.toml")).unwrap());
    assert_eq!(json(&place.path("run/results.json"))["metrics"], json(&place.path("again/results.json"))["metrics"]);
}

#[test]
fn one_config_serves_every_method() {
    for method in ["deterministic", "ffgu", "fidgp"] {
        let place = Place::new();
        place.train(&["--set", &format!("method={method}")]).ends(0);
        let results = json(&place.path("run/results.json"));
        assert_eq!(results["method"], method);
        let family = &results["config"]["inducing"]["posterior"]["family"];
        let expected = match method {
            "ffgu" => "diagonal".into(),
            "fidgp" => "flow".into(),
            _ => serde_json::Value::Null,
        };
        assert_eq!(*family, expected);
        let epoch = fs::read_to_string(place.path("run/metrics.jsonl")).unwrap();
        assert_eq!(epoch.contains("\"lambda_min\":null"), method == "deterministic", "{epoch}");
    }
}

#[test]
fn a_posterior_on_the_command_line_outlives_a_change_of_method() {
    let place = Place::new();
    let posterior = "inducing.posterior={family=\"flow\", flow={kind=\"lipschitz\"}}";
    place.train(&["--set", posterior, "--set", "method=fidgp"]).ends(0);
    assert_eq!(json(&place.path("run/results.json"))["config"]["inducing"]["posterior"]["flow"]["kind"], "lipschitz");
}

#[test]
fn rules_give_some_layers_other_settings() {
    let place = Place::new();
    let config = fs::read_to_string(left()).unwrap() + "\n[[inducing.rules]]\nlayers = [\"fc1\"]\ninducing_rows = 2\n";
    place.write("rules.toml", &config);
    let mut words = crate::words_of_training(&[]);
    words[1] = "rules.toml";
    place.fidgp(&words).ends(0);
    let checkpoint = fs::read(place.path("run/checkpoint/last.safetensors")).unwrap();
    let header = crate::resume::header(&checkpoint);
    let rows = |layer: &str| header[format!("{layer}.z_row")]["shape"][0].clone();
    assert_eq!((rows("fc1"), rows("fc2")), (2.into(), 6.into()), "{header}");
}

#[test]
fn several_runs_share_one_report() {
    let place = Place::new();
    for method in ["fidgp", "deterministic"] {
        place.train(&["--set", &format!("method={method}")]).ends(0);
        fs::create_dir_all(place.path("all")).unwrap();
        fs::rename(place.path("run"), place.path(&format!("all/{method}"))).unwrap();
    }
    place.fidgp(&["report", "all", "--out", "both.html"]).ends(0);
    let html = fs::read_to_string(place.path("both.html")).unwrap();
    assert!(html.contains("fidgp") && html.contains("deterministic"));
}
