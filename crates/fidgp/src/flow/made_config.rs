//! Settings and start values of the masked autoregressive flow.

use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use super::linear::LinearParams;
use super::masks::MadeMasks;
use super::start::{fan_in, identity, uniform};
use super::{FlowSettings, InitFlow, MadeFlow, MadeLayers};
use crate::spectral::SpectralRule;
use crate::{Error, Key, Result};

/// Where a [`MadeFlow`] starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MadeStart {
    /// s = 1, t = 0: the last layer starts at a constant.
    #[default]
    Identity,
    /// All layers uniform on ±1/√in, the second layer of each block on ±10⁻³.
    FanIn,
}

/// Settings of a [`MadeFlow`]. The defaults start at the identity and let every column see all earlier ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct MadeConfig {
    /// Hidden units H; C where left out. With H < C − 1 only the first H columns are ever conditioned on.
    pub hidden: Option<i64>,
    /// Residual blocks.
    pub blocks: i64,
    /// Spectral normalisation of every layer.
    pub spectral: SpectralRule,
    /// Dropout inside the blocks, in training passes.
    pub dropout: f64,
    /// Start values.
    pub start: MadeStart,
}

impl Default for MadeConfig {
    fn default() -> Self {
        Self { hidden: None, blocks: 2, spectral: SpectralRule::Downwards, dropout: 0.0, start: MadeStart::Identity }
    }
}

impl MadeConfig {
    /// The flow of the paper's released code: H = 16, W/σ before the mask, dropout 0.1, fan-in start.
    pub fn compat() -> Self {
        Self { hidden: Some(16), blocks: 2, spectral: SpectralRule::Compat, dropout: 0.1, start: MadeStart::FanIn }
    }

    /// The first or the last layer.
    fn outer(&self, path: &Path, name: &str, shape: (i64, i64), mask: &Tensor, key: Key) -> LinearParams {
        let (path, key) = (path / name, key.fold(name));
        let constant = name == "last" && self.start == MadeStart::Identity;
        let start = if constant { identity(&path, shape) } else { fan_in(&path, shape, key) };
        LinearParams::init(&path, start, self.spectral, Some(mask), key)
    }

    fn hidden(&self, dim: i64) -> i64 {
        self.hidden.unwrap_or(dim)
    }
}

impl FlowSettings for MadeConfig {
    /// CH + H + 2B(H² + H) + 2CH + 2C for B blocks.
    fn parameter_count(&self, dim: i64) -> i64 {
        let hidden = self.hidden(dim);
        let block = 2 * (hidden * hidden + hidden);
        dim * hidden + hidden + self.blocks * block + 2 * dim * hidden + 2 * dim
    }

    fn state_count(&self, dim: i64) -> i64 {
        let (hidden, of) = (self.hidden(dim), |out, input| self.spectral.state_count(out, input));
        of(hidden, dim) + 2 * self.blocks * of(hidden, hidden) + of(2 * dim, hidden)
    }

    /// Masked weights are counted too.
    fn row_macs(&self, dim: i64) -> i64 {
        let hidden = self.hidden(dim);
        3 * dim * hidden + 2 * self.blocks * hidden * hidden
    }

    fn drops_out(&self) -> bool {
        self.dropout > 0.0
    }

    fn check(&self, dim: i64) -> Result<()> {
        let refuse =
            |setting: &str, value: String, advice: &str| Err(Error::setting(format!("flow.{setting}"), value, advice));
        if dim < 1 {
            return refuse("dim", dim.to_string(), "a flow needs at least one column");
        }
        if self.hidden(dim) < 1 {
            return refuse(
                "hidden",
                self.hidden(dim).to_string(),
                "give at least one hidden unit, or leave it out for C units",
            );
        }
        if self.blocks < 0 {
            return refuse("blocks", self.blocks.to_string(), "give zero or more residual blocks");
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return refuse("dropout", self.dropout.to_string(), "give a probability below 1");
        }
        if self.start == MadeStart::Identity && self.spectral == SpectralRule::Compat {
            let advice = "W/σ(W) cannot be zero, so this rule cannot start at the identity; use `start = \"fan-in\"` or `spectral = \"downwards\"`";
            return refuse("start", "identity".to_owned(), advice);
        }
        Ok(())
    }
}

impl InitFlow for MadeConfig {
    type Flow = MadeFlow;

    fn init(&self, path: &Path, dim: i64, key: Key) -> Result<MadeFlow> {
        self.check(dim)?;
        let masks = MadeMasks::new(dim, self.hidden(dim));
        let pair = |b: i64| {
            let (path, key) = (path / "blocks" / b, key.fold("blocks").at(b as u64));
            let block =
                |i: u64, start| LinearParams::init(&(&path / i), start, self.spectral, Some(&masks.block), key.at(i));
            let shape = (self.hidden(dim), self.hidden(dim));
            let first = block(0, fan_in(&path, shape, key.at(0)));
            [first, block(1, uniform(&path, shape, 1e-3, key.at(1)))]
        };
        let layers = MadeLayers {
            initial: self.outer(path, "initial", (self.hidden(dim), dim), &masks.initial, key),
            blocks: (0..self.blocks).map(pair).collect(),
            last: self.outer(path, "last", (2 * dim, self.hidden(dim)), &masks.last, key),
        };
        MadeFlow::from_layers(layers, self.spectral, self.dropout)
    }
}
