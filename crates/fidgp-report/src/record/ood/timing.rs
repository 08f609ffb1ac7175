use serde::Serialize;

/// Median seconds of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// Images in the batch.
    pub images: i64,
    /// One forward pass, logits alone.
    pub forward: f64,
    /// The same with the variance score of every Bayesian layer.
    pub variance: f64,
    /// Forward and backward with the residual score's q of every Bayesian layer; none without gradients.
    pub residual: Option<f64>,
}
