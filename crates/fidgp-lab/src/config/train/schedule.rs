//! The learning rate over a training.

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};

/// How the learning rate falls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum ScheduleConfig {
    /// Stays where it starts.
    Constant,
    /// Rises linearly over `warmup_epochs`, then is multiplied by `factor` at each of the epochs.
    Milestones {
        /// Epochs, counted from 0.
        at: Vec<f64>,
        /// What it is multiplied by.
        #[serde(default = "tenth")]
        factor: f64,
        /// Epochs of the rise.
        #[serde(default)]
        warmup_epochs: f64,
    },
    /// Rises linearly over `warmup_epochs`, then falls to 0 as `(1 − t)^power`.
    Poly {
        /// 0.9 is usual; 1 is a straight line.
        #[serde(default = "usual_power")]
        power: f64,
        /// Epochs of the rise.
        #[serde(default)]
        warmup_epochs: f64,
    },
    /// Rises linearly over `warmup_epochs`, then falls to 0 along half a cosine.
    Cosine {
        /// Epochs of the rise.
        #[serde(default)]
        warmup_epochs: f64,
    },
}

fn tenth() -> f64 {
    0.1
}

fn usual_power() -> f64 {
    0.9
}

impl ScheduleConfig {
    /// What the starting rate is multiplied by, at a moment in epochs (fractions allowed).
    pub fn factor(&self, epoch: f64, epochs: f64) -> f64 {
        let warmup = self.warmup_epochs();
        if epoch < warmup {
            return (epoch / warmup).max(1e-3);
        }
        match self {
            Self::Constant => 1.0,
            Self::Milestones { at, factor, .. } => {
                factor.powi(at.iter().filter(|&&milestone| epoch >= milestone).count() as i32)
            }
            Self::Poly { power, .. } => (1.0 - ((epoch - warmup) / (epochs - warmup)).clamp(0.0, 1.0)).powf(*power),
            Self::Cosine { .. } => {
                let progress = (epoch - warmup) / (epochs - warmup);
                0.5 * (1.0 + (std::f64::consts::PI * progress.clamp(0.0, 1.0)).cos())
            }
        }
    }

    fn warmup_epochs(&self) -> f64 {
        match self {
            Self::Constant => 0.0,
            Self::Milestones { warmup_epochs, .. }
            | Self::Poly { warmup_epochs, .. }
            | Self::Cosine { warmup_epochs } => *warmup_epochs,
        }
    }

    /// Checks the numbers against the length of the training.
    ///
    /// # Errors
    /// When a milestone lies outside, or the rise takes the whole training.
    pub fn check(&self, epochs: f64) -> Result<()> {
        let warmup = self.warmup_epochs();
        if !(0.0..epochs).contains(&warmup) {
            let why = format!("{warmup} must be at least 0 and below {epochs}");
            return Err(LabError::config("train.schedule.warmup_epochs", why));
        }
        match self {
            Self::Milestones { at, .. } if at.iter().any(|milestone| !(0.0..=epochs).contains(milestone)) => {
                Err(LabError::config(
                    "train.schedule.at",
                    format!(
                        "{at:?} does not lie within {epochs} epochs; set both, as --set 'train.schedule={{kind=\"constant\"}}'"
                    ),
                ))
            }
            Self::Milestones { factor, .. } if !(*factor > 0.0 && *factor <= 1.0) => {
                let why = format!("{factor} must be greater than 0 and at most 1; 0.1 is usual");
                Err(LabError::config("train.schedule.factor", why))
            }
            Self::Poly { power, .. } if !(*power > 0.0 && power.is_finite()) => {
                Err(LabError::config("train.schedule.power", format!("{power} must be greater than 0; 0.9 is usual")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_at_known_moments() {
        let steps = ScheduleConfig::Milestones { at: vec![100.0, 180.0], factor: 0.1, warmup_epochs: 5.0 };
        assert!((steps.factor(2.0, 200.0) - 0.4).abs() < 1e-12);
        assert!((steps.factor(99.9, 200.0) - 1.0).abs() < 1e-12);
        assert!((steps.factor(100.0, 200.0) - 0.1).abs() < 1e-12);
        assert!((steps.factor(190.0, 200.0) - 0.01).abs() < 1e-12);
        let cosine = ScheduleConfig::Cosine { warmup_epochs: 10.0 };
        assert!((cosine.factor(5.0, 110.0) - 0.5).abs() < 1e-12);
        assert!((cosine.factor(60.0, 110.0) - 0.5).abs() < 1e-12);
        assert!(cosine.factor(110.0, 110.0) < 1e-12);
        assert!(cosine.check(10.0).is_err());
        let poly = ScheduleConfig::Poly { power: 2.0, warmup_epochs: 10.0 };
        assert!((poly.factor(60.0, 110.0) - 0.25).abs() < 1e-12);
        assert!(poly.factor(110.0, 110.0).abs() < 1e-12);
        assert!(ScheduleConfig::Poly { power: 0.0, warmup_epochs: 0.0 }.check(10.0).is_err());
    }
}
