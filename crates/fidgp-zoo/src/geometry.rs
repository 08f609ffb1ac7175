//! The layers of a network as numbers: what they are called and how large they are, without any tensor.

use fidgp::layer::Conv2dConfig;

use crate::LayerKind;

/// One layer with parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerGeometry {
    /// Its path: `layer2.1.conv1`.
    pub name: String,
    /// What it computes.
    pub operation: Operation,
    /// Height and width of its output; 1×1 for vectors.
    pub output: [i64; 2],
}

/// A layer's computation and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A convolution.
    Conv(Conv2dConfig),
    /// A fully connected layer.
    Linear {
        /// Features in.
        inputs: i64,
        /// Features out.
        outputs: i64,
        /// Whether there is a bias.
        bias: bool,
    },
    /// Batch normalisation.
    BatchNorm {
        /// Normalised features.
        features: i64,
    },
}

impl LayerGeometry {
    /// A convolution on an image of the given height and width.
    pub fn conv(name: impl Into<String>, config: Conv2dConfig, input: [i64; 2]) -> Self {
        let side = |i: usize| {
            let reach = config.dilation[i] * (config.kernel[i] - 1) + 1;
            (input[i] + 2 * config.padding[i] - reach) / config.stride[i] + 1
        };
        Self { name: name.into(), operation: Operation::Conv(config), output: [side(0), side(1)] }
    }

    /// A fully connected layer with a bias.
    pub fn linear(name: impl Into<String>, inputs: i64, outputs: i64) -> Self {
        Self { name: name.into(), operation: Operation::Linear { inputs, outputs, bias: true }, output: [1, 1] }
    }

    /// Batch normalisation of an image (or vector) of the given size.
    pub fn batch_norm(name: impl Into<String>, features: i64, size: [i64; 2]) -> Self {
        Self { name: name.into(), operation: Operation::BatchNorm { features }, output: size }
    }

    /// The kind a plan can name; none for layers without a weight matrix.
    pub fn kind(&self) -> Option<LayerKind> {
        match self.operation {
            Operation::Conv(_) => Some(LayerKind::Conv),
            Operation::Linear { .. } => Some(LayerKind::Linear),
            Operation::BatchNorm { .. } => None,
        }
    }

    /// `(d_out, d_in)` of the weight matrix, a bias counted as one more column; none without one.
    pub fn weight(&self) -> Option<(i64, i64)> {
        match self.operation {
            Operation::Conv(conv) => {
                Some((conv.out_channels, conv.weight_shape()[1..].iter().product::<i64>() + i64::from(conv.bias)))
            }
            Operation::Linear { inputs, outputs, bias } => Some((outputs, inputs + i64::from(bias))),
            Operation::BatchNorm { .. } => None,
        }
    }

    /// Channels (or features) out and in, and biases.
    pub(crate) fn widths(&self) -> (i64, i64, i64) {
        match self.operation {
            Operation::Conv(conv) => {
                let biases = if conv.bias { conv.out_channels } else { 0 };
                (conv.out_channels, conv.in_channels / conv.groups, biases)
            }
            Operation::Linear { inputs, outputs, bias } => (outputs, inputs, if bias { outputs } else { 0 }),
            Operation::BatchNorm { .. } => (0, 0, 0),
        }
    }

    /// Output positions that use the same weight.
    pub fn positions(&self) -> i64 {
        self.output[0] * self.output[1]
    }

    /// Trainable numbers of the plain layer.
    pub fn dense_parameters(&self) -> i64 {
        match self.operation {
            Operation::BatchNorm { features } => 2 * features,
            _ => self.weight().map_or(0, |(d_out, d_in)| d_out * d_in),
        }
    }

    /// Numbers that are stored but not trained: running mean and variance.
    pub fn buffers(&self) -> i64 {
        match self.operation {
            Operation::BatchNorm { features } => 2 * features,
            _ => 0,
        }
    }

    /// Multiply-accumulates of one image with a given weight; bias and normalisation are not counted.
    pub fn macs(&self) -> i64 {
        let per_position = match self.operation {
            Operation::Conv(conv) => conv.weight_shape().iter().product(),
            Operation::Linear { inputs, outputs, .. } => inputs * outputs,
            Operation::BatchNorm { .. } => 0,
        };
        per_position * self.positions()
    }
}
