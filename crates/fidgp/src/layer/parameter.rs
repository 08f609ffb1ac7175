//! A tensor of its own in a network: positions, a class token, an embedding.

use tch::Tensor;
use tch::nn::Path;

use super::network::{with_numbers, without_numbers};
use super::{Layer, Operation, Pass};
use crate::prior::layer_name;
use crate::{Key, Result};

/// The law a parameter starts from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// Every number the same.
    Constant(f64),
    /// `N(0, sd²)`.
    Normal(f64),
    /// `N(mean, sd²)`: numbers like those of a tensor that is known.
    Around {
        /// Their mean.
        mean: f64,
        /// Their deviation; all are the same where it is 0.
        sd: f64,
    },
}

/// A trainable tensor that belongs to no other layer. It is not decayed.
#[derive(Debug)]
pub struct Parameter {
    name: String,
    shape: Vec<i64>,
    start: Start,
    value: Option<Tensor>,
}

impl Parameter {
    /// A parameter of this name and shape, without numbers yet.
    ///
    /// # Errors
    /// When a size is not positive.
    pub fn new(name: impl Into<String>, shape: &[i64], start: Start) -> Result<Self> {
        let name = name.into();
        super::at_least(1, &name, &shape.iter().map(|size| ("size", *size)).collect::<Vec<_>>())?;
        Ok(Self { name, shape: shape.to_vec(), start, value: None })
    }

    /// The tensor, in the type of the computation. In the parameter's own shape.
    ///
    /// # Errors
    /// When it has no numbers yet.
    pub fn value(&self, pass: &mut Pass) -> Result<Tensor> {
        if pass.trace.is_some() {
            let like = self.value.as_ref().map_or_else(|| Tensor::from(0_f32), Tensor::shallow_clone);
            return Ok(pass.traced(self, &like, &self.shape).unwrap_or(like));
        }
        self.value.as_ref().map(|value| pass.cast(value)).ok_or_else(|| without_numbers(&self.name))
    }
}

impl Layer for Parameter {
    fn name(&self) -> &str {
        &self.name
    }

    fn operation(&self) -> Operation {
        Operation::Parameter { numbers: self.shape.iter().product() }
    }

    fn init(&mut self, path: &Path, key: Key) -> Result<()> {
        if self.value.is_some() {
            return Err(with_numbers(&self.name));
        }
        self.name = layer_name(path);
        let (kind, device) = (path.kind(), path.device());
        let value = match self.start {
            Start::Constant(value) => Tensor::full(self.shape.as_slice(), value, (kind, device)),
            Start::Normal(sd) => key.fold(&self.name).normal(&self.shape, kind, device) * sd,
            Start::Around { mean, sd } => key.fold(&self.name).normal(&self.shape, kind, device) * sd + mean,
        };
        self.value = Some(path.add("value", value, true));
        Ok(())
    }
}
