//! LSTM and GRU by libtorch's own; its gates stand in another order.

use tch::Tensor;

use super::{Inputs, Kernel, Making, Value};
use crate::error::Doing;
use crate::graph::Node;

/// The two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Lstm,
    Gru,
}

/// A node of either kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recurrent {
    cell: Cell,
    pub hidden: i64,
    pub directions: i64,
    /// Whether its one direction is the backward one.
    backward: bool,
    /// Whether the batch is the first axis.
    batch_first: bool,
}

/// `x Wᵀ + b` of a direction; of the state, or else of the input.
pub(crate) type Products<'a> = dyn FnMut(usize, bool, &Tensor) -> Doing<Tensor> + 'a;

impl Recurrent {
    /// The settings of a node; none where it is another operator.
    pub(crate) fn read(node: &Node) -> Doing<Option<Self>> {
        let (attributes, directed) = (&node.attributes, ["forward", "reverse", "bidirectional"]);
        let cell = match node.operator.as_str() {
            "LSTM" => Cell::Lstm,
            "GRU" => Cell::Gru,
            _ => return Ok(None),
        };
        let direction = attributes.only("direction", &directed)?;
        let directions = if direction == "bidirectional" { 2 } else { 1 };
        let functions = cell.functions();
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
        if node.inputs.get(4).is_some_and(Option::is_some) {
            return Err("sequences of different lengths are not understood; export without them".into());
        }
        if cell == Cell::Lstm {
            attributes.must_be("input_forget", 0)?;
            if node.inputs.get(7).is_some_and(Option::is_some) {
                return Err("peepholes are not understood".into());
            }
        } else if attributes.int("linear_before_reset", 0)? != 1 {
            return Err("attribute `linear_before_reset` = 0 is not understood; 1 is, which PyTorch exports".into());
        }
        let batch_first = attributes.flag("layout", false)?;
        Ok(Some(Self { cell, hidden, directions, backward: direction == "reverse", batch_first }))
    }

    /// Rows of a direction's weight.
    pub(crate) fn rows(&self) -> i64 {
        self.cell.gates().len() as i64 * self.hidden
    }

    /// libtorch's rows among ONNX's.
    pub(crate) fn order(&self) -> Vec<i64> {
        let gate = |place: &i64| place * self.hidden..(place + 1) * self.hidden;
        self.cell.gates().iter().flat_map(gate).collect()
    }

    /// Weights of input and state, then their biases, direction by direction, as libtorch takes them.
    fn parameters(&self, inputs: &Inputs) -> Doing<Vec<Tensor>> {
        let (weight, state, rows) = (inputs.tensor(1)?, inputs.tensor(2)?, self.rows());
        for (what, tensor) in [("input", weight), ("state", state)] {
            if tensor.dim() != 3 || tensor.size()[..2] != [self.directions, rows] {
                return Err(format!("its {what} weight has shape {:?}", tensor.size()).into());
            }
        }
        let order = Tensor::f_from_slice(&self.order())?.f_to_device(weight.device())?;
        let mut all = Vec::new();
        for direction in 0..self.directions {
            for tensor in [weight, state] {
                all.push(tensor.f_select(0, direction)?.f_index_select(0, &order)?);
            }
            if let Some(biases) = self.biases(inputs, direction)? {
                all.extend(biases);
            }
        }
        Ok(all)
    }

    /// The biases of input and state in libtorch's order, where the node has them.
    pub(crate) fn biases(&self, inputs: &Inputs, direction: i64) -> Doing<Option<[Tensor; 2]>> {
        let (Some(bias), rows) = (inputs.optional(3)?, self.rows()) else { return Ok(None) };
        if bias.size() != [self.directions, 2 * rows] {
            return Err(format!("its bias has shape {:?}", bias.size()).into());
        }
        let order = Tensor::f_from_slice(&self.order())?.f_to_device(bias.device())?;
        let half = |half: i64| bias.f_select(0, direction)?.f_narrow(0, half * rows, rows)?.f_index_select(0, &order);
        Ok(Some([half(0)?, half(1)?]))
    }

    /// The input with time first and in the order it is read in. `[T, N, inputs]`
    pub(crate) fn input(&self, inputs: &Inputs) -> Doing<Tensor> {
        let x = inputs.tensor(0)?;
        if x.dim() != 3 {
            return Err(format!("its input has shape {:?}; it needs 3 axes", x.size()).into());
        }
        let x = if self.batch_first { x.f_transpose(0, 1)? } else { x.shallow_clone() };
        let [t, n, _] = x.size()[..] else { return Err("takes sequences [T, N, inputs]".into()) };
        inputs.fits(&[t.max(1), n, self.hidden * self.directions])?;
        Ok(if self.backward { x.f_flip([0])? } else { x })
    }

    /// The states it starts from, given or zeros: h, and c of an LSTM. `[directions, N, hidden]`
    pub(crate) fn start(&self, inputs: &Inputs, x: &Tensor) -> Doing<Vec<Tensor>> {
        let shape = [self.directions, x.size()[1], self.hidden];
        let state = |index: usize| -> Doing<Tensor> {
            let Some(state) = inputs.optional(index)? else {
                return Ok(Tensor::f_zeros(shape, (x.kind(), x.device()))?);
            };
            let state = if self.batch_first { state.f_transpose(0, 1)? } else { state.shallow_clone() };
            Ok(state.f_expand(shape, false)?.f_contiguous()?)
        };
        let count = if self.cell == Cell::Lstm { 2 } else { 1 };
        (5..5 + count).map(state).collect()
    }

