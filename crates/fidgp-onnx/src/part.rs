//! The parts of a network that a graph describes: our layers, in the place of nodes.

use fidgp::layer::{BatchNorm, Conv2d, Conv2dConfig, Layer, LayerNorm, Linear, Pass, Slot};
use tch::Tensor;

use crate::error::Doing;
use crate::found::{Found, FoundCell, Shape, unpatched};
use crate::ops::{Inputs, Transposed, Value, Window};

/// One of our layers in place of a node.
#[derive(Debug)]
pub(crate) enum Part {
    Linear(Linear),
    Conv(Convolution),
    Transposed(TransposedConvolution),
    BatchNorm(BatchNorm),
    LayerNorm(LayerNorm),
}

/// A convolution whose borders or axes are not those of our layer.
#[derive(Debug)]
pub(crate) struct Convolution {
    layer: Conv2d,
    window: Window,
    kernel: Vec<i64>,
}

/// A transposed convolution: a 1×1 convolution gives every input's patch, and patches are added where they overlap.
#[derive(Debug)]
pub(crate) struct TransposedConvolution {
    layer: Conv2d,
    geometry: Transposed,
    /// `[in, out/groups, ..]`
    weight: Vec<i64>,
}

impl Part {
    pub(crate) fn new(found: &Found) -> fidgp::Result<Self> {
        let name = &found.name;
        Ok(match &found.shape {
            Shape::Linear { inputs, outputs, bias } => Self::Linear(Linear::new(name, *inputs, *outputs, *bias)?),
            Shape::BatchNorm { features, epsilon, momentum } => {
                Self::BatchNorm(BatchNorm::new(name, *features)?.with(*momentum, *epsilon)?)
            }
            Shape::LayerNorm { features, epsilon } => {
                Self::LayerNorm(LayerNorm::new(name, *features)?.with_epsilon(*epsilon)?)
            }
            Shape::Conv { weight, groups, window, bias } => {
                Self::Conv(Convolution::new(name, weight, *groups, window, *bias)?)
            }
            Shape::Transposed { weight, geometry } => {
                Self::Transposed(TransposedConvolution::new(name, weight, geometry)?)
            }
        })
    }

    pub(crate) fn forward(&self, inputs: &Inputs, pass: &mut Pass) -> Doing<Tensor> {
        let x = inputs.tensor(0)?;
        Ok(match self {
            Self::Linear(linear) => linear.forward(x, pass)?,
            Self::Conv(conv) => conv.forward(x, pass)?,
            Self::Transposed(conv) => conv.forward(inputs, pass)?,
            Self::BatchNorm(norm) => norm.forward(x, pass)?,
            Self::LayerNorm(norm) => norm.forward(x, pass)?,
        })
    }

    pub(crate) fn layer(&self) -> &dyn Layer {
        match self {
            Self::Linear(layer) => layer,
            Self::Conv(conv) => &conv.layer,
            Self::Transposed(conv) => &conv.layer,
            Self::BatchNorm(layer) => layer,
            Self::LayerNorm(layer) => layer,
        }
    }

    pub(crate) fn layer_mut(&mut self) -> &mut dyn Layer {
        match self {
            Self::Linear(layer) => layer,
            Self::Conv(conv) => &mut conv.layer,
            Self::Transposed(conv) => &mut conv.layer,
            Self::BatchNorm(layer) => layer,
            Self::LayerNorm(layer) => layer,
        }
    }
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

impl TransposedConvolution {
    fn new(name: &str, weight: &[i64], geometry: &Transposed) -> fidgp::Result<Self> {
        let places: i64 = weight[2..].iter().product();
        let config = Conv2dConfig {
            in_channels: weight[0],
            out_channels: weight[1] * geometry.groups * places,
            groups: geometry.groups,
            ..Conv2dConfig::same(1, 1, 1)
        };
        Ok(Self { layer: Conv2d::new(name, config)?, geometry: geometry.clone(), weight: weight.to_vec() })
    }

