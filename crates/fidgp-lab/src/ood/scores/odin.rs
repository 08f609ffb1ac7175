//! ODIN: a step of the image against its own uncertainty.

use fidgp_zoo::baseline::odin::odin;

use super::{Made, Needs, OodScore};

pub(super) const ODIN: OodScore = OodScore {
    rows: &[("odin", "softmax at T = 1000 after a step of 0.0014 against its gradient (Liang, Li and Srikant 2018)")],
    needs: Needs::Logits,
    made: Made::Plain(|seen| seen.perturbed.iter().map(odin).collect()),
};
