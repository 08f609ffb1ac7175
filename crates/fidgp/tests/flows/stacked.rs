//! A stack of flows is its flows.

use fidgp::Key;
use fidgp::flow::{AnyFlow, Flow, FlowConfig, StackedFlow};
use fidgp::spectral::SpectralRule;
use tch::nn::VarStore;
use tch::{Kind, Tensor};

use crate::{configs, gap, moved, normal, store};

const PARTS: i64 = 3;

fn parts(config: &FlowConfig) -> Vec<(VarStore, AnyFlow)> {
    (0..PARTS as u64).map(|i| moved(config, 4, 0.3, Key::new(40).at(i))).collect()
}

fn stack(parts: &[(VarStore, AnyFlow)]) -> StackedFlow {
    StackedFlow::new(&parts.iter().map(|(_, flow)| flow).collect::<Vec<_>>()).unwrap()
}

/// The gradients of all parts, by part and name, after `loss.backward()`.
fn gradients(parts: &[(VarStore, AnyFlow)], loss: &Tensor) -> Vec<(String, Tensor)> {
    loss.backward();
    let named = |(store, _): &(VarStore, AnyFlow)| {
        let mut found: Vec<_> = store.variables().into_iter().filter(|(_, v)| v.requires_grad()).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
            .into_iter()
            .map(|(name, mut v)| {
                let gradient = v.grad().copy();
                v.zero_grad();
                (name, gradient)
            })
            .collect::<Vec<_>>()
    };
    parts.iter().flat_map(named).collect()
}

#[test]
fn values_determinants_inverses_and_gradients_agree() {
    for config in configs() {
        let parts = parts(&config);
        let stacked = stack(&parts);
        let x = normal(Key::new(41), &[2, PARTS, 5, 4]); // two draws of three layers
        let together = stacked.forward(&x, None);
        let alone: Vec<_> = parts.iter().zip(0..).map(|((_, flow), i)| flow.forward(&x.select(1, i), None)).collect();
        let value = Tensor::stack(&alone.iter().map(|f| &f.value).collect::<Vec<_>>(), 1);
        let log_det = Tensor::stack(&alone.iter().map(|f| &f.log_det).collect::<Vec<_>>(), 1);
        assert!(gap(&together.value, &value) < 1e-12, "{config:?}");
        assert!(gap(&together.log_det, &log_det) < 1e-12, "{config:?}");
        assert!(gap(&stacked.inverse(&together.value).unwrap(), &x) < 1e-8, "{config:?}");
        let loss =
            |value: &Tensor, log_det: &Tensor| value.square().sum(Kind::Double) + log_det.square().sum(Kind::Double);
        let expected = gradients(&parts, &loss(&value, &log_det));
        let found = gradients(&parts, &loss(&together.value, &together.log_det));
        for ((name, expected), (_, found)) in expected.iter().zip(&found) {
            assert!(gap(expected, found) < 1e-9 && expected.abs().max().double_value(&[]) > 0.0, "{config:?}, {name}");
        }
    }
}

#[test]
fn power_iterations_of_a_stack_reach_its_parts() {
    for config in configs() {
        let (alone, joined) = (parts(&config), parts(&config));
        for (_, flow) in &alone {
            flow.advance_spectral();
        }
        stack(&joined).advance_spectral();
        for ((a, _), (b, _)) in alone.iter().zip(&joined) {
            let b = b.variables();
            assert!(a.variables().iter().all(|(name, value)| gap(value, &b[name]) < 1e-12), "{config:?}");
        }
    }
}

#[test]
fn a_stack_sees_later_changes_of_its_parts() {
    let parts = parts(&FlowConfig::default());
    let stacked = stack(&parts);
    let x = normal(Key::new(42), &[PARTS, 2, 4]);
    let before = stacked.forward(&x, None).value;
    tch::no_grad(|| parts[1].0.trainable_variables().iter_mut().for_each(|v| *v *= 1.5));
    let change = (stacked.forward(&x, None).value - before).abs();
    assert!(change.get(1).max().double_value(&[]) > 1e-3);
    assert!(change.get(0).max().double_value(&[]) == 0.0);
}

#[test]
fn unlike_flows_are_refused() {
    let store = store();
    let build = |config: FlowConfig, dim| config.init(&store.root(), dim, Key::new(1)).unwrap();
    let (a, b) = (build(FlowConfig::default(), 3), build(FlowConfig::default(), 4));
    assert!(StackedFlow::new(&[&a, &b]).unwrap_err().to_string().contains("equal flows"));
    let off = fidgp::flow::MadeConfig { spectral: SpectralRule::Off, ..Default::default() };
    assert!(StackedFlow::new(&[&a, &build(FlowConfig::Made(off), 3)]).is_err());
    assert!(StackedFlow::new(&[]).is_err());
}
