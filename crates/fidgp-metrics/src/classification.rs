use crate::{
    check,
    error::{MetricError, Result},
};

/// Class probabilities and true labels, checked: every row is a distribution, every label names a class.
#[derive(Debug, Clone, Copy)]
pub struct Predictions<'a> {
    probs: &'a [f64],
    classes: usize,
    labels: &'a [usize],
}

impl<'a> Predictions<'a> {
    /// Checks and wraps a row-major table of probabilities and its labels.
    ///
    /// # Shapes
    /// `probs [rows, classes]`, `labels [rows]`, with `rows = labels.len()`.
    ///
    /// # Errors
    /// Empty or mismatched input, NaN, values that are not probabilities, rows that do not sum to 1 (within 2·10⁻³,
    /// which leaves room for half precision), labels that are not below `classes`.
    ///
    /// ```
    /// use fidgp_metrics::{MetricError, Predictions};
    ///
    /// let p = Predictions::new(&[0.7, 0.3, 0.4, 0.6], 2, &[0, 0])?;
    /// assert_eq!(p.accuracy(), 0.5);
    /// assert!((p.nll() + (0.7_f64.ln() + 0.4_f64.ln()) / 2.0).abs() < 1e-12);
    /// assert!((p.brier() - (0.18 + 0.72) / 2.0).abs() < 1e-12);
    ///
    /// let wrong = Predictions::new(&[0.7, 0.3], 2, &[2]);
    /// assert_eq!(wrong.unwrap_err(), MetricError::Label { row: 0, label: 2, classes: 2 });
    /// # Ok::<(), MetricError>(())
    /// ```
    pub fn new(probs: &'a [f64], classes: usize, labels: &'a [usize]) -> Result<Self> {
        check::at_least_one("classes", classes)?;
        check::non_empty("labels", labels)?;
        check::length("probs", probs, labels.len().saturating_mul(classes))?;
        check::distributions(probs, classes)?;
        match labels.iter().position(|&label| label >= classes) {
            Some(row) => Err(MetricError::Label { row, label: labels[row], classes }),
            None => Ok(Self { probs, classes, labels }),
        }
    }

    /// Number of rows; never 0.
    #[expect(clippy::len_without_is_empty, reason = "never empty by construction")]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Rows of probabilities with their labels.
    pub fn rows(&self) -> impl Iterator<Item = (&'a [f64], usize)> {
        self.probs.chunks_exact(self.classes).zip(self.labels.iter().copied())
    }

    /// Top-label confidence `max_c p_c` of every row, and whether that label is the true one.
    pub fn top_labels(&self) -> impl Iterator<Item = (f64, bool)> {
        self.rows().map(|(p, label)| {
            let top = argmax(p);
            (p[top], top == label)
        })
    }

    /// Top-label confidences, `[rows]`.
    pub fn confidences(&self) -> Vec<f64> {
        self.top_labels().map(|(confidence, _)| confidence).collect()
    }

    /// 0-1 losses of the top label, `[rows]`.
    pub fn errors(&self) -> Vec<f64> {
        self.top_labels().map(|(_, correct)| f64::from(!correct)).collect()
    }

    /// Fraction of rows whose top label is right; the first label wins a tie.
    pub fn accuracy(&self) -> f64 {
        self.mean(|p, label| f64::from(argmax(p) == label))
    }

    /// Negative log-likelihood `−(1/N) Σ ln p_{n, y_n}`, in nats; ∞ when a true label was given probability 0.
    pub fn nll(&self) -> f64 {
        self.mean(|p, label| -p[label].ln())
    }

    /// Brier score `(1/N) Σ_n Σ_c (p_nc − 1[c = y_n])²`, in [0, 2].
    pub fn brier(&self) -> f64 {
        self.mean(|p, label| p.iter().enumerate().map(|(c, &pc)| (pc - f64::from(u8::from(c == label))).powi(2)).sum())
    }

    fn mean(&self, loss: impl Fn(&[f64], usize) -> f64) -> f64 {
        self.rows().map(|(p, label)| loss(p, label)).sum::<f64>() / self.len() as f64
    }
}

/// Index of the largest value, the first one on a tie; 0 for an empty slice.
pub fn argmax(values: &[f64]) -> usize {
    values.iter().enumerate().fold(0, |best, (i, &v)| if v > values[best] { i } else { best })
}

/// Entropy `−Σ p ln p` in nats, with `0 ln 0 = 0`.
///
/// ```
/// use fidgp_metrics::entropy;
///
/// assert_eq!(entropy(&[1.0, 0.0]), 0.0);
/// assert!((entropy(&[0.25; 4]) - 4.0_f64.ln()).abs() < 1e-12);
/// ```
pub fn entropy(p: &[f64]) -> f64 {
    p.iter().map(|&p| if p > 0.0 { -p * p.ln() } else { 0.0 }).sum()
}
