use std::fmt;

use serde::{Deserialize, Serialize};

/// What a model says of an input that belongs to one of several classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassEvidence {
    /// Mean probability of each class over the draws.
    pub probabilities: Vec<f64>,
    /// Entropy of the mean, nats.
    pub total: f64,
    /// Mean entropy of the draws, nats.
    pub aleatoric: f64,
    /// Their difference, nats.
    pub epistemic: f64,
    /// Features outside the training data; nothing for pictures.
    #[serde(default)]
    pub outside: Outside,
}

/// What a model says of an input that has a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumberEvidence {
    /// The prediction.
    pub mean: f64,
    /// Deviation of a new observation.
    pub sd: f64,
    /// Deviation of the mean over draws.
    pub epistemic_sd: f64,
    /// Features outside the training data.
    #[serde(default)]
    pub outside: Outside,
}

/// Features of a row that the training data did not have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outside {
    /// How far the farthest lies outside, in widths of its range; 0 where all lie inside.
    pub by: f64,
    /// Each of them in words, the farthest first: `area = -500 lies outside 28 … 310 of the training data`.
    pub said: Vec<String>,
}

/// How far a number lies outside a range, in widths of it; negative or 0 inside.
pub fn beyond(x: f64, [lo, hi]: [f64; 2]) -> f64 {
    (lo - x).max(x - hi) / if hi > lo { hi - lo } else { lo.abs().max(1.0) }
}

impl ClassEvidence {
    /// The most probable class.
    pub fn class(&self) -> usize {
        fidgp_metrics::argmax(&self.probabilities)
    }

    /// Its probability.
    pub fn confidence(&self) -> f64 {
        self.probabilities.iter().copied().fold(0.0, f64::max)
    }
}

impl NumberEvidence {
    /// Mean and deviation of the logarithm, where the number is log-normal with this mean and deviation.
    pub fn of_logarithm(&self) -> [f64; 2] {
        let mean = self.mean.max(f64::MIN_POSITIVE);
        let variance = (self.sd / mean).powi(2).ln_1p();
        [mean.ln() - variance / 2.0, variance.sqrt()]
    }
}

/// An uncertainty that a threshold can be put on. High = unsure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Score {
    /// One minus the probability of the most probable class.
    Confidence,
    /// Total uncertainty: entropy of the mean, or deviation of a new observation.
    Total,
    /// Epistemic uncertainty: what the weights leave open.
    Epistemic,
}

impl Score {
    /// Those of a classification, the usual one first.
    pub const OF_CLASSES: [Self; 3] = [Self::Confidence, Self::Total, Self::Epistemic];
    /// Those of a regression, the usual one first.
    pub const OF_NUMBERS: [Self; 2] = [Self::Total, Self::Epistemic];

    /// Its name in files and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Confidence => "confidence",
            Self::Total => "total",
            Self::Epistemic => "epistemic",
        }
    }

    /// Its value for a class.
    pub fn of_class(self, said: &ClassEvidence) -> f64 {
        match self {
            Self::Confidence => 1.0 - said.confidence(),
            Self::Total => said.total,
            Self::Epistemic => said.epistemic,
        }
    }

    /// Its value for a number.
    pub fn of_number(self, said: &NumberEvidence) -> f64 {
        match self {
            Self::Epistemic => said.epistemic_sd,
            Self::Confidence | Self::Total => said.sd,
        }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Confidence => "1 − confidence",
            Self::Total => "total uncertainty",
            Self::Epistemic => "epistemic uncertainty",
        })
    }
}
