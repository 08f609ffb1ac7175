//! The variance that a linearised posterior gives the logits: one forward pass where it is of features.

use super::{Made, Needs, OodScore};

pub(super) const VARIANCE: OodScore = OodScore {
    rows: &[(
        "linearised-variance",
        "variance of the logits under the linearised posterior: one forward pass for features",
    )],
    needs: Needs::Linearised,
    made: Made::Plain(|seen| seen.linearised.iter().map(tch::Tensor::shallow_clone).collect()),
};
