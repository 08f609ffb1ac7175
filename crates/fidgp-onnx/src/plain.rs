//! A graph run as it is, every weight a constant.

use std::collections::BTreeSet;

use tch::{Kind, Tensor};

use crate::error::{Error, Result};
use crate::graph::{Graph, Port};
use crate::ops::Context;
use crate::program::Program;

/// A graph that is run as it is.
#[derive(Debug)]
pub struct Plain(Program);

impl Plain {
    /// Makes a graph ready to run. f16, bf16 and f32 are computed in `float`.
    ///
    /// # Errors
    /// When a node is not understood; the error names node, operator and version.
    pub fn new(graph: &Graph, float: Kind) -> Result<Self> {
        Program::new(graph, &BTreeSet::new(), Context { float }).map(Self)
    }

    /// The inputs, in their order.
    pub fn inputs(&self) -> &[Port] {
        &self.0.inputs
    }

    /// The outputs, in their order.
    pub fn outputs(&self) -> &[Port] {
        &self.0.outputs
    }

    /// Outputs for inputs, both in the order of the graph's, computed where the inputs are.
    ///
    /// # Errors
    /// When an input does not fit, or a node fails.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let names: Vec<_> = self.0.inputs.iter().map(|port| port.name.as_str()).collect();
        if inputs.len() != names.len() {
            let takes = names.join(", ");
            return Err(Error::graph(format!(
                "{} inputs given, the graph takes {}: {takes}",
                inputs.len(),
                names.len()
            )));
        }
        tch::no_grad(|| self.0.run(inputs))
    }
}
