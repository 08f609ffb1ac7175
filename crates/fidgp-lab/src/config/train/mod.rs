//! How a network is trained.

mod groups;
mod optimiser;
mod schedule;

pub use groups::GroupConfig;
pub use optimiser::OptimiserConfig;
pub use schedule::ScheduleConfig;

use fidgp::objective::KlSchedule;
use serde::{Deserialize, Serialize};

/// The training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Passes over the training data.
    pub epochs: u64,
    /// Examples in a step.
    pub batch_size: usize,
    /// The optimiser.
    pub optimiser: OptimiserConfig,
    /// Parameters with a learning rate or decay of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupConfig>,
    /// The learning rate over time.
    #[serde(default = "constant")]
    pub schedule: ScheduleConfig,
    /// The KL's weight over time.
    #[serde(default)]
    pub kl: KlSchedule,
    /// Largest norm of a gradient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// ρ of a sharpness-aware step: the NLL's gradient is taken at `θ + ρ g/‖g‖`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharpness: Option<f64>,
    /// Weight of the share of the layers' inputs that the inducing columns leave unexplained, added to the loss.
    #[serde(default, skip_serializing_if = "is_none")]
    pub alignment: f64,
    /// From this epoch on BatchNorm uses its running statistics in training as well. A weight draw moves the statistics
    /// of its batch, and normalising with them hides that from the likelihood; prediction, with running statistics,
    /// would then see more noise than training did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze_norm_epoch: Option<f64>,
    /// A batch, or a process's part of it, is computed in so many pieces, one after another, whose gradients are added up.
    #[serde(default = "one_piece", skip_serializing_if = "is_one_piece")]
    pub accumulate: usize,
    /// Whether the parts of a batch share one draw of the weights.
    #[serde(default, skip_serializing_if = "WeightDraws::is_shared")]
    pub weight_draws: WeightDraws,
    /// With several processes: BatchNorm normalises with the statistics of the whole batch, not with those of each process's
    /// part.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sync_norm: bool,
    /// Epochs between validations (and records); 0 for none.
    #[serde(default = "one")]
    pub validate_every: u64,
    /// Epochs between checkpoints, beside the one at the end; 0 for none at all.
    #[serde(default = "one")]
    pub checkpoint_every: u64,
    /// Which epoch is kept.
    #[serde(default)]
    pub select: Select,
    /// In which type large products are computed in training.
    #[serde(default)]
    pub precision: Precision,
    /// On CUDA, capture the step as a graph and replay it.
    #[serde(default = "yes")]
    pub capture: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_none(weight: &f64) -> bool {
    *weight == 0.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

fn yes() -> bool {
    true
}

/// In which type large products are computed; factorisations, draws and the KL always stay in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// bf16 on CUDA for image networks, f32 elsewhere.
    #[default]
    Auto,
    /// f32.
    F32,
    /// bf16.
    Bf16,
}

/// Which draw of the weights the parts of a batch see, that is, processes and the pieces of `accumulate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightDraws {
    /// All the same: the training is that of one process.
    #[default]
    Shared,
    /// Each its own: the gradient is the mean over as many draws as there are parts.
    Own,
}

impl WeightDraws {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn is_shared(&self) -> bool {
        *self == Self::Shared
    }
}

/// Which epoch the results are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// The last one.
    #[default]
    Last,
    /// The one with the lowest validation NLL among those with the full KL weight.
    Best,
}

fn one_piece() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_one_piece(count: &usize) -> bool {
    *count == 1
}

fn constant() -> ScheduleConfig {
    ScheduleConfig::Constant
}

fn one() -> u64 {
    1
}
