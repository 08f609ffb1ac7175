//! What must hold to rounding: log-determinants, inverses, starts, counts.

use fidgp::flow::{CouplingConfig, DiagonalConfig, Flow, FlowConfig, IafConfig, InitFlow, LipschitzConfig, MadeConfig};
use fidgp::{Error, Key};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

use crate::golden::jacobian;
use crate::{configs, configs_for, gap, moved, normal, store};

#[test]
fn log_determinants_agree_with_automatic_differentiation() {
    for config in configs() {
        let (_store, flow) = moved(&config, 5, 0.3, Key::new(1));
        let x = normal(Key::new(2), &[3, 5]);
        let log_det = flow.forward(&x, None).log_det;
        let expected = Tensor::stack(
            &(0..3).map(|r| Tensor::linalg_slogdet(&jacobian(&flow, &x.get(r))).1).collect::<Vec<_>>(),
            0,
        );
        assert!(gap(&log_det, &expected) < 1e-9, "{config:?}: {}", gap(&log_det, &expected));
    }
}

#[test]
fn every_flow_is_undone_by_its_inverse() {
    for config in configs() {
        let (_store, flow) = moved(&config, 6, 0.2, Key::new(3));
        let x = normal(Key::new(4), &[2, 3, 6]);
        let back = flow.inverse(&flow.forward(&x, None).value).unwrap();
        assert!(gap(&back, &x) < 1e-8, "{config:?}: {}", gap(&back, &x));
    }
}

#[test]
fn the_defaults_that_promise_it_start_at_the_identity() {
    for config in
        [FlowConfig::default(), FlowConfig::Iaf(IafConfig::default()), FlowConfig::Coupling(CouplingConfig::default())]
    {
        let store = store();
        let flow = config.init(&store.root(), 4, Key::new(5)).unwrap();
        let x = normal(Key::new(6), &[7, 4]);
        let flowed = flow.forward(&x, None);
        assert!(gap(&flowed.value, &x) < 1e-12, "{config:?}");
        assert!(flowed.log_det.abs().max().double_value(&[]) < 1e-12, "{config:?}");
    }
}

#[test]
fn the_contracting_flows_start_near_the_identity_where_it_is_positive() {
    for config in [FlowConfig::Lipschitz(LipschitzConfig::default()), FlowConfig::Diagonal(DiagonalConfig::default())] {
        let store = store();
        let flow = config.init(&store.root(), 4, Key::new(5)).unwrap();
        let x = normal(Key::new(6), &[7, 4]).abs() + 0.1;
        assert!(gap(&flow.forward(&x, None).value, &x) < 0.06, "{config:?}");
    }
}

#[test]
fn made_is_autoregressive_and_two_maps_reach_everything() {
    for (depth, lower_only) in [(1, true), (2, false)] {
        let config = FlowConfig::Iaf(IafConfig { depth, made: MadeConfig::default() });
        let (_store, flow) = moved(&config, 5, 0.5, Key::new(7));
        let j = jacobian(&flow, &normal(Key::new(8), &[5]));
        let above = j.triu(1).abs().max().double_value(&[]);
        assert_eq!(above == 0.0, lower_only, "depth {depth}: {above}");
        assert!(!lower_only || j.diag(0).min().double_value(&[]) > 0.0);
    }
}

#[test]
fn counts_follow_the_formula_and_the_store() {
    let compat = FlowConfig::compat();
    assert_eq!(compat.parameter_count(128), 7_504);
    for dim in [1, 2, 5] {
        for config in configs_for(dim) {
            let store = store();
            let flow = config.init(&store.root(), dim, Key::new(1)).unwrap();
            let trainable: usize = store.trainable_variables().iter().map(Tensor::numel).sum();
            assert_eq!(flow.parameter_count(), trainable as i64, "{config:?}");
            assert_eq!(config.parameter_count(dim), trainable as i64, "{config:?}");
            let all: usize = store.variables().values().map(Tensor::numel).sum();
            assert_eq!(config.state_count(dim), (all - trainable) as i64, "{config:?}");
            assert_eq!(flow.dim(), dim);
        }
    }
}

#[test]
fn a_pushed_gaussian_has_the_moments_of_pushed_samples() {
    let store = store();
    let flow = DiagonalConfig { slope: 0.3 }.init(&store.root(), 2, Key::new(1)).unwrap();
    let (mean, sd) = (normal(Key::new(2), &[1, 2]), normal(Key::new(3), &[1, 2]).abs());
    let (pushed_mean, pushed_sd) = flow.push_gaussian(&mean, &sd).expect("a diagonal flow keeps Gaussians Gaussian");
    let unit = normal(Key::new(4), &[9, 2]);
    let expected = flow.forward(&(&mean + &sd * &unit), None).value;
    assert!(gap(&expected, &(pushed_mean + pushed_sd * unit)) < 1e-14);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the global seed is disturbed to show that nothing depends on it")]
fn starts_depend_on_the_key_alone_and_single_precision_works() {
    for config in configs() {
        let run = |seed: i64| {
            tch::manual_seed(seed);
            let store = VarStore::new(Device::Cpu);
            let flow = config.init(&store.root(), 4, Key::new(9)).unwrap();
            flow.forward(&Key::new(1).normal(&[3, 4], Kind::Float, Device::Cpu), Some(Key::new(2))).value
        };
        assert_eq!(run(1).kind(), Kind::Float);
        assert_eq!(run(1), run(2), "{config:?}");
    }
}

#[test]
fn settings_are_read_strictly_and_refused_with_advice() {
    let read = |text: &str| serde_json::from_str::<FlowConfig>(text);
    assert_eq!(read(r#"{"kind":"made"}"#).unwrap(), FlowConfig::default());
    let compat = r#"{"kind":"made","hidden":16,"spectral":"compat","dropout":0.1,"start":"fan-in"}"#;
    assert_eq!(read(compat).unwrap(), FlowConfig::compat());
    assert!(read(r#"{"kind":"made","hiden":16}"#).unwrap_err().to_string().contains("hiden"));
    assert!(read(r#"{"kind":"iaf","made":{"hiden":16}}"#).is_err());
    for config in configs() {
        assert_eq!(read(&serde_json::to_string(&config).unwrap()).unwrap(), config);
    }
    let store = store();
    let refused = |text: &str, dim| read(text).unwrap().init(&store.root(), dim, Key::new(1)).unwrap_err();
    assert!(refused(r#"{"kind":"coupling"}"#, 1).to_string().contains("C ≥ 2"));
    assert!(matches!(refused(r#"{"kind":"made","spectral":"compat"}"#, 3), Error::Setting { .. }));
    assert!(matches!(refused(r#"{"kind":"made","dropout":1.0}"#, 3), Error::Setting { .. }));
    assert!(matches!(refused(r#"{"kind":"diagonal","slope":1.0}"#, 3), Error::Setting { .. }));
    assert!(matches!(refused(r#"{"kind":"lipschitz","layers":0}"#, 3), Error::Setting { .. }));
}

#[test]
fn a_checkpoint_holds_the_power_iterations() {
    let store = store();
    FlowConfig::default().init(&store.root(), 3, Key::new(1)).unwrap();
    let names = store.variables();
    assert!(
        names.contains_key("initial.left") && names.contains_key("blocks.1.0.right") && names.contains_key("last.left")
    );
    assert_eq!(store.trainable_variables().len(), 12);
    assert_eq!(names.len(), 24);
}
