//! What a config costs: stored, for one pass, and for a whole prediction.

use std::fmt::{self, Display, Formatter};

use fidgp_zoo::cost::{Cost, Counting};
use fidgp_zoo::{thousands, write_total};
use serde::Serialize;

use crate::config::RunConfig;
use crate::error::Result;
use crate::model;

/// The cost of a config. Parameters and bytes are of everything that is stored, all members of an ensemble included.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConfigCost {
    /// What is stored, and the arithmetic of one pass: one draw, or one member.
    #[serde(flatten)]
    pub pass: Cost,
    /// The arithmetic of one prediction.
    pub prediction: PredictionCost,
}

/// One image with all draws or members, factors made before, by our order of evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PredictionCost {
    /// K, forward passes: weight draws or members; 1 where a linearised posterior predicts.
    pub passes: u64,
    /// Backward passes: those of a linearised posterior, one for each output.
    pub backward_passes: u64,
    /// Multiply-accumulates; what stands before the first random block of an image network counts once.
    pub macs: i64,
    /// Two for each of them.
    pub flops: i64,
}

impl ConfigCost {
    /// Counts a config, without data or tensors.
    ///
    /// # Errors
    /// When the config's parts do not fit each other.
    pub fn of(config: &RunConfig, counting: Counting) -> Result<Self> {
        let pass = model::cost(config, counting)?;
        let macs = model::macs_of_prediction(config, &pass, 1);
        let (passes, backward_passes) = (config.passes(), model::backward_passes(config, &pass));
        Ok(Self { pass, prediction: PredictionCost { passes, backward_passes, macs, flops: 2 * macs } })
    }
}

impl Display for ConfigCost {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let PredictionCost { passes, backward_passes, macs, flops } = self.prediction;
        let all = match (passes, backward_passes) {
            (1, 0) => "1 pass".to_owned(),
            (_, 0) => format!("{passes} passes"),
            _ => format!("{passes} forward + {backward_passes} backward"),
        };
        write!(f, "{}", self.pass)?;
        write_total(f, &format!("MACs of a prediction, {all}, our order"), &thousands(macs))?;
        write_total(f, &format!("FLOPs of a prediction, {all}, our order"), &thousands(flops))
    }
}