    fn forward(&self, inputs: &Inputs, pass: &mut Pass) -> Doing<Tensor> {
        let (x, axes, config) = (inputs.tensor(0)?, self.weight.len() - 2, &self.layer.config);
        let size = x.size();
        if size.len() != axes + 2 || size[1] != config.in_channels {
            return Err(format!("its input has shape {size:?}, its weight {:?}", self.weight).into());
        }
        let (bias, fits) = (inputs.optional(2)?, |shape: &[i64]| inputs.fits(shape));
        if let Some((matrix, _)) = self.layer.slot.matrix(config.in_channels / config.groups, pass)? {
            let weight = unpatched(&matrix, config.groups, &self.weight)?;
            let (x, bias) = (x.f_to_kind(weight.kind())?, bias.map(|bias| bias.to_kind(weight.kind())));
            return self.geometry.apply(&fits, &x, &weight, bias.as_ref());
        }
        let x = if axes == 1 { x.f_unsqueeze(2)? } else { x.shallow_clone() };
        let patches = self.layer.forward(&x, pass)?;
        let y = self.geometry.folded(&fits, &patches, &size[2..], &self.weight)?;
        let Some(bias) = bias else { return Ok(y) };
        let shape: Vec<_> = [-1].into_iter().chain(vec![1; axes]).collect();
        Ok(y.f_add(&bias.f_reshape(shape)?.f_to_kind(y.kind())?)?)
    }
}

/// Runs an LSTM or a GRU: at once where the pass has its weights as matrices, else step by step.
pub(crate) fn run_cell(cell: &FoundCell, parts: &[Part], inputs: &Inputs, pass: &mut Pass) -> Doing<Vec<Value>> {
    let linear = |number: usize| match &parts[number] {
        Part::Linear(layer) => Ok(layer),
        _ => Err("has a part that is no linear layer"),
    };
    let settings = &cell.settings;
    let x = settings.input(inputs)?;
    let mut parameters = Some(Vec::new());
    for pair in &cell.layers {
        let mut biases = Vec::new();
        for number in pair {
            let layer = linear(*number)?;
            let held = matrix(&layer.slot, layer, pass)?;
            parameters = parameters.zip(held).map(|(mut all, (weight, bias))| {
                all.push(weight);
                biases.extend(bias);
                all
            });
        }
        if let Some(parameters) = &mut parameters {
            parameters.extend(biases);
        }
    }
    let plain = |direction: usize| settings.biases(inputs, direction as i64);
    if let Some(mut parameters) = parameters {
        let kind = parameters[0].kind();
        if inputs.optional(3)?.is_some() {
            for (direction, at) in (0..cell.layers.len()).zip((2..).step_by(4)) {
                let own = plain(direction)?.into_iter().flatten().map(|bias| bias.to_kind(kind));
                parameters.splice(at..at, own);
            }
        }
        let start = settings.start(inputs, &x)?.iter().map(|one| one.f_to_kind(kind)).collect::<Result<Vec<_>, _>>()?;
        return settings.at_once(&x.f_to_kind(kind)?, &start, &parameters);
    }
    let biases = (0..cell.layers.len()).map(plain).collect::<Doing<Vec<_>>>()?;
    settings.stepped(&x, &settings.start(inputs, &x)?, &mut |direction, of_state, x| {
        let side = usize::from(of_state);
        let y = linear(cell.layers[direction][side])?.forward(x, pass)?;
        let y = if let Some(both) = &biases[direction] { y.f_add(&both[side])? } else { y };
        Ok(y.f_to_kind(x.kind())?)
    })
}

fn matrix(slot: &Slot, layer: &Linear, pass: &Pass) -> fidgp::Result<Option<(Tensor, Option<Tensor>)>> {
    slot.matrix(layer.operation().widths().1, pass)
}

/// A number for each of two axes; one axis is the second.
fn two(list: &[i64], first: i64) -> [i64; 2] {
    match list {
        [one] => [first, *one],
        list => [list[0], list[1]],
    }
}
