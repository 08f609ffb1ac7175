//! LSTM and GRU by libtorch's own; its gates stand in another order.

use tch::Tensor;

use super::{Inputs, Kernel, Making, Value};
use crate::error::Doing;

/// What both have in common.
struct Recurrent {
    hidden: i64,
    directions: i64,
    /// Place of each of libtorch's gates among ONNX's.
    gates: &'static [i64],
}

impl Recurrent {
    fn of(making: &Making, gates: &'static [i64], functions: &[&str]) -> Doing<Self> {
        let attributes = &making.node.attributes;
        let directions = match attributes.only("direction", &["forward", "bidirectional"])?.as_str() {
            "forward" => 1,
            _ => 2,
        };
        attributes.must_be("layout", 0)?;
        if let Some(given) = attributes.texts("activations")? {
            let usual = functions.iter().cycle().zip(&given).all(|(usual, given)| usual.eq_ignore_ascii_case(given));
            if !usual || given.len() != functions.len() * directions as usize {
                return Err(format!("activations {given:?} are not understood; {functions:?} are").into());
            }
        }
        let hidden = attributes.int("hidden_size", 0)?;
        if !(1..=1 << 20).contains(&hidden) {
            return Err(format!("attribute `hidden_size` = {hidden} must be positive").into());
        }
        if making.has_input(4) {
            return Err("sequences of different lengths are not understood; export without them".into());
        }
        Ok(Self { hidden, directions, gates })
    }

    /// libtorch's gates out of ONNX's. `[gates·hidden, ..]`
    fn reordered(&self, of_direction: &Tensor) -> Doing<Tensor> {
        let gate = |place: &i64| of_direction.f_narrow(0, place * self.hidden, self.hidden);
        Ok(Tensor::f_cat(&self.gates.iter().map(gate).collect::<Result<Vec<_>, _>>()?, 0)?)
    }

    /// Weights of input and state, then their biases, direction by direction.
    fn parameters(&self, inputs: &Inputs) -> Doing<Vec<Tensor>> {
        let (weight, state) = (inputs.tensor(1)?, inputs.tensor(2)?);
        let rows = self.gates.len() as i64 * self.hidden;
        for (what, tensor) in [("input", weight), ("state", state)] {
            if tensor.dim() != 3 || tensor.size()[..2] != [self.directions, rows] {
                return Err(format!("its {what} weight has shape {:?}", tensor.size()).into());
            }
        }
        let mut all = Vec::new();
        for direction in 0..self.directions {
            for tensor in [weight, state] {
                all.push(self.reordered(&tensor.f_select(0, direction)?)?);
            }
            if let Some(bias) = inputs.optional(3)? {
                let bias = bias.f_select(0, direction)?;
                for half in 0..2 {
                    all.push(self.reordered(&bias.f_narrow(0, half * rows, rows)?)?);
                }
            }
        }
        Ok(all)
    }

    /// The given state, or zeros. `[directions, N, hidden]`
    fn state(&self, inputs: &Inputs, index: usize) -> Doing<Tensor> {
        let x = inputs.tensor(0)?;
        let [_, n, _] = x.size()[..] else { return Err("takes sequences [T, N, inputs]".into()) };
        let shape = [self.directions, n, self.hidden];
        inputs.fits(&[x.size()[0].max(1), n, self.hidden * self.directions])?;
        match inputs.optional(index)? {
            Some(state) => Ok(state.f_expand(shape, false)?.f_contiguous()?),
            None => Ok(Tensor::f_zeros(shape, (x.kind(), x.device()))?),
        }
    }

    /// `[T, N, directions·hidden]` → `[T, directions, N, hidden]`
    fn outputs(&self, y: &Tensor) -> Doing<Tensor> {
        let size = y.size();
        Ok(y.f_reshape([size[0], size[1], self.directions, self.hidden])?.f_permute([0, 2, 1, 3])?)
    }
}

pub(super) fn lstm(making: &Making) -> Doing<Kernel> {
    making.node.attributes.must_be("input_forget", 0)?;
    if making.has_input(7) {
        return Err("peepholes are not understood".into());
    }
    let cell = Recurrent::of(making, &[0, 2, 3, 1], &["Sigmoid", "Tanh", "Tanh"])?;
    Ok(Box::new(move |inputs| {
        let start = [cell.state(inputs, 5)?, cell.state(inputs, 6)?];
        let (biased, both) = (inputs.optional(3)?.is_some(), cell.directions == 2);
        let parameters = cell.parameters(inputs)?;
        let (y, h, c) = inputs.tensor(0)?.f_lstm(&start, &parameters, biased, 1, 0.0, false, both, false)?;
        Ok([cell.outputs(&y)?, h, c].map(Value::Tensor).into())
    }))
}

pub(super) fn gru(making: &Making) -> Doing<Kernel> {
    if making.node.attributes.int("linear_before_reset", 0)? != 1 {
        return Err("attribute `linear_before_reset` = 0 is not understood; 1 is, which PyTorch exports".into());
    }
    let cell = Recurrent::of(making, &[1, 0, 2], &["Sigmoid", "Tanh"])?;
    Ok(Box::new(move |inputs| {
        let start = cell.state(inputs, 5)?;
        let (biased, both) = (inputs.optional(3)?.is_some(), cell.directions == 2);
        let (y, h) = inputs.tensor(0)?.f_gru(&start, &cell.parameters(inputs)?, biased, 1, 0.0, false, both, false)?;
        Ok([cell.outputs(&y)?, h].map(Value::Tensor).into())
    }))
}