    /// All steps at once, by libtorch's own.
    pub(crate) fn at_once(&self, x: &Tensor, start: &[Tensor], parameters: &[Tensor]) -> Doing<Vec<Value>> {
        let (biased, both) = (parameters.len() as i64 == 4 * self.directions, self.directions == 2);
        let (y, states) = match self.cell {
            Cell::Lstm => {
                let (y, h, c) = x.f_lstm(start, parameters, biased, 1, 0.0, false, both, false)?;
                (y, vec![h, c])
            }
            Cell::Gru => {
                let (y, h) = x.f_gru(&start[0], parameters, biased, 1, 0.0, false, both, false)?;
                (y, vec![h])
            }
        };
        let [t, n, _] = y.size()[..] else { return Err("has no sequence of results".into()) };
        self.results(&y.f_reshape([t, n, self.directions, self.hidden])?.f_permute([0, 2, 1, 3])?, states)
    }

    /// The same step by step, with products that are given.
    pub(crate) fn stepped(&self, x: &Tensor, start: &[Tensor], products: &mut Products<'_>) -> Doing<Vec<Value>> {
        let (mut sequences, mut states) = (Vec::new(), vec![Vec::new(), Vec::new()]);
        states.truncate(start.len());
        for direction in 0..self.directions as usize {
            let own = if direction == 1 { x.f_flip([0])? } else { x.shallow_clone() };
            let of_input = products(direction, false, &own.f_transpose(0, 1)?)?; // [N, T, rows]: positions behind the batch
            let mut state: Vec<_> =
                start.iter().map(|one| one.f_select(0, direction as i64)).collect::<Result<_, _>>()?;
            let mut sequence = Vec::new();
            for step in 0..x.size()[0] {
                let of_state = products(direction, true, &state[0])?;
                state = self.cell.step(&of_input.f_select(1, step)?, &of_state, &state)?;
                sequence.push(state[0].shallow_clone());
            }
            let sequence = Tensor::f_stack(&sequence, 0)?;
            sequences.push(if direction == 1 { sequence.f_flip([0])? } else { sequence });
            states.iter_mut().zip(state).for_each(|(all, own)| all.push(own));
        }
        let states = states.iter().map(|one| Tensor::f_stack(one, 0)).collect::<Result<_, _>>()?;
        self.results(&Tensor::f_stack(&sequences, 1)?, states)
    }

    /// `[T, directions, N, hidden]` and the last states as the node gives them.
    fn results(&self, y: &Tensor, states: Vec<Tensor>) -> Doing<Vec<Value>> {
        let y = if self.backward { y.f_flip([0])? } else { y.shallow_clone() };
        let y = if self.batch_first { y.f_permute([2, 0, 1, 3])? } else { y };
        let state = |one: Tensor| if self.batch_first { one.f_transpose(0, 1) } else { Ok(one) };
        let states = states.into_iter().map(state).collect::<Result<Vec<_>, _>>()?;
        Ok(std::iter::once(y).chain(states).map(Value::Tensor).collect())
    }
}

impl Cell {
    /// Place of each of libtorch's gates among ONNX's.
    fn gates(self) -> &'static [i64] {
        match self {
            Self::Lstm => &[0, 2, 3, 1],
            Self::Gru => &[1, 0, 2],
        }
    }

    fn functions(self) -> &'static [&'static str] {
        match self {
            Self::Lstm => &["Sigmoid", "Tanh", "Tanh"],
            Self::Gru => &["Sigmoid", "Tanh"],
        }
    }

    /// The next state, h first, from the products of input and state in libtorch's order of gates.
    fn step(self, of_input: &Tensor, of_state: &Tensor, state: &[Tensor]) -> Doing<Vec<Tensor>> {
        match (self, state) {
            (Self::Lstm, [_, c]) => {
                let gates = of_input.f_add(of_state)?.f_chunk(4, 1)?;
                let kept = gates[1].f_sigmoid()?.f_mul(c)?;
                let c = kept.f_add(&gates[0].f_sigmoid()?.f_mul(&gates[2].f_tanh()?)?)?;
                Ok(vec![gates[3].f_sigmoid()?.f_mul(&c.f_tanh()?)?, c])
            }
            (Self::Gru, [h]) => {
                let (own, kept) = (of_input.f_chunk(3, 1)?, of_state.f_chunk(3, 1)?);
                let reset = own[0].f_add(&kept[0])?.f_sigmoid()?;
                let update = own[1].f_add(&kept[1])?.f_sigmoid()?;
                let new = own[2].f_add(&reset.f_mul(&kept[2])?)?.f_tanh()?;
                Ok(vec![new.f_add(&update.f_mul(&h.f_sub(&new)?)?)?])
            }
            _ => Err("has states of another kind".into()),
        }
    }
}

pub(super) fn make(making: &Making) -> Doing<Kernel> {
    let cell = Recurrent::read(making.node)?.ok_or("is neither LSTM nor GRU")?;
    Ok(Box::new(move |inputs| {
        let x = cell.input(inputs)?;
        cell.at_once(&x, &cell.start(inputs, &x)?, &cell.parameters(inputs)?)
    }))
}
