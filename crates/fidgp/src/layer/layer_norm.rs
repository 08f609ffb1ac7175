//! Layer normalisation.

use tch::Tensor;
use tch::nn::Path;

use super::network::{with_numbers, without_numbers};
use super::{Layer, Operation, Pass};
use crate::prior::layer_name;
use crate::role::Role;
use crate::{Error, Key, Result};

/// `y = γ (x − μ)/√(σ² + ε) + β` over the last axis of every example.
#[derive(Debug)]
pub struct LayerNorm {
    name: String,
    features: i64,
    epsilon: f64,
    /// γ and β.
    tensors: Option<[Tensor; 2]>,
}

impl LayerNorm {
    const EPSILON: f64 = 1e-5;

    /// A normalisation of this name, without numbers yet: ε = 1e-5.
    ///
    /// # Errors
    /// When there is no feature.
    pub fn new(name: impl Into<String>, features: i64) -> Result<Self> {
        let name = name.into();
        super::at_least(1, &name, &[("features", features)])?;
        Ok(Self { name, features, epsilon: Self::EPSILON, tensors: None })
    }

    /// The same with another ε.
    ///
    /// # Errors
    /// When it is negative.
    pub fn with_epsilon(self, epsilon: f64) -> Result<Self> {
        if epsilon >= 0.0 && epsilon.is_finite() {
            return Ok(Self { epsilon, ..self });
        }
        Err(Error::setting(format!("{}: epsilon", self.name), epsilon, "must be 0 or greater"))
    }

    /// # Shapes
    /// `[.., features]` → the same
    ///
    /// # Errors
    /// When the input has another width, or the layer has no numbers yet.
    pub fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let size = x.size();
        if size.last() != Some(&self.features) {
            return Err(Error::shape(format!("input of {}", self.name), &size, format!("[.., {}]", self.features)));
        }
        if let Some(traced) = pass.traced(self, x, &size) {
            return Ok(traced);
        }
        let [weight, bias] = self.tensors.as_ref().ok_or_else(|| without_numbers(&self.name))?;
        let of = |tensor: &Tensor| tensor.to_kind(x.kind());
        Ok(x.f_layer_norm([self.features], Some(of(weight)), Some(of(bias)), self.epsilon, true)?)
    }
}

impl Layer for LayerNorm {
    fn name(&self) -> &str {
        &self.name
    }

    fn operation(&self) -> Operation {
        Operation::LayerNorm { features: self.features }
    }

    fn init(&mut self, path: &Path, _: Key) -> Result<()> {
        if self.tensors.is_some() {
            return Err(with_numbers(&self.name));
        }
        self.name = layer_name(path);
        let path = Role::Decayed.of(path);
        self.tensors = Some([path.ones("weight", &[self.features]), path.zeros("bias", &[self.features])]);
        Ok(())
    }
}
