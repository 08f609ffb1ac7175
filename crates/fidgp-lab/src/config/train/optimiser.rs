//! Which optimiser, and its constants.

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};

/// Which optimiser, and its constants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum OptimiserConfig {
    /// Adam with L2 weight decay in the gradient.
    Adam {
        /// Learning rate at the start.
        learning_rate: f64,
        /// Decay of both moments.
        #[serde(default = "default_betas")]
        betas: [f64; 2],
        /// L2 penalty on plain weights (never on the parameters of a posterior or prior).
        #[serde(default)]
        weight_decay: f64,
    },
    /// Stochastic gradient descent with Nesterov momentum.
    Sgd {
        /// Learning rate at the start.
        learning_rate: f64,
        /// Momentum.
        #[serde(default = "default_momentum")]
        momentum: f64,
        /// L2 penalty on plain weights (never on the parameters of a posterior or prior).
        #[serde(default)]
        weight_decay: f64,
    },
}

fn default_betas() -> [f64; 2] {
    [0.9, 0.999]
}

fn default_momentum() -> f64 {
    0.9
}

impl OptimiserConfig {
    /// Learning rate at the start.
    pub fn learning_rate(self) -> f64 {
        match self {
            Self::Adam { learning_rate, .. } | Self::Sgd { learning_rate, .. } => learning_rate,
        }
    }

    /// L2 penalty on plain weights.
    pub fn weight_decay(self) -> f64 {
        match self {
            Self::Adam { weight_decay, .. } | Self::Sgd { weight_decay, .. } => weight_decay,
        }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// Names the key that does not fit, and what would.
    pub fn check(self) -> Result<()> {
        let wrong = |key: &str, why: String| Err(LabError::config(format!("train.optimiser.{key}"), why));
        let (rate, decay) = (self.learning_rate(), self.weight_decay());
        if !(rate > 0.0 && rate.is_finite()) {
            return wrong("learning_rate", format!("{rate} must be a number greater than 0"));
        }
        if !(decay >= 0.0 && decay.is_finite()) {
            return wrong("weight_decay", format!("{decay} must be 0 or greater; 0.0005 is usual"));
        }
        match self {
            Self::Adam { betas, .. } if !betas.iter().all(|beta| (0.0..1.0).contains(beta)) => {
                wrong("betas", format!("{betas:?} must both lie in [0, 1); [0.9, 0.999] is usual"))
            }
            Self::Sgd { momentum, .. } if !(0.0..1.0).contains(&momentum) => {
                wrong("momentum", format!("{momentum} must lie in [0, 1); 0.9 is usual"))
            }
            _ => Ok(()),
        }
    }
}
