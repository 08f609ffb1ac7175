//! Configs in the form of bayesianize.

use fidgp::layer::SlotConfig;
use fidgp::posterior::PosteriorConfig;
use fidgp::weight::InducingConfig;
use fidgp_zoo::{LayerKind, LayerPlan, ResnetConfig, bayesianise, mean_field_from_bayesianize};

const COMMON: &str = r#""whitened_u": true, "q_inducing": "diagonal", "learn_lamda": true, "init_lamda": 0.001,
    "max_lamda": 0.03, "max_sd_u": 0.1, "cache_cholesky": true, "prior_sd": 0.5, "sqrt_width_scaling": true"#;

fn with(inference: &str) -> String {
    format!("{{\"inference\": {inference}, {COMMON}}}")
}

fn config(plan: &LayerPlan, path: &str, kind: LayerKind) -> Option<InducingConfig> {
    match plan.slot_for(path, kind) {
        SlotConfig::Inducing(config) => Some(*config),
        SlotConfig::Dense | SlotConfig::Custom(_) => None,
    }
}

#[test]
fn settings_by_class_and_by_name() {
    let json = with(
        r#"{"Conv2d": {"inference": "inducing", "inducing_rows": 64, "inducing_cols": 128},
            "Linear": {"inference": "inducing", "inducing_rows": 10, "inducing_cols": 128, "prior_sd": 2.0},
            "layer4.1.conv2": {"inference": "inducing", "inducing_rows": 32, "inducing_cols": 16}}"#,
    );
    let plan = LayerPlan::from_bayesianize(&json).unwrap();
    let conv = config(&plan, "layer1.0.conv1", LayerKind::Conv).unwrap();
    assert_eq!(
        (conv.inducing_rows, conv.inducing_cols, conv.posterior.clone()),
        (64.into(), 128.into(), PosteriorConfig::Diagonal)
    );
    assert_eq!((conv.init_lamda, conv.max_lamda, conv.max_sd_u, conv.prior_sd), (0.001, Some(0.03), Some(0.1), 0.5));
    assert!((conv.jitter - 1e-4).abs() < 1e-12 && conv.sqrt_width_scaling && conv.whitened_u);
    let fc = config(&plan, "fc", LayerKind::Linear).unwrap();
    assert_eq!((fc.inducing_rows, fc.prior_sd), (10.into(), 2.0));
    let named = config(&plan, "layer4.1.conv2", LayerKind::Conv).unwrap();
    assert_eq!((named.inducing_rows, named.inducing_cols), (32.into(), 16.into()));
    bayesianise(&mut ResnetConfig::cifar(10).network().unwrap(), &plan).unwrap();
}

#[test]
fn one_method_for_all_and_only_the_key_layers() {
    let json = r#"{"inference": "inducing", "inducing_rows": 8, "inducing_cols": 9, "q_inducing": "ensemble",
        "ensemble_size": 5, "key_layers": ["layer2.1.conv1", "fc"]}"#;
    let plan = LayerPlan::from_bayesianize(json).unwrap();
    let conv = config(&plan, "layer2.1.conv1", LayerKind::Conv).unwrap();
    assert_eq!((conv.inducing_cols, conv.posterior), (9.into(), PosteriorConfig::Ensemble { members: 5 }));
    assert!(config(&plan, "fc", LayerKind::Linear).is_some());
    assert!(config(&plan, "layer1.0.conv1", LayerKind::Conv).is_none());
}

#[test]
fn mistakes_are_named() {
    for (json, parts) in [
        (
            r#"{"inference": "inducing", "inducing_rows": 8, "inducing_cols": 8, "max_lambda": 0.1}"#,
            vec!["max_lambda", "`max_lamda`"],
        ),
        (
            r#"{"inference": {"Conv2d": {"inference": "inducing", "inducing_row": 8}}}"#,
            vec!["inducing_row", "`inducing_rows`"],
        ),
        (r#"{"inference": "ffg", "max_sd": 0.1}"#, vec!["ffg", "\"inducing\"", "method = \"mean-field\""]),
        (r#"{"inference": "inducing", "inducing_rows": "8", "inducing_cols": 8}"#, vec!["wrong type"]),
        (
            r#"{"inference": "inducing", "inducing_rows": 8, "inducing_cols": 8, "q_inducing": "laplace"}"#,
            vec!["laplace", "ensemble"],
        ),
        (
            r#"{"inference": "inducing", "inducing_rows": 8, "inducing_cols": 8, "key_layers": 4}"#,
            vec!["key_layers", "list"],
        ),
        (r"{}", vec!["inference", "missing"]),
        ("[", vec!["JSON"]),
    ] {
        let error = LayerPlan::from_bayesianize(json).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{json}: {error}");
    }
}

/// The two released files, and FFGMixin's own names.
#[test]
fn mean_field_configs_are_read() {
    let config =
        mean_field_from_bayesianize(r#"{"inference": "ffg", "max_sd": 0.1}"#).unwrap().expect("a config of FFG");
    assert_eq!((config.init_sd, config.max_sd, config.prior_sd), (1e-4, 0.1, 1.0));
    assert!(!config.sqrt_width_scaling && config.layers == ["*"]);
    let unbounded = mean_field_from_bayesianize(r#"{"inference": "ffg"}"#).unwrap().unwrap();
    assert!(unbounded.max_sd > 10.0);
    let named = r#"{"inference": "FFG", "prior_weight_sd": 0.5, "prior_bias_sd": 0.5, "key_layers": ["fc"]}"#;
    let config = mean_field_from_bayesianize(named).unwrap().unwrap();
    assert_eq!((config.prior_sd, config.layers), (0.5, vec!["fc".to_owned()]));
    assert!(mean_field_from_bayesianize(r#"{"inference": "inducing"}"#).unwrap().is_none());
    for (json, part) in [
        (r#"{"inference": "ffg", "prior_sd": 0.5}"#, "unknown field `prior_sd`"),
        (r#"{"inference": "ffg", "prior_mean": 1.0}"#, "prior_mean"),
        (r#"{"inference": "ffg", "init_sd": 0.2, "max_sd": 0.1}"#, "init_sd"),
    ] {
        let error = mean_field_from_bayesianize(json).unwrap_err().to_string();
        assert!(error.contains(part), "{json}: {error}");
    }
}

/// Without sizes a layer has the square roots of its own, as in bayesianize: `int(d ** 0.5)`, the bias column counted.
#[test]
fn sizes_that_are_left_out_are_square_roots() {
    let plan = LayerPlan::from_bayesianize(r#"{"inference": "inducing", "inducing_rows": 8}"#).unwrap();
    let SlotConfig::Inducing(config) = plan.slot_for("fc", LayerKind::Linear) else { panic!("plain") };
    let sizes = config.sizes(100, 50 + 1);
    assert_eq!((sizes.rows, sizes.cols), (8, 7));
    assert_eq!(config.sizes(1, 1).cols, 1);
    let json = serde_json::to_string(&plan).unwrap();
    assert!(json.contains(r#""inducing_cols":"sqrt""#), "{json}");
    assert_eq!(serde_json::from_str::<LayerPlan>(&json).unwrap(), plan);
    let wrong = serde_json::from_str::<LayerPlan>(&json.replace("sqrt", "most")).unwrap_err().to_string();
    assert!(wrong.contains("whole number, or \"sqrt\""), "{wrong}");
}
