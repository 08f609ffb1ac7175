//! A graph as a network of our layers.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

use fidgp::layer::{Layer, Layers, Network, Parameter, Pass, Start};
use tch::{Kind, Tensor};

use crate::error::{Doing, Error, Result};
use crate::found::FoundCell;
use crate::graph::{Graph, Id, Port};
use crate::ops::{Context, Inputs, Value};
use crate::part::{self, Part};
use crate::parts::Parts;
use crate::program::{Program, Work};

/// A network that a graph describes. It is plain and has no numbers: a plan says which of its layers are Bayesian,
/// [`init`](fidgp::layer::init) makes its numbers, [`Import::tensors`](crate::Import) has those of the file.
#[derive(Debug)]
pub struct GraphNetwork {
    program: Program,
    parts: Vec<Part>,
    cells: Vec<FoundCell>,
    values: Vec<(Id, Parameter)>,
    blocks: Vec<Block>,
    head: Option<String>,
}

/// Steps from one value that alone is alive to the next.
#[derive(Clone, Debug)]
struct Block {
    steps: Range<usize>,
    from: Id,
    to: Id,
}

impl GraphNetwork {
    /// A network of layers that were found in a graph, with one input and one output.
    pub(crate) fn new(graph: &Graph, found: &mut Parts, float: Kind) -> Result<Self> {
        let given: BTreeSet<Id> = found.values.iter().map(|(id, _)| *id).collect();
        let program = Program::new(graph, &given, Context { float })?;
        let parts = found.layers.iter().map(Part::new).collect::<fidgp::Result<_>>()?;
        let value = |(id, name): &(Id, String)| {
            let held = &graph.constants[id];
            Ok((*id, Parameter::new(name, &held.size(), start(held)?)?))
        };
        let values = found.values.iter().map(value).collect::<Result<_>>()?;
        let blocks = blocks(&program, &given);
        let head = found.head.map(|head| found.layers[head].name.clone());
        let cells = std::mem::take(&mut found.cells);
        Ok(Self { program, parts, cells, values, blocks, head })
    }

    /// The input.
    pub fn input(&self) -> &Port {
        &self.program.inputs[0]
    }

    /// Whether it takes pictures of so many channels with the channels last. It is given them with the channels first all the
    /// same, and turns them.
    pub fn has_channels_last(&self, channels: i64) -> bool {
        let shape = self.input().shape.as_deref();
        matches!(shape, Some([_, first, _, Some(last)]) if *last == channels && *first != Some(channels))
    }

    /// The output.
    pub fn output(&self) -> &Port {
        &self.program.outputs[0]
    }

    fn run(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let x = self.program.input(self.input(), &channels_as_wanted(self.input(), x))?;
        let mut values = self.program.start()?;
        let compute = pass.compute.take(); // parameters in between are used in their own type
        for (id, parameter) in &self.values {
            values[*id] = Some(Value::Tensor(parameter.value(pass)?));
        }
        pass.compute = compute;
        let values = RefCell::new(values);
        let device = x.device();
        let failed = RefCell::new(None);
        let outcome = pass.blocks(&x, &self.blocks, |block, h, pass| {
            let values = &mut *values.borrow_mut();
            values[block.from] = Some(Value::Tensor(h.shallow_clone()));
            let mut own = |work: &Work, inputs: &Inputs| self.own(work, inputs, pass);
            let ran = self.program.steps(block.steps.clone(), values, device, &mut own);
            let output = ran.and_then(|()| output_of(block.to, values));
            output.map_err(|error| {
                let shown = error.to_string();
                *failed.borrow_mut() = Some(error);
                fidgp::Error::setting("network", "ONNX", shown)
            })
        });
        match (outcome, failed.into_inner()) {
            (Err(_), Some(error)) => Err(error),
            (outcome, _) => Ok(outcome?),
        }
    }

