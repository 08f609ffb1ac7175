//! What holds a layer's weight: a plain matrix, an inducing one, or that of another method.

use std::sync::Arc;

use tch::Tensor;
use tch::nn::Path;

use super::network::{with_numbers, without_numbers};
use super::{CustomWeight, MakeWeight, Pass};
use crate::prior::layer_name;
use crate::role::Role;
use crate::weight::{Drawn, InducingConfig, InducingWeight};
use crate::{Error, Key, Result};

/// How a layer's weight is held.
#[derive(Clone, Debug)]
pub enum SlotConfig {
    /// A plain weight.
    Dense,
    /// A Bayesian weight.
    Inducing(Box<InducingConfig>),
    /// A weight of another method.
    Custom(Arc<dyn MakeWeight>),
}

impl SlotConfig {
    fn is_random(&self) -> bool {
        match self {
            Self::Dense => false,
            Self::Inducing(_) => true,
            Self::Custom(method) => method.is_random(),
        }
    }
}

/// A weight that has no numbers yet.
#[derive(Clone, Debug)]
pub struct PlannedWeight {
    /// The layer's name within its network.
    pub name: String,
    /// `[d_out, ..]`, in the layer's own shape.
    pub shape: Vec<i64>,
    /// Whether there is a bias.
    pub bias: bool,
    /// The law a plain weight starts from.
    pub start: DenseStart,
    /// What it will be.
    pub config: SlotConfig,
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
    /// None yet: the network has no numbers.
    Planned(Box<PlannedWeight>),
    /// A plain weight.
    Dense(DenseWeight),
    /// A Bayesian weight; a bias is its last column.
    Inducing(Box<InducingWeight>),
    /// A weight of another method.
    Custom(Box<dyn CustomWeight>),
}

impl Slot {
    /// A plain weight to be.
    pub(super) fn plan(name: String, shape: &[i64], bias: bool, start: DenseStart) -> Self {
        Self::Planned(Box::new(PlannedWeight { name, shape: shape.to_vec(), bias, start, config: SlotConfig::Dense }))
    }

    /// Says what the weight will be.
    ///
    /// # Errors
    /// When it has numbers already.
    pub fn set(&mut self, config: SlotConfig) -> Result<()> {
        match self {
            Self::Planned(planned) => {
                planned.config = config;
                Ok(())
            }
            other => Err(with_numbers(other.name())),
        }
    }

    /// Makes its numbers under `path`.
    ///
    /// # Errors
    /// When a setting is out of range, or it has numbers already.
    pub(super) fn init(&mut self, path: &Path, key: Key) -> Result<()> {
        match self {
            Self::Planned(planned) => {
                *self = planned.make(path, key)?;
                Ok(())
            }
            other => Err(with_numbers(other.name())),
        }
    }

    /// What is said where a weight is used that has no numbers.
    pub(super) fn unmade(&self) -> Error {
        without_numbers(self.name())
    }

    /// The Bayesian weight, if it is one.
    pub fn inducing(&self) -> Option<&InducingWeight> {
        match self {
            Self::Inducing(weight) => Some(weight),
            Self::Planned(_) | Self::Dense(_) | Self::Custom(_) => None,
        }
    }

    /// The layer's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Planned(planned) => &planned.name,
            Self::Inducing(weight) => &weight.name,
            Self::Dense(dense) => &dense.name,
            Self::Custom(weight) => weight.name(),
        }
    }

    /// The weight matrix that a pass has drawn, and the bias, for an operation that takes several weights at once. None where
    /// there is no such matrix (noise on the outputs, another method's weight, a trace), or where somebody asked for what the
    /// layer is given.
    ///
    /// # Shapes
    /// `[d_out, inputs]`, `[d_out]`
    ///
    /// # Errors
    /// When it has no numbers, or was not drawn.
    pub fn matrix(&self, inputs: i64, pass: &Pass) -> Result<Option<(Tensor, Option<Tensor>)>> {
        if pass.trace.is_some() || pass.taps.wants(self.name()) {
            return Ok(None);
        }
        match self {
            Self::Planned(_) => Err(self.unmade()),
            Self::Custom(_) => Ok(None),
            Self::Dense(dense) => {
                let weight = pass.cast(&dense.weight).f_reshape([-1, inputs])?;
                Ok(Some((weight, dense.bias.as_ref().map(|bias| pass.cast(bias)))))
            }
            Self::Inducing(weight) => match pass.drawn(&weight.name)? {
                Drawn::MeanAndScale { .. } => Ok(None),
                Drawn::Weight(w) => {
                    let bias = (w.size()[1] > inputs).then(|| pass.cast(&w.select(1, inputs)));
                    Ok(Some((pass.cast(&w.f_narrow(1, 0, inputs)?), bias)))
                }
            },
        }
    }

    /// The weight, if it has a law of its own.
    pub fn custom(&self) -> Option<&dyn CustomWeight> {
        match self {
            Self::Custom(weight) => Some(weight.as_ref()),
            Self::Planned(_) | Self::Dense(_) | Self::Inducing(_) => None,
        }
    }

    /// Whether two passes with other noise give other outputs in evaluation.
    pub fn is_random(&self) -> bool {
        match self {
            Self::Planned(planned) => planned.config.is_random(),
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

impl PlannedWeight {
    fn make(&self, path: &Path, key: Key) -> Result<Slot> {
        match &self.config {
            SlotConfig::Dense => Ok(Slot::Dense(self.dense(&Role::Decayed.of(path), self.bias, key))),
            SlotConfig::Inducing(config) => {
                let d_in = self.shape[1..].iter().product::<i64>() + i64::from(self.bias);
                let weight = InducingWeight::init(path, self.shape[0], d_in, config, key)?;
                Ok(Slot::Inducing(Box::new(weight)))
            }
            SlotConfig::Custom(method) => Ok(Slot::Custom(method.make(self, path, key)?)),
        }
    }

    /// The plain weight, with or without its bias: uniform on `±1/√fan_in` as PyTorch's layers start, or He's normal for the
    /// fan-out, as torchvision's ResNets do, always from the layer's own key. Its parameters have the role of the path.
    pub fn dense(&self, path: &Path, bias: bool, key: Key) -> DenseWeight {
        let name = layer_name(path);
        let key = key.fold(&name);
        let (kind, device, shape) = (path.kind(), path.device(), &self.shape);
        let fan_in = shape[1..].iter().product::<i64>() as f64;
        let uniform =
            |label: &str, shape: &[i64]| (key.fold(label).uniform(shape, kind, device) * 2.0 - 1.0) / fan_in.sqrt();
        let weight = match self.start {
            DenseStart::Uniform => uniform("weight", shape),
            DenseStart::HeFanOut => {
                let fan_out = (shape[0] * shape[2..].iter().product::<i64>()) as f64;
                key.fold("weight").normal(shape, kind, device) * (2.0 / fan_out).sqrt()
            }
        };
        let bias = bias.then(|| path.add("bias", uniform("bias", &shape[..1]), true));
        DenseWeight { weight: path.add("weight", weight, true), bias, name }
    }
}
