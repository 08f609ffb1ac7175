//! A flow as somebody else would add it: this file, and its line in `flows!`.

use serde::{Deserialize, Serialize};
use tch::nn::{Init, Path, VarStore};
use tch::{Device, Kind, Tensor};

use super::stack::stack_fields;
use super::{Flow, FlowConfig, FlowSettings, Flowed, InitFlow, StackedFlow};
use crate::{Error, Key, Result};

/// y = x + b.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DummyConfig {
    start: f64,
}

impl FlowSettings for DummyConfig {
    fn check(&self, _: i64) -> Result<()> {
        let fits = self.start.is_finite();
        if fits { Ok(()) } else { Err(Error::setting("flow.start", self.start, "give a number")) }
    }

    fn parameter_count(&self, dim: i64) -> i64 {
        dim
    }
}

impl InitFlow for DummyConfig {
    type Flow = DummyFlow;

    fn init(&self, path: &Path, dim: i64, _: Key) -> Result<DummyFlow> {
        self.check(dim)?;
        Ok(DummyFlow { shift: path.var("shift", &[dim], Init::Const(self.start)) })
    }
}

#[derive(Debug)]
pub struct DummyFlow {
    /// b. `[.., C]`
    shift: Tensor,
}

impl Flow for DummyFlow {
    fn forward(&self, x: &Tensor, _: Option<Key>) -> Flowed {
        let rows = x.size();
        let value = x + self.shift.unsqueeze(-2);
        Flowed { log_det: Tensor::zeros(&rows[..rows.len() - 1], (x.kind(), x.device())), value }
    }

    fn inverse(&self, y: &Tensor) -> Option<Tensor> {
        Some(y - self.shift.unsqueeze(-2))
    }

    fn dim(&self) -> i64 {
        self.shift.size()[self.shift.dim() - 1]
    }

    fn parameter_count(&self) -> i64 {
        self.shift.numel() as i64
    }
}

stack_fields!(DummyFlow { shift });

fn of(start: f64, path: &Path) -> super::AnyFlow {
    let config: FlowConfig = serde_json::from_str(&format!(r#"{{"kind":"dummy","start":{start}}}"#)).unwrap();
    config.init(path, 3, Key::new(1)).unwrap()
}

#[test]
fn one_file_and_one_line_make_a_flow() {
    let store = VarStore::new(Device::Cpu);
    let flow = of(2.0, &store.root());
    let x = Key::new(2).normal(&[5, 3], Kind::Double, Device::Cpu);
    assert_eq!(flow.forward(&x, None).value, &x + 2.0);
    assert_eq!(flow.inverse(&(&x + 2.0)).unwrap(), &x + 2.0 - 2.0);
    assert_eq!(store.variables()["shift"].size(), [3]);
}

#[test]
fn such_flows_are_evaluated_side_by_side() {
    let store = VarStore::new(Device::Cpu);
    let flows = [of(2.0, &(store.root() / "a")), of(2.0, &(store.root() / "b"))];
    tch::no_grad(|| _ = store.variables()["b.shift"].shallow_clone().fill_(3.0));
    let stacked = StackedFlow::new(&flows.iter().collect::<Vec<_>>()).unwrap();
    let x = Key::new(2).normal(&[2, 5, 3], Kind::Double, Device::Cpu);
    let together = stacked.forward(&x, None).value;
    for (place, flow) in flows.iter().enumerate() {
        assert_eq!(together.get(place as i64), flow.forward(&x.get(place as i64), None).value);
    }
}
