use fidgp_metrics::conformal::control_risk;
use fidgp_metrics::{MetricError, normal};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// Thresholds that are tried, beside that of no bound at all.
pub const SETTINGS: usize = 600;
/// The smallest of them is one of `10^DECADES`.
pub const DECADES: f64 = 6.0;

/// What a model says of the pixels of a picture whose classes are known: how many pixels of each class are found from which
/// setting on, the one whose set of classes is the first to hold it. `[classes][SETTINGS + 1]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PixelEvidence {
    /// Pixels.
    pub counts: Vec<Vec<u64>>,
}

/// The sets of classes of pixels: those whose probability is at least a threshold, and the most probable one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PixelSets {
    /// Of the pixels of a picture, this share is to be in their sets, on average over pictures.
    pub level: f64,
    /// The class whose pixels these are; none for all pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<usize>,
    /// The smallest probability that a class in a set has; none where there are too few pictures: then every class is in it.
    pub threshold: Option<f64>,
    /// Pictures that it rests on.
    pub pictures: usize,
    /// Share of the pixels that are not in their sets, on average over these pictures.
    pub missed: f64,
}

/// The threshold of a setting: 1 for the first, 0 for the last.
pub fn threshold(setting: usize) -> f64 {
    if setting >= SETTINGS { 0.0 } else { 10_f64.powf(-DECADES * setting as f64 / SETTINGS as f64) }
}

impl PixelEvidence {
    /// Whether the picture has no pixel of a class.
    pub(crate) fn lacks(&self, class: usize) -> bool {
        self.missed(Some(class), 0).is_none()
    }

    /// The share of the pixels, of a class or of all, that a setting misses; nothing where there are none.
    fn missed(&self, class: Option<usize>, setting: usize) -> Option<f64> {
        let of = |from: usize| -> u64 {
            let all = self.counts.iter().enumerate().filter(|(own, _)| class.is_none_or(|class| class == *own));
            all.map(|(_, counts)| counts[from.min(counts.len())..].iter().sum::<u64>()).sum()
        };
        let all = of(0);
        (all > 0).then(|| of(setting + 1) as f64 / all as f64)
    }
}

impl PixelSets {
    /// Controls the share of pixels that are missed (conformal risk control): in a new picture it is at most `1 − level` on
    /// average. Pictures without a pixel of the class do not count.
    ///
    /// # Errors
    /// When no picture has a pixel, or the level is not between 0 and 1.
    pub fn calibrate(pictures: &[&PixelEvidence], class: Option<usize>, level: f64) -> Result<Self> {
        let having: Vec<&&PixelEvidence> = pictures.iter().filter(|one| one.missed(class, 0).is_some()).collect();
        let losses = |setting: usize| having.iter().filter_map(move |one| one.missed(class, setting));
        let table: Vec<f64> = (0..=SETTINGS).flat_map(losses).collect();
        let (threshold, missed) = match control_risk(&table, having.len(), 1.0 - level) {
            Ok(found) => (Some(threshold(found.index)), found.risk),
            Err(MetricError::TooFewForLevel { .. }) => (None, 0.0),
            Err(other) => return Err(other.into()),
        };
        Ok(Self { level, class, threshold, pictures: having.len(), missed })
    }

    /// Shares of the pixels of other pictures that are not in their sets.
    pub fn missed_in(&self, pictures: &[&PixelEvidence]) -> Vec<f64> {
        let setting =
            self.threshold.map_or(SETTINGS, |t| (0..SETTINGS).find(|&s| threshold(s) <= t).unwrap_or(SETTINGS));
        pictures.iter().filter_map(|one| one.missed(self.class, setting)).collect()
    }

    /// Whether its numbers can be used for so many classes; a file can hold anything.
    pub(crate) fn fits(&self, classes: usize) -> bool {
        let share = |x: f64| (0.0..=1.0).contains(&x);
        self.level > 0.0
            && self.level < 1.0
            && self.class.is_none_or(|class| class < classes)
            && self.threshold.is_none_or(share)
            && share(self.missed)
    }
}

/// A normal interval of a mean that was seen on some pictures and promised from others, and whether it reaches a bound; one of
/// so many is looked at because it is the worst.
pub(crate) fn reaches(missed: &[f64], fitted: usize, bound: f64, of: usize) -> Result<([f64; 2], bool)> {
    let n = missed.len() as f64;
    let mean = missed.iter().sum::<f64>() / n;
    let variance = missed.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    // the promise is an average over the pictures that it rests on, too
    let error = (variance * (1.0 / n + 1.0 / fitted.max(1) as f64)).sqrt();
    let half = normal::central_z(0.95)? * error;
    let strict = normal::central_z(1.0 - 0.05 / of.max(1) as f64)? * error;
    Ok(([(mean - half).max(0.0), (mean + half).min(1.0)], mean - strict <= bound))
}