    /// What a layer or a cell gives, in the type of what it was given.
    fn own(&self, work: &Work, inputs: &Inputs, pass: &mut Pass) -> Doing<Vec<Value>> {
        let x = inputs.tensor(0)?;
        match work {
            Work::Kernel(_) => Err("is no layer".into()),
            Work::Cell(number) => {
                let made = part::run_cell(&self.cells[*number], &self.parts, inputs, pass)?;
                let typed = |value: Value| Ok(Value::Tensor(value.tensor()?.f_to_kind(x.kind())?));
                made.into_iter().map(typed).collect()
            }
            Work::Layer(number) => {
                let part = &self.parts[*number];
                if self.head.as_deref() == Some(part.layer().name()) {
                    pass.tap("features", x);
                }
                Ok(vec![Value::Tensor(part.forward(inputs, pass)?.f_to_kind(x.kind())?)])
            }
        }
    }
}

impl Network for GraphNetwork {
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        self.run(x, pass).map_err(Error::into_method)
    }

    fn head(&self) -> Option<&str> {
        self.head.as_deref()
    }
}

impl Layers for GraphNetwork {
    fn layers(&self) -> Vec<&dyn Layer> {
        let values = self.values.iter().map(|(_, value)| value as &dyn Layer);
        values.chain(self.parts.iter().map(Part::layer)).collect()
    }

    fn layers_mut(&mut self) -> Vec<&mut dyn Layer> {
        let values = self.values.iter_mut().map(|(_, value)| value as &mut dyn Layer);
        values.chain(self.parts.iter_mut().map(Part::layer_mut)).collect()
    }
}

/// Numbers like those of the file, which says nothing else of a parameter that is no layer's: weights scatter, factors are 1.
fn start(held: &Tensor) -> Result<Start> {
    let held = held.f_to_kind(Kind::Double)?;
    let mean = held.f_mean(Kind::Double)?.f_double_value(&[])?;
    let square = held.f_sub_scalar(mean)?.f_square()?.f_mean(Kind::Double)?.f_double_value(&[])?;
    Ok(Start::Around { mean, sd: square.sqrt() })
}

/// Cuts a program where one value alone is alive and a layer follows.
fn blocks(program: &Program, given: &BTreeSet<Id>) -> Vec<Block> {
    let (input, output) = (program.inputs[0].id, program.outputs[0].id);
    let mut alive = BTreeSet::from([input]);
    let (mut blocks, mut start, mut from) = (Vec::new(), 0, input);
    for (number, step) in program.steps.iter().enumerate() {
        alive.extend(step.outputs.iter().flatten());
        step.last.iter().for_each(|id| _ = alive.remove(id));
        let next = program.steps.get(number + 1);
        let before_layer = next.is_some_and(|next| matches!(next.work, Work::Layer(_) | Work::Cell(_)));
        if let (true, 1, Some(to)) = (before_layer, alive.len(), alive.first().copied()) {
            blocks.push(Block { steps: start..number + 1, from, to });
            (start, from) = (number + 1, to);
        }
    }
    debug_assert!(given.is_disjoint(&alive), "parameters are given, not made");
    blocks.push(Block { steps: start..program.steps.len(), from, to: output });
    blocks
}

/// Pictures as a graph takes them: those of some frameworks have the channels last.
fn channels_as_wanted(port: &Port, x: &Tensor) -> Tensor {
    match x.size()[..] {
        [n, channels, height, width]
            if port.check(&[n, channels, height, width]).is_err()
                && port.check(&[n, height, width, channels]).is_ok() =>
        {
            x.permute([0, 2, 3, 1])
        }
        _ => x.shallow_clone(),
    }
}

fn output_of(id: Id, values: &[Option<Value>]) -> Result<Tensor> {
    let found = values[id].as_ref().and_then(|value| value.tensor().ok());
    found.map(Tensor::shallow_clone).ok_or_else(|| Error::graph("the network's output does not depend on its input"))
}
