//! Numbers computed once in float64 with PyTorch: two masked autoregressive flows with legacy spectral normalisation
//! (converged), and two dense contracting layers.

use fidgp::Key;
use fidgp::flow::{Flow, LinearParams, LipschitzFlow, MadeFlow, MadeLayers};
use fidgp::spectral::{PowerState, SpectralRule};
use serde_json::Value;
use tch::{Kind, Tensor};

use crate::gap;

const TOLERANCE: f64 = 1e-9;

fn fixture() -> Value {
    serde_json::from_str(include_str!("../fixtures/flows.json")).unwrap()
}

fn numbers(value: &Value, into: &mut Vec<f64>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| numbers(item, into)),
        other => into.push(other.as_f64().unwrap()),
    }
}

/// Nested lists as a tensor.
fn tensor(value: &Value) -> Tensor {
    let mut flat = Vec::new();
    numbers(value, &mut flat);
    let mut shape = Vec::new();
    let mut inner = value;
    while let Value::Array(items) = inner {
        shape.push(items.len() as i64);
        inner = &items[0];
    }
    Tensor::from_slice(&flat).reshape(shape)
}

fn linear(value: &Value) -> LinearParams {
    let power = value.get("left").map(|left| PowerState { left: tensor(left), right: tensor(&value["right"]) });
    LinearParams { weight: tensor(&value["weight"]), bias: tensor(&value["bias"]), power }
}

fn made(case: &Value) -> MadeFlow {
    let block = |b: &Value| [linear(&b[0]), linear(&b[1])];
    let blocks = case["blocks"].as_array().unwrap().iter().map(block).collect();
    let layers = MadeLayers { initial: linear(&case["initial"]), blocks, last: linear(&case["last"]) };
    MadeFlow::from_layers(layers, SpectralRule::Compat, 0.1).unwrap()
}

/// ∂value/∂x of one row. `[C, C]`
pub(crate) fn jacobian(flow: &dyn Flow, x: &Tensor) -> Tensor {
    let x = x.copy().detach().set_requires_grad(true);
    let y = flow.forward(&x.unsqueeze(0), None).value.squeeze_dim(0);
    let row = |i| Tensor::run_backward(&[y.get(i)], &[&x], true, false).remove(0);
    Tensor::stack(&(0..x.size()[0]).map(row).collect::<Vec<_>>(), 0)
}

#[test]
fn made_has_the_released_values() {
    for case in fixture()["made"].as_array().unwrap() {
        let flow = made(case);
        let x = tensor(&case["x"]);
        let flowed = flow.forward(&x, None);
        let (scale, shift) = flow.scale_and_shift(&x, None);
        let found = [flowed.value, flowed.log_det, scale, shift, jacobian(&flow, &x.get(0))];
        for (name, found) in ["y", "log_det", "scale", "shift", "jacobian_row0"].iter().zip(found) {
            let gap = gap(&found, &tensor(&case[*name]));
            assert!(gap < TOLERANCE, "{name}: {gap:e}");
        }
    }
}

#[test]
fn dropout_acts_only_with_a_key_and_replays() {
    let flow = made(&fixture()["made"][1]);
    let x = tensor(&fixture()["made"][1]["x"]);
    let value = |key: Option<Key>| flow.forward(&x, key).value;
    assert_eq!(value(Some(Key::new(1))), value(Some(Key::new(1))));
    let differs = (0..20).filter(|&i| gap(&value(Some(Key::new(i))), &value(None)) > 1e-6).count();
    assert!(differs > 10, "{differs} of 20 masks changed the value");
}

#[test]
fn lipschitz_has_the_literal_values_with_either_norm() {
    let case = &fixture()["lipschitz"];
    for by_power in [false, true] {
        let layer = |value: &Value| {
            let mut params = linear(value);
            params.power = by_power.then(|| PowerState::draw(&params.weight, Key::new(1)));
            params
        };
        let flow = LipschitzFlow::from_layers(case["layers"].as_array().unwrap().iter().map(layer).collect()).unwrap();
        flow.settle_spectral();
        let flowed = flow.forward(&tensor(&case["x"]).unsqueeze(0), None);
        assert!(gap(&flowed.value, &tensor(&case["y"]).unsqueeze(0)) < TOLERANCE);
        let log_det = flowed.log_det.sum(Kind::Double).double_value(&[]);
        assert!((log_det - case["log_det"].as_f64().unwrap()).abs() < TOLERANCE * 10.0, "{log_det}");
        assert!((flow.lipschitz_bound() - 1.0).abs() < TOLERANCE);
    }
}
