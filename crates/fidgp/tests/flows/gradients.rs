//! Gradients against central differences, for every entry of every parameter and of the input.

use fidgp::Key;
use fidgp::flow::{AnyFlow, Flow};
use tch::{Kind, Tensor};

use crate::{configs, moved, normal};

const STEP: f64 = 1e-6;

/// A scalar that depends on the value and on the log-determinant.
fn objective(flow: &AnyFlow, x: &Tensor, weights: &Tensor) -> Tensor {
    let flowed = flow.forward(x, Some(Key::new(77)));
    (flowed.value * weights).sum(Kind::Double) + flowed.log_det.square().sum(Kind::Double)
}

/// The largest difference between gradient and central differences over the entries of `variable`.
fn error(variable: &Tensor, value: &dyn Fn() -> f64) -> f64 {
    let gradient = Vec::<f64>::try_from(variable.grad().reshape([-1])).unwrap();
    let flat = variable.detach().view(-1);
    let entry = |(i, analytic): (usize, &f64)| {
        let at = |shift: f64| {
            let mut cell = flat.get(i as i64);
            cell += shift;
            let found = value();
            cell -= shift;
            found
        };
        let numeric = (at(STEP) - at(-STEP)) / (2.0 * STEP);
        (numeric - analytic).abs() / analytic.abs().max(1.0)
    };
    gradient.iter().enumerate().map(entry).fold(0.0, f64::max)
}

#[test]
fn every_parameter_has_the_right_gradient() {
    for config in configs() {
        let (store, flow) = moved(&config, 4, 0.3, Key::new(21));
        let x = normal(Key::new(22), &[3, 4]).set_requires_grad(true);
        let weights = normal(Key::new(23), &[3, 4]);
        objective(&flow, &x, &weights).backward();
        let value = || tch::no_grad(|| objective(&flow, &x, &weights).double_value(&[]));
        for (name, variable) in store.variables().into_iter().filter(|(_, v)| v.requires_grad()) {
            let error = error(&variable, &value);
            assert!(error < 1e-6, "{config:?}, {name}: {error:e}");
        }
        assert!(error(&x, &value) < 1e-6, "{config:?}, input");
    }
}

#[test]
fn every_parameter_gets_a_gradient() {
    for config in configs() {
        let (store, flow) = moved(&config, 8, 0.3, Key::new(24)); // wide enough that no layer has only dead units
        let x = normal(Key::new(25), &[64, 8]);
        objective(&flow, &x, &x.ones_like()).backward();
        for (name, variable) in store.variables().into_iter().filter(|(_, v)| v.requires_grad()) {
            let size = variable.grad().abs().max().double_value(&[]);
            assert!(size > 0.0 && size.is_finite(), "{config:?}, {name}");
        }
    }
}

#[test]
fn a_forward_pass_changes_nothing() {
    for config in configs() {
        let (store, flow) = moved(&config, 4, 0.3, Key::new(26));
        let before: Vec<(String, Tensor)> = store.variables().into_iter().map(|(n, v)| (n, v.copy())).collect();
        let x = normal(Key::new(27), &[3, 4]);
        _ = flow.forward(&x, Some(Key::new(1)));
        _ = flow.inverse(&x);
        let after = store.variables();
        assert!(before.iter().all(|(name, value)| after[name] == *value), "{config:?}");
    }
}
