//! What is asked of a model that goes out as a graph.

use super::Dtype;

/// Which weights a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// The posterior mean.
    Mean,
    /// So many draws, those of `fidgp predict`.
    Draws(u64),
    /// The posterior mean, and the closed form of the linearised posterior around it.
    Linearised,
}

/// How a graph is written.
#[derive(Clone, Copy, Debug)]
pub struct GraphRequest {
    /// Its weights.
    pub weights: Weights,
    /// The type of its matrices.
    pub dtype: Dtype,
    /// Whether its inputs come normalised, as the network takes them; else they come as they are.
    pub normalised: bool,
}
