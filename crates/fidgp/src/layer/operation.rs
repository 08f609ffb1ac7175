//! What a layer computes, as numbers.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::Conv2dConfig;

/// Kinds of layers that have a weight matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerKind {
    /// A convolution.
    Conv,
    /// A fully connected layer.
    Linear,
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
    /// Layer normalisation.
    LayerNorm {
        /// Normalised features.
        features: i64,
    },
    /// A tensor of its own: positions, a class token, an embedding.
    Parameter {
        /// Its numbers.
        numbers: i64,
    },
}

impl Operation {
    /// The kind a plan can name; none for layers without a weight matrix.
    pub fn kind(&self) -> Option<LayerKind> {
        match self {
            Self::Conv(_) => Some(LayerKind::Conv),
            Self::Linear { .. } => Some(LayerKind::Linear),
            Self::BatchNorm { .. } | Self::LayerNorm { .. } | Self::Parameter { .. } => None,
        }
    }

    /// `(d_out, d_in)` of the weight matrix, a bias counted as one more column; none without one.
    pub fn weight(&self) -> Option<(i64, i64)> {
        match self {
            Self::Conv(conv) => {
                Some((conv.out_channels, conv.weight_shape()[1..].iter().product::<i64>() + i64::from(conv.bias)))
            }
            Self::Linear { inputs, outputs, bias } => Some((*outputs, inputs + i64::from(*bias))),
            _ => None,
        }
    }

    /// Channels (or features) out and in, and biases; zeros without a weight matrix.
    pub fn widths(&self) -> (i64, i64, i64) {
        match self {
            Self::Conv(conv) => {
                let biases = if conv.bias { conv.out_channels } else { 0 };
                (conv.out_channels, conv.in_channels / conv.groups, biases)
            }
            Self::Linear { inputs, outputs, bias } => (*outputs, *inputs, if *bias { *outputs } else { 0 }),
            _ => (0, 0, 0),
        }
    }

    /// Trainable numbers of the plain layer.
    pub fn parameters(&self) -> i64 {
        match self {
            Self::BatchNorm { features } | Self::LayerNorm { features } => 2 * features,
            Self::Parameter { numbers } => *numbers,
            Self::Conv(_) | Self::Linear { .. } => self.weight().map_or(0, |(d_out, d_in)| d_out * d_in),
        }
    }

    /// Numbers that are stored but not trained: running mean and variance.
    pub fn buffers(&self) -> i64 {
        if let Self::BatchNorm { features } = self { 2 * features } else { 0 }
    }

    /// Multiply-accumulates at one position; bias and normalisation are not counted.
    pub fn macs(&self) -> i64 {
        match self {
            Self::Conv(conv) => conv.weight_shape().iter().product(),
            Self::Linear { inputs, outputs, .. } => inputs * outputs,
            _ => 0,
        }
    }
}

impl Display for Operation {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let text = match self {
            Self::Conv(c) => {
                let stride = if c.stride == [1, 1] { String::new() } else { format!(" /{}", c.stride[0]) };
                format!("conv {}x{} {}>{}{stride}", c.kernel[0], c.kernel[1], c.in_channels, c.out_channels)
            }
            Self::Linear { inputs, outputs, .. } => format!("linear {inputs}>{outputs}"),
            Self::BatchNorm { features } => format!("batch norm {features}"),
            Self::LayerNorm { features } => format!("layer norm {features}"),
            Self::Parameter { numbers } => format!("parameter {numbers}"),
        };
        f.pad(&text)
    }
}
