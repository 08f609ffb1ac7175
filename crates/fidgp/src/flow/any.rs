//! One of the flows, behind one type.

use tch::Tensor;

use super::config::Body;
use super::stack::stack_fields;
use super::{Flow, FlowConfig, Flowed};
use crate::Key;

/// A flow built from a [`FlowConfig`].
#[derive(Debug)]
pub struct AnyFlow {
    config: FlowConfig,
    body: Body,
}

impl AnyFlow {
    pub(super) fn new(config: FlowConfig, body: Body) -> Self {
        Self { config, body }
    }

    /// What the flow was built from.
    pub fn config(&self) -> &FlowConfig {
        &self.config
    }
}

impl Flow for AnyFlow {
    fn forward(&self, x: &Tensor, dropout: Option<Key>) -> Flowed {
        self.body.flow().forward(x, dropout)
    }

    fn inverse(&self, y: &Tensor) -> Option<Tensor> {
        self.body.flow().inverse(y)
    }

    fn push_gaussian(&self, mean: &Tensor, sd: &Tensor) -> Option<(Tensor, Tensor)> {
        self.body.flow().push_gaussian(mean, sd)
    }

    fn advance_spectral(&self) {
        self.body.flow().advance_spectral();
    }

    fn settle_spectral(&self) {
        self.body.flow().settle_spectral();
    }

    fn dim(&self) -> i64 {
        self.body.flow().dim()
    }

    fn parameter_count(&self) -> i64 {
        self.body.flow().parameter_count()
    }
}

stack_fields!(AnyFlow { body } same { config });
