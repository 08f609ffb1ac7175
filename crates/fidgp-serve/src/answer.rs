//! What a model says about one input, ready to be written as JSON or as tensors.

use serde::Serialize;

/// What a model says about one input.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The prediction itself.
    #[serde(flatten)]
    pub prediction: Prediction,
    /// Weight draws it is the mean of.
    pub draws: u64,
    /// The largest Monte-Carlo error of a probability, where a tolerance was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// What was put in place of what is missing or not known, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// Features that lie outside the training data, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub out_of_range: Vec<String>,
    /// The cells of a row as they were understood, for the log; empty for other inputs.
    #[serde(skip)]
    pub features: Vec<serde_json::Value>,
    /// How unlike the training data the input is, for models that were calibrated for it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub ood: Option<OutOfDistribution>,
    /// What to do with it, for calibrated models.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// A class, a number, or a class for every pixel.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Prediction {
    /// Probabilities of the classes.
    Classes {
        /// The name of the most probable class.
        class: String,
        /// Mean probability of each class over the draws.
        probabilities: Vec<f64>,
        /// Three uncertainties, nats.
        #[serde(flatten)]
        uncertainty: Uncertainty,
        /// Sets of classes, one for each level that the model was calibrated for.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        sets: Vec<LabelSet>,
    },
    /// A number.
    Number {
        /// Mean.
        mean: f64,
        /// Standard deviation of a new observation.
        sd: f64,
        /// The part that more data would remove, as a standard deviation.
        epistemic: f64,
        /// The noise of the data, as a standard deviation.
        aleatoric: f64,
        /// Intervals, one for each level that the model was calibrated for.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        intervals: Vec<Interval>,
    },
    /// A class for every pixel, summed up.
    Pixels {
        /// Share of the pixels that are given each class.
        shares: Vec<f64>,
        /// Means over the pixels of three uncertainties, nats.
        #[serde(flatten)]
        uncertainty: Uncertainty,
        /// A PNG: picture, prediction and uncertainty maps side by side.
        #[serde(skip)]
        map: Vec<u8>,
    },
}

/// Total uncertainty and its two parts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Uncertainty {
    /// Entropy of the mean prediction.
    pub total: f64,
    /// Mean entropy of the draws: what the data leave open.
    pub aleatoric: f64,
    /// Their difference: what the weights leave open.
    pub epistemic: f64,
}

/// Classes among which the true one is with the stated probability.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelSet {
    /// The stated probability.
    pub level: f64,
    /// Names of the classes, most probable first.
    pub classes: Vec<String>,
}

/// An interval in which the number is with the stated probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The stated probability.
    pub level: f64,
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

/// How unlike the training data an input is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OutOfDistribution {
    /// The score: high is out-of-distribution.
    pub ood_score: f64,
    /// Probability of a score at least as high for an input like the training data.
    pub ood_p: f64,
}

/// What to do with a prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// `accept`, `abstain` or `out-of-distribution`.
    pub decision: String,
    /// Why, in words.
    pub reason: String,
}

impl Answer {
    /// A prediction of which nothing else is said.
    pub fn of(prediction: Prediction, draws: u64) -> Self {
        let (flags, out_of_range, features) = (Vec::new(), Vec::new(), Vec::new());
        Self { prediction, draws, error: None, flags, out_of_range, features, ood: None, decision: None }
    }

    /// The epistemic part of the uncertainty, in the prediction's own unit.
    pub fn epistemic(&self) -> f64 {
        match &self.prediction {
            Prediction::Classes { uncertainty, .. } | Prediction::Pixels { uncertainty, .. } => uncertainty.epistemic,
            Prediction::Number { epistemic, .. } => *epistemic,
        }
    }

    /// Whether every number is one that JSON can hold.
    pub fn is_finite(&self) -> bool {
        let three = |u: &Uncertainty| [u.total, u.aleatoric, u.epistemic];
        let (some, others) = match &self.prediction {
            Prediction::Classes { probabilities, uncertainty, .. } => (&probabilities[..], three(uncertainty).to_vec()),
            Prediction::Pixels { shares, uncertainty, .. } => (&shares[..], three(uncertainty).to_vec()),
            Prediction::Number { mean, sd, epistemic, aleatoric, intervals } => {
                let ends = intervals.iter().flat_map(|interval| [interval.lower, interval.upper]);
                (&[][..], [*mean, *sd, *epistemic, *aleatoric].into_iter().chain(ends).collect())
            }
        };
        let scores = self.ood.iter().flat_map(|ood| [ood.ood_score, ood.ood_p]);
        some.iter().copied().chain(others).chain(scores).chain(self.error).all(f64::is_finite)
    }

    /// Leaves out the sets and intervals of other levels.
    pub fn keep_level(&mut self, level: f64) {
        let same = |other: f64| (other - level).abs() < 1e-9;
        match &mut self.prediction {
            Prediction::Classes { sets, .. } => sets.retain(|set| same(set.level)),
            Prediction::Number { intervals, .. } => intervals.retain(|interval| same(interval.level)),
            Prediction::Pixels { .. } => {}
        }
    }

    /// `accept`, `abstain` or `out-of-distribution`; none for a model that was not calibrated.
    pub fn verdict(&self) -> Option<&str> {
        self.decision.as_ref().map(|decision| decision.decision.as_str())
    }
}
