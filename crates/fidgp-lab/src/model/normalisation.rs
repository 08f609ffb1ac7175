//! How images become what a network takes.

use fidgp_data::ChannelStatistics;
use tch::Tensor;
use tch::nn::Path;

/// `(x/255 − mean)/sd` for each channel.
#[derive(Debug)]
pub struct Normalisation {
    mean: Tensor,
    sd: Tensor,
}

impl Normalisation {
    /// What its buffers are called among a model's variables. A layer of the network may be called `input` too: only these two
    /// are the normalisation's.
    pub const NAMES: [&str; 2] = ["input.mean", "input.sd"];

    /// Whether a variable is one of its buffers.
    pub fn holds(variable: &str) -> bool {
        Self::NAMES.contains(&variable)
    }

    /// Buffers `input.mean` and `input.sd`.
    pub(super) fn init(path: &Path, statistics: &ChannelStatistics) -> Self {
        let buffer = |name: &str, values: &[f64]| {
            let values = Tensor::from_slice(values).to_kind(path.kind()).to_device(path.device());
            path.add(name, values, false)
        };
        Self { mean: buffer("mean", &statistics.mean), sd: buffer("sd", &statistics.sd) }
    }

    /// Other means and deviations of the channels, on the scale where 255 is 1; buffers of no store.
    #[must_use]
    pub fn with(&self, mean: &[f64], sd: &[f64]) -> Self {
        let buffer =
            |values: &[f64], like: &Tensor| Tensor::from_slice(values).to_kind(like.kind()).to_device(like.device());
        Self { mean: buffer(mean, &self.mean), sd: buffer(sd, &self.sd) }
    }

    /// The same buffers.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { mean: self.mean.shallow_clone(), sd: self.sd.shallow_clone() }
    }

    /// Mean and deviation of each channel, on the scale where 255 is 1. `[C]`, `[C]`
    pub fn statistics(&self) -> (&Tensor, &Tensor) {
        (&self.mean, &self.sd)
    }

    /// # Shapes
    /// `[N, C, H, W]`, 0 … 255 → the same, about standard
    pub fn apply(&self, pixels: &Tensor) -> Tensor {
        let channel = |values: &Tensor| values.view([1, -1, 1, 1]) * 255.0;
        (pixels - channel(&self.mean)) / channel(&self.sd)
    }
}
