use rand::Rng;

use crate::{
    bootstrap::{Bootstrap, Interval, resample},
    check,
    error::{MetricError, Result},
};

/// How many ID and OoD inputs share one score.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tie {
    pub(crate) id: usize,
    pub(crate) ood: usize,
}

/// Scores of ID and OoD inputs, **high = OoD**, sorted once with equal scores grouped.
///
/// Infinite scores are ranked, NaN is refused.
#[derive(Debug, Clone)]
pub struct OodScores {
    pub(crate) thresholds: Vec<f64>, // distinct scores, falling
    pub(crate) ties: Vec<Tie>,       // what stands at each threshold
    id: Vec<usize>,                  // threshold index of every ID input
    ood: Vec<usize>,                 // threshold index of every OoD input
}

impl OodScores {
    /// Sorts the two sets together, O(n log n).
    ///
    /// ```
    /// use fidgp_metrics::{MetricError, OodScores};
    ///
    /// let scores = OodScores::new(&[0.1, 0.2, 0.2, 0.5, 0.7], &[0.2, 0.6, 0.7, 0.9])?;
    /// assert!((scores.auroc() - 0.775).abs() < 1e-12);
    /// assert_eq!(OodScores::new(&[0.1], &[]).unwrap_err(), MetricError::OneClass { missing: "OoD" });
    /// # Ok::<(), MetricError>(())
    /// ```
    pub fn new(id: &[f64], ood: &[f64]) -> Result<Self> {
        for (missing, scores) in [("ID", id), ("OoD", ood)] {
            if scores.is_empty() {
                return Err(MetricError::OneClass { missing });
            }
        }
        check::not_nan("ID scores", id)?;
        check::not_nan("OoD scores", ood)?;
        let mut thresholds = [id, ood].concat();
        thresholds.sort_by(|a, b| b.total_cmp(a));
        thresholds.dedup(); // by ==, so that −0 and 0 are one threshold
        let place = |score: &f64| thresholds.partition_point(|t| t > score);
        let (id, ood) = (id.iter().map(place).collect(), ood.iter().map(place).collect());
        Ok(Self::grouped(thresholds, id, ood))
    }

    fn grouped(thresholds: Vec<f64>, id: Vec<usize>, ood: Vec<usize>) -> Self {
        let mut ties = vec![Tie::default(); thresholds.len()];
        for &t in &id {
            ties[t].id += 1;
        }
        for &t in &ood {
            ties[t].ood += 1;
        }
        Self { thresholds, ties, id, ood }
    }

    /// Number of ID scores.
    pub fn id_count(&self) -> usize {
        self.id.len()
    }

    /// Number of OoD scores.
    pub fn ood_count(&self) -> usize {
        self.ood.len()
    }

    /// Area under the ROC curve: `P(s_ood > s_id) + ½ P(s_ood = s_id)`.
    ///
    /// Pairs are counted in integers, so that a set against itself gives exactly ½.
    pub fn auroc(&self) -> f64 {
        let mut ood_above = 0_u128;
        let mut half_wins = 0_u128; // 2 · wins + ties
        for tie in &self.ties {
            half_wins += tie.id as u128 * (2 * ood_above + tie.ood as u128);
            ood_above += tie.ood as u128;
        }
        half_wins as f64 / (2 * self.id.len() as u128 * self.ood.len() as u128) as f64
    }

    /// Standard error of AUROC when both sets follow one law, `sqrt((n + m + 1) / (12 n m))`; ties only lower it.
    pub fn auroc_null_error(&self) -> f64 {
        let (n, m) = (self.id.len() as f64, self.ood.len() as f64);
        ((n + m + 1.0) / (12.0 * n * m)).sqrt()
    }

    /// Average precision with OoD as the positive class: `Σ_t (R_t − R_{t−1}) P_t`, thresholds falling.
    pub fn aupr_out(&self) -> f64 {
        average_precision(self.ties.iter().map(|t| (t.ood, t.id)), self.ood.len())
    }

    /// Average precision with ID as the positive class: the same sum on negated scores.
    pub fn aupr_in(&self) -> f64 {
        average_precision(self.ties.iter().rev().map(|t| (t.id, t.ood)), self.id.len())
    }

    /// Percentile interval of any metric of the scores; ID and OoD inputs are resampled separately.
    ///
    /// ```
    /// use fidgp_metrics::{Bootstrap, OodScores};
    ///
    /// let scores = OodScores::new(&[0.1, 0.2, 0.2, 0.5, 0.7], &[0.2, 0.6, 0.7, 0.9])?;
    /// let interval = scores.bootstrap(&Bootstrap::seeded(42), OodScores::auroc)?;
    /// assert!(interval.contains(scores.auroc()));
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn bootstrap(&self, settings: &Bootstrap, metric: impl Fn(&Self) -> f64) -> Result<Interval> {
        settings.interval(|rng| metric(&self.resampled(rng)))
    }

    fn resampled(&self, rng: &mut impl Rng) -> Self {
        let mut pick = |from: &[usize]| resample(rng, from.len()).into_iter().map(|i| from[i]).collect();
        let (id, ood) = (pick(&self.id), pick(&self.ood));
        Self::grouped(self.thresholds.clone(), id, ood)
    }
}

/// Step-wise area under precision against recall; each item is one threshold's (positives, negatives).
fn average_precision(steps: impl Iterator<Item = (usize, usize)>, total: usize) -> f64 {
    let (mut hits, mut called, mut area) = (0, 0, 0.0);
    for (positives, negatives) in steps.filter(|&(p, n)| p + n > 0) {
        hits += positives;
        called += positives + negatives;
        area += positives as f64 / total as f64 * (hits as f64 / called as f64);
    }
    area
}
