//! Which flow, with which settings.

use serde::{Deserialize, Serialize};
use tch::nn::Path;

use super::any::{AnyFlow, Body};
use super::{CouplingConfig, DiagonalConfig, IafConfig, LipschitzConfig, MadeConfig};
use crate::{Key, Result};

/// One of the flows and its settings, for example `{ kind = "made", hidden = 64 }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FlowConfig {
    /// Masked affine autoregressive.
    Made(MadeConfig),
    /// Several of them in alternating order.
    Iaf(IafConfig),
    /// Dense contracting layers.
    Lipschitz(LipschitzConfig),
    /// A slope and a shift per column.
    Diagonal(DiagonalConfig),
    /// Real NVP.
    Coupling(CouplingConfig),
}

impl Default for FlowConfig {
    fn default() -> Self {
        Self::Made(MadeConfig::default())
    }
}

impl FlowConfig {
    /// Whether several such flows give the same values as a batch as one by one, and gain by it: not with dropout, whose
    /// masks would depend on the batch, and not where the KL has a closed form.
    pub(crate) fn is_batched(&self) -> bool {
        !self.drops_out() && !matches!(self, Self::Diagonal(_))
    }

    /// Whether a draw in training has dropout masks of its own.
    pub(crate) fn drops_out(&self) -> bool {
        match self {
            Self::Made(made) => made.dropout > 0.0,
            Self::Iaf(iaf) => iaf.made.dropout > 0.0,
            Self::Lipschitz(_) | Self::Coupling(_) | Self::Diagonal(_) => false,
        }
    }

    /// The flow of the paper's released code, see [`MadeConfig::compat`].
    pub fn compat() -> Self {
        Self::Made(MadeConfig::compat())
    }

    /// Creates the flow on ℝᶜ, C = `dim`, with its variables under `path` and its start values from `key`.
    pub fn init(&self, path: &Path, dim: i64, key: Key) -> Result<AnyFlow> {
        let body = match self {
            Self::Made(config) => Body::Made(config.init(path, dim, key)?),
            Self::Iaf(config) => Body::Iaf(config.init(path, dim, key)?),
            Self::Lipschitz(config) => Body::Lipschitz(config.init(path, dim, key)?),
            Self::Diagonal(config) => Body::Diagonal(config.init(path, dim, key)?),
            Self::Coupling(config) => Body::Coupling(config.init(path, dim, key)?),
        };
        Ok(AnyFlow::new(self.clone(), body))
    }

    /// Whether [`Self::init`] would take these settings.
    ///
    /// # Errors
    /// Names the setting that cannot be.
    pub fn check(&self, dim: i64) -> Result<()> {
        match self {
            Self::Made(config) => config.check(dim),
            Self::Iaf(config) => config.check(dim),
            Self::Lipschitz(config) => config.check(),
            Self::Diagonal(config) => config.check(),
            Self::Coupling(config) => config.check(dim),
        }
    }

    /// How many numbers that are not trained [`Self::init`] would create: those of power iterations.
    pub fn state_count(&self, dim: i64) -> i64 {
        match self {
            Self::Made(config) => config.state_count(dim),
            Self::Iaf(config) => config.depth * config.made.state_count(dim),
            Self::Lipschitz(config) => config.state_count(dim),
            Self::Diagonal(_) => 0,
            Self::Coupling(config) => config.state_count(dim),
        }
    }

    /// How many trainable numbers [`Self::init`] would create.
    pub fn parameter_count(&self, dim: i64) -> i64 {
        match self {
            Self::Made(config) => config.parameter_count(dim),
            Self::Iaf(config) => config.parameter_count(dim),
            Self::Lipschitz(config) => config.parameter_count(dim),
            Self::Diagonal(config) => config.parameter_count(dim),
            Self::Coupling(config) => config.parameter_count(dim),
        }
    }
}
