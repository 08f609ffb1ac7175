//! Several flows of equal shape evaluated as one.

use tch::Tensor;

use super::stack::Stack;
use super::{AnyFlow, Flow, Flowed};
use crate::{Error, Key, Result};

/// L flows of one configuration and dimension, evaluated in one call on `[.., L, rows, C]`.
///
/// Holds the flows' own variables, not copies: the stack is rebuilt in every call, so it always sees the latest
/// parameters, and gradients arrive in the originals.
#[derive(Debug)]
pub struct StackedFlow {
    parts: Vec<AnyFlow>,
}

impl StackedFlow {
    /// Joins flows that were built from one configuration for one dimension.
    pub fn new(flows: &[&AnyFlow]) -> Result<Self> {
        let first = flows.first().ok_or_else(|| Error::setting("flows", 0, "stack at least one flow"))?;
        if let Some(odd) = flows.iter().find(|f| f.config() != first.config() || f.dim() != first.dim()) {
            let advice = format!(
                "differs from the first flow, {:?} on ℝ^{}; stack equal flows only",
                first.config(),
                first.dim()
            );
            return Err(Error::setting("flow", format!("{:?} on ℝ^{}", odd.config(), odd.dim()), advice));
        }
        Ok(Self { parts: flows.iter().map(|f| f.share()).collect() })
    }

    /// One step of power iteration, then [`Flow::forward`]: a training step, with the parameters stacked once.
    pub fn advance_and_forward(&self, x: &Tensor) -> Flowed {
        let joined = self.joined();
        joined.advance_spectral();
        joined.write_back(&self.refs());
        joined.forward(x, None)
    }

    /// The flow over the stacked parameters as they are now.
    fn joined(&self) -> AnyFlow {
        AnyFlow::stack(&self.refs())
    }

    fn refs(&self) -> Vec<&AnyFlow> {
        self.parts.iter().collect()
    }
}

impl Flow for StackedFlow {
    /// As each part on its own slice, apart from dropout: the masks of all parts come from the one key.
    fn forward(&self, x: &Tensor, dropout: Option<Key>) -> Flowed {
        self.joined().forward(x, dropout)
    }

    fn inverse(&self, y: &Tensor) -> Option<Tensor> {
        self.joined().inverse(y)
    }

    fn advance_spectral(&self) {
        let joined = tch::no_grad(|| self.joined());
        joined.advance_spectral();
        joined.write_back(&self.refs());
    }

    fn settle_spectral(&self) {
        let joined = tch::no_grad(|| self.joined());
        joined.settle_spectral();
        joined.write_back(&self.refs());
    }

    fn dim(&self) -> i64 {
        self.parts[0].dim()
    }

    fn parameter_count(&self) -> i64 {
        self.parts.iter().map(Flow::parameter_count).sum()
    }
}
