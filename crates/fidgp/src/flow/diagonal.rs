//! The contracting diagonal flow.

use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use super::stack::stack_fields;
use super::{Flow, FlowSettings, Flowed, InitFlow};
use crate::{Error, Key, Result};

/// Settings of a [`DiagonalFlow`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct DiagonalConfig {
    /// The slope sigmoid(a) at the start, in (0, 1). The identity, slope 1, is the limit and out of reach: closer to it,
    /// the gradient of a, which is proportional to 1 − slope, fades.
    pub slope: f64,
}

impl Default for DiagonalConfig {
    fn default() -> Self {
        Self { slope: 0.99 }
    }
}

impl FlowSettings for DiagonalConfig {
    /// 2C.
    fn parameter_count(&self, dim: i64) -> i64 {
        2 * dim
    }

    fn check(&self, _: i64) -> Result<()> {
        if self.slope > 0.0 && self.slope < 1.0 {
            return Ok(());
        }
        Err(Error::setting("flow.slope", self.slope, "give a slope strictly between 0 and 1"))
    }

    fn keeps_gaussians(&self) -> bool {
        true
    }
}

impl InitFlow for DiagonalConfig {
    type Flow = DiagonalFlow;

    /// Nothing is random.
    fn init(&self, path: &Path, dim: i64, _key: Key) -> Result<DiagonalFlow> {
        self.check(dim)?;
        let raw = (self.slope / (1.0 - self.slope)).ln();
        let options = (path.kind(), path.device());
        let raw_slope = path.add("raw_slope", Tensor::full([dim], raw, options), true);
        let shift = path.add("shift", Tensor::zeros([dim], options), true);
        DiagonalFlow::from_tensors(raw_slope, shift)
    }
}

/// y = sigmoid(a)⊙x + b: never expands a distance, keeps Gaussians Gaussian, and has a closed-form inverse.
#[derive(Debug)]
pub struct DiagonalFlow {
    /// a. `[.., C]`
    raw_slope: Tensor,
    /// b. `[.., C]`
    shift: Tensor,
}

impl DiagonalFlow {
    /// Builds the flow from tensors.
    ///
    /// # Shapes
    /// `raw_slope, shift [.., C]`
    pub fn from_tensors(raw_slope: Tensor, shift: Tensor) -> Result<Self> {
        if shift.size() != raw_slope.size() || shift.dim() == 0 {
            return Err(Error::shape("shift", &shift.size(), format!("{:?}, as `raw_slope`", raw_slope.size())));
        }
        Ok(Self { raw_slope, shift })
    }

    /// sigmoid(a). `[.., 1, C]`
    fn slope(&self) -> Tensor {
        self.raw_slope.sigmoid().unsqueeze(-2)
    }
}

impl Flow for DiagonalFlow {
    /// `N(m, s²)` becomes `N(sigmoid(a)⊙m + b, (sigmoid(a)⊙s)²)`.
    fn push_gaussian(&self, mean: &Tensor, sd: &Tensor) -> Option<(Tensor, Tensor)> {
        Some((self.slope() * mean + self.shift.unsqueeze(-2), self.slope() * sd))
    }

    /// log|det J| = Σ log sigmoid(a), the same for every row.
    fn forward(&self, x: &Tensor, _dropout: Option<Key>) -> Flowed {
        let log_det = self.raw_slope.log_sigmoid().sum_dim_intlist([-1_i64].as_slice(), true, None); // [.., 1]
        let rows = x.size();
        Flowed {
            value: self.slope() * x + self.shift.unsqueeze(-2),
            log_det: log_det.expand(&rows[..rows.len() - 1], false),
        }
    }

    fn inverse(&self, y: &Tensor) -> Option<Tensor> {
        Some((y - self.shift.unsqueeze(-2)) / self.slope())
    }

    fn dim(&self) -> i64 {
        self.shift.size()[self.shift.dim() - 1]
    }

    fn parameter_count(&self) -> i64 {
        (self.raw_slope.numel() + self.shift.numel()) as i64
    }
}

stack_fields!(DiagonalFlow { raw_slope, shift });
