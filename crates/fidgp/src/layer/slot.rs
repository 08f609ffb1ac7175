//! What holds a layer's weight: a plain matrix, or an inducing one. Chosen before construction.

use tch::Tensor;
use tch::nn::{Init, Path};

use super::CustomWeight;
use crate::prior::layer_name;
use crate::weight::{InducingConfig, InducingWeight};
use crate::{Key, Result};

/// How a layer's weight is held.
#[derive(Clone, Debug, PartialEq)]
pub enum SlotConfig {
    /// A plain weight.
    Dense,
    /// A Bayesian weight.
    Inducing(Box<InducingConfig>),
}

/// A plain weight with an optional bias.
#[derive(Debug)]
pub struct DenseWeight {
    /// The layer's name.
    pub name: String,
    /// `[d_out, ..]`, in the layer's own shape.
    pub weight: Tensor,
    /// `[d_out]`
    pub bias: Option<Tensor>,
}

/// The weight of a layer.
#[derive(Debug)]
pub enum Slot {
    /// A plain weight.
    Dense(DenseWeight),
    /// A Bayesian weight; a bias is its last column.
    Inducing(Box<InducingWeight>),
    /// A weight of another method.
    Custom(Box<dyn CustomWeight>),
}

impl Slot {
    /// A weight of the given shape (`[d_out, ..]`).
    ///
    /// Plain weights start uniform on `±1/√fan_in` as PyTorch's layers do, or with He's normal for the fan-out
    /// (`relu_fan_out`, as torchvision's ResNets do), always from the layer's own key.
    ///
    /// # Errors
    /// When a setting is out of range.
    pub fn init(
        path: &Path,
        shape: &[i64],
        bias: bool,
        start: DenseStart,
        config: &SlotConfig,
        key: Key,
    ) -> Result<Self> {
        let (d_out, fan_in) = (shape[0], shape[1..].iter().product::<i64>());
        match config {
            SlotConfig::Inducing(config) => {
                let weight = InducingWeight::init(path, d_out, fan_in + i64::from(bias), config, key)?;
                Ok(Self::Inducing(Box::new(weight)))
            }
            SlotConfig::Dense => Ok(Self::Dense(DenseWeight::init(path, shape, bias, start, key))),
        }
    }

    /// The Bayesian weight, if it is one.
    pub fn inducing(&self) -> Option<&InducingWeight> {
        match self {
            Self::Inducing(weight) => Some(weight),
            Self::Dense(_) | Self::Custom(_) => None,
        }
    }

    /// The layer's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Inducing(weight) => &weight.name,
            Self::Dense(dense) => &dense.name,
            Self::Custom(weight) => weight.name(),
        }
    }

    /// The weight, if it has a law of its own.
    pub fn custom(&self) -> Option<&dyn CustomWeight> {
        match self {
            Self::Custom(weight) => Some(weight.as_ref()),
            Self::Dense(_) | Self::Inducing(_) => None,
        }
    }

    /// Whether two passes with other noise give other outputs in evaluation.
    pub fn is_random(&self) -> bool {
        match self {
            Self::Inducing(_) => true,
            Self::Dense(_) => false,
            Self::Custom(weight) => weight.is_random(),
        }
    }
}

/// The law a plain weight starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenseStart {
    /// Uniform on `±1/√fan_in`.
    Uniform,
    /// `N(0, 2/fan_out)`.
    HeFanOut,
}

impl DenseWeight {
    fn init(path: &Path, shape: &[i64], bias: bool, start: DenseStart, key: Key) -> Self {
        let name = layer_name(path);
        let key = key.fold(&name);
        let (kind, device) = (path.kind(), path.device());
        let fan_in = shape[1..].iter().product::<i64>() as f64;
        let uniform =
            |label: &str, shape: &[i64]| (key.fold(label).uniform(shape, kind, device) * 2.0 - 1.0) / fan_in.sqrt();
        let weight = match start {
            DenseStart::Uniform => uniform("weight", shape),
            DenseStart::HeFanOut => {
                let fan_out = (shape[0] * shape[2..].iter().product::<i64>()) as f64;
                key.fold("weight").normal(shape, kind, device) * (2.0 / fan_out).sqrt()
            }
        };
        let variable = |label: &str, value: &Tensor| {
            let mut variable = path.var(label, &value.size(), Init::Const(0.0));
            tch::no_grad(|| variable.copy_(value));
            variable
        };
        let bias = bias.then(|| variable("bias", &uniform("bias", &shape[..1])));
        Self { weight: variable("weight", &weight), bias, name }
    }
}
