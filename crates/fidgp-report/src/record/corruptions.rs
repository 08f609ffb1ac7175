//! The content of `corruptions.json`: a classifier on images that were made worse, severity by severity.

use serde::Serialize;

use super::Hardware;

/// The version of the document.
pub const CORRUPTIONS_SCHEMA: &str = "fidgp-corruptions/1";

/// What was measured on a set of images.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Fraction that is right.
    pub accuracy: f64,
    /// NLL of the mean prediction, nats.
    pub nll: f64,
    /// Expected calibration error, 15 bins of equal width.
    pub ece: f64,
    /// Mean total uncertainty, nats.
    pub total: f64,
    /// Mean epistemic uncertainty, nats.
    pub epistemic: f64,
}

impl Level {
    /// The mean of several.
    pub fn mean(all: &[Self]) -> Option<Self> {
        let count = all.len() as f64;
        let of = |part: fn(&Self) -> f64| all.iter().map(part).sum::<f64>() / count;
        (!all.is_empty()).then(|| Self {
            accuracy: of(|level| level.accuracy),
            nll: of(|level| level.nll),
            ece: of(|level| level.ece),
            total: of(|level| level.total),
            epistemic: of(|level| level.epistemic),
        })
    }
}

/// One corruption.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Corrupted {
    /// Its name.
    pub name: String,
    /// What it does.
    pub about: String,
    /// By severity, the mildest first.
    pub severities: Vec<Level>,
}

/// The document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Corruptions {
    /// [`CORRUPTIONS_SCHEMA`].
    pub schema: &'static str,
    /// The model.
    pub model: String,
    /// SHA-256 of its weights and buffers.
    pub weights_sha256: String,
    /// Its method.
    pub method: String,
    /// What a prediction is the mean of, in words.
    pub basis: String,
    /// The set.
    pub set: String,
    /// Images of it.
    pub images: usize,
    /// Seed of the choice of images and of the corruptions.
    pub seed: u64,
    /// Which code ran.
    pub commit: String,
    /// Where.
    pub hardware: Hardware,
    /// What was typed.
    pub command: Option<String>,
    /// Wall-clock for everything.
    pub seconds: f64,
    /// The images as they are.
    pub clean: Level,
    /// Each corruption.
    pub corruptions: Vec<Corrupted>,
    /// Over the corruptions, by severity.
    pub mean: Vec<Level>,
}
