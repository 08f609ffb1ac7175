//! The content of `growth.json`: how times grow with one size.

use serde::Serialize;

use super::Hardware;

/// The version of the document.
pub const GROWTH_SCHEMA: &str = "fidgp-growth/1";

/// What varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grown {
    /// R = C = M of the inducing matrices; rules of the config keep their own sizes.
    M,
    /// Weight draws of a prediction; a training step has one.
    K,
    /// Images in a batch.
    Batch,
    /// Which layers are Bayesian.
    Layers,
}

impl Grown {
    /// Every axis.
    pub const ALL: [Self; 4] = [Self::M, Self::K, Self::Batch, Self::Layers];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::M => "m",
            Self::K => "k",
            Self::Batch => "batch",
            Self::Layers => "layers",
        }
    }

    /// In words.
    pub fn about(self) -> &'static str {
        match self {
            Self::M => "inducing size M",
            Self::K => "weight draws K",
            Self::Batch => "images in a batch",
            Self::Layers => "Bayesian layers",
        }
    }
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// M, K, images in a batch, or the number of Bayesian layers.
    pub value: i64,
    /// A training step; none where K varies, which it does not have.
    pub train: Option<Measured>,
    /// Its multiply-accumulates, the backward pass counted as two forward ones; none for methods without such a count.
    pub train_macs: Option<i64>,
    /// A prediction of the batch with new draws, factors made before.
    pub predict: Measured,
    /// Its multiply-accumulates.
    pub predict_macs: i64,
}

/// One axis, measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// What varies.
    pub axis: Grown,
    /// In the order they were asked for.
    pub points: Vec<Point>,
}

/// The document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// [`GROWTH_SCHEMA`].
    pub schema: &'static str,
    /// Name of the config.
    pub name: String,
    /// Its method.
    pub method: &'static str,
    /// Which code ran.
    pub commit: String,
    /// Where.
    pub hardware: Hardware,
    /// The device in words.
    pub device: String,
    /// What was typed.
    pub command: Option<String>,
    /// Processes that wanted a core in the minute before the first measurement: anything much above 0 is other people's work.
    pub load_before: Option<f64>,
    /// Images in a batch, where it does not vary.
    pub batch: usize,
    /// K, where it does not vary.
    pub draws: u64,
    /// Samples of each time.
    pub rounds: usize,
    /// Wall-clock for everything.
    pub seconds: f64,
    /// The config as it was read.
    pub config: serde_json::Value,
    /// One line for each axis.
    pub axes: Vec<Line>,
}

/// One time: median, least and largest of the samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// What took it.
    pub what: String,
    /// Median, in milliseconds.
    pub median_ms: f64,
    /// Least.
    pub least_ms: f64,
    /// Largest.
    pub largest_ms: f64,
}
