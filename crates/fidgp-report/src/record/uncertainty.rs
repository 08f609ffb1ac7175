use serde::{Deserialize, Serialize};

/// How much of the predictive uncertainty is epistemic, and whether that part can be relied on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Uncertainty {
    /// `validation`, or `test` where there is no validation part.
    pub part: String,
    /// Inputs of that part it was measured on.
    pub inputs: usize,
    /// What is divided: `entropy`, in nats, or `variance`, in squared deviations of the training targets.
    pub measure: String,
    /// Mean epistemic uncertainty.
    pub epistemic: Option<f64>,
    /// Mean epistemic uncertainty divided by the mean total.
    pub share: Option<f64>,
    /// Mean epistemic uncertainty on the same inputs scrambled: pixels permuted, columns shuffled. None where that changes
    /// nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrambled: Option<f64>,
    /// Share of the standard deviations of q(U) within five per cent of their upper bound; none without inducing layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sd_at_bound: Option<f64>,
    /// Share of the weights whose λ is within five per cent of its upper bound; none without inducing layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lamda_at_bound: Option<f64>,
    /// What is wrong, and what to change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Uncertainty {
    /// The numbers in a sentence.
    pub fn sentence(&self) -> String {
        let Self { part, inputs, measure, .. } = self;
        let per_cent = |share: f64| {
            if share > 0.0 && share < 1e-3 { "< 0.1 %".to_owned() } else { format!("{:.1} %", 100.0 * share) }
        };
        let share = self.share.map_or("not finite".to_owned(), per_cent);
        let ratio = self.scrambled.zip(self.epistemic).filter(|(_, own)| *own > 0.0);
        let ratio = ratio.map_or(String::new(), |(scrambled, own)| {
            format!("; on scrambled inputs it is {:.3} times as large", scrambled / own)
        });
        format!("{share} of the predictive uncertainty ({measure}) on {inputs} {part} inputs is epistemic{ratio}")
    }
}
