//! Several autoregressive maps in alternating order.

use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use super::stack::stack_fields;
use super::{Flow, FlowSettings, Flowed, InitFlow, MadeConfig, MadeFlow};
use crate::{Error, Key, Result};

/// Settings of an [`IafFlow`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct IafConfig {
    /// How many maps.
    pub depth: i64,
    /// Settings of each map.
    pub made: MadeConfig,
}

impl Default for IafConfig {
    fn default() -> Self {
        Self { depth: 2, made: MadeConfig::default() }
    }
}

impl FlowSettings for IafConfig {
    fn parameter_count(&self, dim: i64) -> i64 {
        self.depth * self.made.parameter_count(dim)
    }

    fn state_count(&self, dim: i64) -> i64 {
        self.depth * self.made.state_count(dim)
    }

    fn drops_out(&self) -> bool {
        self.made.drops_out()
    }

    fn check(&self, dim: i64) -> Result<()> {
        if self.depth < 1 {
            return Err(Error::setting("flow.depth", self.depth, "give at least one map"));
        }
        self.made.check(dim)
    }
}

impl InitFlow for IafConfig {
    type Flow = IafFlow;

    fn init(&self, path: &Path, dim: i64, key: Key) -> Result<IafFlow> {
        self.check(dim)?;
        let map = |i: i64| self.made.init(&(path / "maps" / i), dim, key.fold("maps").at(i as u64));
        Ok(IafFlow { maps: (0..self.depth).map(map).collect::<Result<_>>()? })
    }
}

/// g = g_D ∘ … ∘ g₁, where the even-numbered maps see the columns from right to left, so that with two maps every column
/// depends on every other. Log-determinants add. Starts at the identity when its maps do.
///
/// Each gᵢ is a [`MadeFlow`] read in the direction x ↦ s(x₍<₎)⊙x + t(x₍<₎), one pass forwards: the direction in which
/// an inverse autoregressive flow samples. The inverse takes C passes per map.
#[derive(Debug)]
pub struct IafFlow {
    maps: Vec<MadeFlow>,
}

impl Flow for IafFlow {
    fn forward(&self, x: &Tensor, dropout: Option<Key>) -> Flowed {
        let mut flowed = self.maps[0].forward(x, dropout.map(|key| key.at(0)));
        for (i, map) in self.maps.iter().enumerate().skip(1) {
            let next = map.forward(&ordered(&flowed.value, i), dropout.map(|key| key.at(i as u64)));
            flowed = Flowed { value: ordered(&next.value, i), log_det: flowed.log_det + next.log_det };
        }
        flowed
    }

    fn inverse(&self, y: &Tensor) -> Option<Tensor> {
        let undo = |y: Tensor, (i, map): (usize, &MadeFlow)| Some(ordered(&map.inverse(&ordered(&y, i))?, i));
        self.maps.iter().enumerate().rev().try_fold(y.shallow_clone(), undo)
    }

    fn advance_spectral(&self) {
        self.maps.iter().for_each(Flow::advance_spectral);
    }

    fn settle_spectral(&self) {
        self.maps.iter().for_each(Flow::settle_spectral);
    }

    fn dim(&self) -> i64 {
        self.maps[0].dim()
    }

    fn parameter_count(&self) -> i64 {
        self.maps.iter().map(Flow::parameter_count).sum()
    }
}

/// The columns in the order map `i` (from 0) reads them; its own inverse.
fn ordered(x: &Tensor, i: usize) -> Tensor {
    if i.is_multiple_of(2) { x.shallow_clone() } else { x.flip([-1_i64].as_slice()) }
}

stack_fields!(IafFlow { maps });
