//! Lakshminarayanan, Pritzel, Blundell: Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles (2017).
//! Members that share nothing.

use fidgp::Key;
use fidgp::layer::{Network, Pass};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use super::deterministic::Deterministic;
use super::{About, BuildOne, Extra, Method, Passes, Section, Settings};
use crate::{Error, Result};

/// Under which it keeps its members: in the names of its variables, and in its run folder.
pub const MEMBERS: &str = "members";

/// The method.
#[derive(Debug)]
pub struct DeepEnsemble;

impl Method for DeepEnsemble {
    fn about(&self) -> About {
        About {
            section: Some(Section::of::<EnsembleConfig>("ensemble")),
            trains_members_by: Some(&Deterministic),
            passes: Passes::Members,
            spectral_norm: Extra::Allowed,
            ..About::new("ensemble", "A deep ensemble")
        }
    }

    fn assemble(&self, members: i64, (path, key): (&Path, Key), one: &BuildOne) -> Result<Box<dyn Network>> {
        let member = |k: i64| one(&(path / MEMBERS / k), key.at(k as u64));
        Ok(Box::new(Ensemble { networks: (0..members).map(member).collect::<Result<_>>()? }))
    }
}

/// How many networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EnsembleConfig {
    /// K.
    pub members: i64,
}

impl Default for EnsembleConfig {
    fn default() -> Self {
        Self { members: 5 }
    }
}

impl Settings for EnsembleConfig {
    fn check(&self) -> Result<()> {
        if self.members < 1 {
            return Err(Error::setting("members", self.members, "must be at least 1; 5 is usual"));
        }
        Ok(())
    }

    fn members(&self) -> i64 {
        self.members
    }
}

/// Networks of their own; outputs go out as blocks of rows, member 0's first.
#[derive(Debug)]
pub struct Ensemble {
    /// The members.
    pub networks: Vec<Box<dyn Network>>,
}

fidgp::layers!(Ensemble: networks);

impl Network for Ensemble {
    /// # Shapes
    /// `[N, ..]` → `[K·N, outputs]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let outputs =
            self.networks.iter().map(|network| network.forward(x, pass)).collect::<fidgp::Result<Vec<_>>>()?;
        Ok(Tensor::f_cat(&outputs, 0)?)
    }

    fn takes_empty_batches(&self) -> bool {
        self.networks.iter().all(fidgp::layer::Network::takes_empty_batches)
    }

    fn members(&self) -> i64 {
        self.networks.len() as i64
    }
}
