//! A graph as a network of our layers.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

use fidgp::layer::{
    BatchNorm, Conv2d, Conv2dConfig, Layer, LayerNorm, Layers, Linear, Network, Parameter, Pass, Start,
};
use tch::{Kind, Tensor};

use crate::error::{Doing, Error, Result};
use crate::graph::{Graph, Id, Port};
use crate::ops::{Context, Value, Window};
use crate::parts::{Found, Parts, Shape};
use crate::program::{Program, Work};

/// A network that a graph describes. It is plain and has no numbers: a plan says which of its layers are Bayesian,
/// [`init`](fidgp::layer::init) makes its numbers, [`Import::tensors`](crate::Import) has those of the file.
#[derive(Debug)]
pub struct GraphNetwork {
    program: Program,
    parts: Vec<Part>,
    values: Vec<(Id, Parameter)>,
    blocks: Vec<Block>,
    head: Option<String>,
}

/// One of our layers in place of a node.
#[derive(Debug)]
enum Part {
    Linear(Linear),
    Conv(Convolution),
    BatchNorm(BatchNorm),
    LayerNorm(LayerNorm),
}

/// A convolution whose borders or axes are not those of our layer.
#[derive(Debug)]
struct Convolution {
    layer: Conv2d,
    window: Window,
    kernel: Vec<i64>,
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
    pub(crate) fn new(graph: &Graph, found: &Parts, float: Kind) -> Result<Self> {
        let given: BTreeSet<Id> = found.values.iter().map(|(id, _)| *id).collect();
        let program = Program::new(graph, &given, Context { float })?;
        let parts = found.layers.iter().map(part).collect::<fidgp::Result<_>>()?;
        let value = |(id, name): &(Id, String)| {
            let held = &graph.constants[id];
            Ok((*id, Parameter::new(name, &held.size(), start(held)?)?))
        };
        let values = found.values.iter().map(value).collect::<Result<_>>()?;
        let blocks = blocks(&program, &given);
        let head = found.head.map(|head| found.layers[head].name.clone());
        Ok(Self { program, parts, values, blocks, head })
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
            let mut layer = |number: usize, x: &Tensor| self.layer(number, x, pass);
            let ran = self.program.steps(block.steps.clone(), values, device, &mut layer);
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

    /// The layer's output in the type of what it was given.
    fn layer(&self, number: usize, x: &Tensor, pass: &mut Pass) -> Doing<Tensor> {
        let part = &self.parts[number];
        if self.head.as_deref() == Some(part.layer().name()) {
            pass.tap("features", x);
        }
        let y = match part {
            Part::Linear(linear) => linear.forward(x, pass)?,
            Part::Conv(conv) => conv.forward(x, pass)?,
            Part::BatchNorm(norm) => norm.forward(x, pass)?,
            Part::LayerNorm(norm) => norm.forward(x, pass)?,
        };
        Ok(y.f_to_kind(x.kind())?)
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

impl Part {
    fn layer(&self) -> &dyn Layer {
        match self {
            Self::Linear(layer) => layer,
            Self::Conv(conv) => &conv.layer,
            Self::BatchNorm(layer) => layer,
            Self::LayerNorm(layer) => layer,
        }
    }

    fn layer_mut(&mut self) -> &mut dyn Layer {
        match self {
            Self::Linear(layer) => layer,
            Self::Conv(conv) => &mut conv.layer,
            Self::BatchNorm(layer) => layer,
            Self::LayerNorm(layer) => layer,
        }
    }
}

/// Numbers like those of the file, which says nothing else of a parameter that is no layer's: weights scatter, factors are 1.
fn start(held: &Tensor) -> Result<Start> {
    let held = held.f_to_kind(Kind::Double)?;
    let mean = held.f_mean(Kind::Double)?.f_double_value(&[])?;
    let square = held.f_sub_scalar(mean)?.f_square()?.f_mean(Kind::Double)?.f_double_value(&[])?;
    Ok(Start::Around { mean, sd: square.sqrt() })
}

fn part(found: &Found) -> fidgp::Result<Part> {
    let name = &found.name;
    Ok(match &found.shape {
        Shape::Linear { inputs, outputs, bias } => Part::Linear(Linear::new(name, *inputs, *outputs, *bias)?),
        Shape::BatchNorm { features, epsilon, momentum } => {
            Part::BatchNorm(BatchNorm::new(name, *features)?.with(*momentum, *epsilon)?)
        }
        Shape::LayerNorm { features, epsilon } => {
            Part::LayerNorm(LayerNorm::new(name, *features)?.with_epsilon(*epsilon)?)
        }
        Shape::Conv { weight, groups, window, bias } => {
            Part::Conv(Convolution::new(name, weight, *groups, window, *bias)?)
        }
    })
}

impl Convolution {
    fn new(name: &str, weight: &[i64], groups: i64, window: &Window, bias: bool) -> fidgp::Result<Self> {
        let kernel = weight[2..].to_vec();
        let padding = window.equal_borders().unwrap_or_else(|| vec![0; kernel.len()]);
        let config = Conv2dConfig {
            in_channels: weight[1] * groups,
            out_channels: weight[0],
            kernel: two(&kernel, 1),
            stride: two(&window.strides, 1),
            padding: two(&padding, 0),
            dilation: two(&window.dilations, 1),
            groups,
            bias,
        };
        Ok(Self { layer: Conv2d::new(name, config)?, window: window.clone(), kernel })
    }

    /// One axis is two of which the first is 1; borders that differ are put on before.
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> Doing<Tensor> {
        let axes = self.kernel.len();
        let size = x.size();
        if size.len() != axes + 2 {
            return Err(format!("its input has shape {size:?}; it needs {} axes", axes + 2).into());
        }
        let mut x = x.shallow_clone();
        if self.window.equal_borders().is_none() {
            let borders = self.window.borders(&size[2..], &self.kernel);
            let from_last: Vec<_> = borders.iter().rev().flatten().copied().collect();
            x = x.f_constant_pad_nd(from_last)?;
        }
        if axes == 2 {
            return Ok(self.layer.forward(&x, pass)?);
        }
        Ok(self.layer.forward(&x.f_unsqueeze(2)?, pass)?.f_squeeze_dim(2)?)
    }
}

/// A number for each of two axes; one axis is the second.
fn two(list: &[i64], first: i64) -> [i64; 2] {
    match list {
        [one] => [first, *one],
        list => [list[0], list[1]],
    }
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
        let before_layer = next.is_some_and(|next| matches!(next.work, Work::Layer(_)));
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
