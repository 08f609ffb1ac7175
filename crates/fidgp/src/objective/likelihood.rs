//! What a network's outputs say of the data, and what is known of that before there are numbers.

use std::fmt::Debug;

use tch::Tensor;
use tch::nn::Path;

use crate::Result;
use crate::layer::Curvature;

/// What a network's outputs say of the data.
pub trait Likelihood: Debug + Send {
    /// Mean negative log-likelihood of a batch. `[N, outputs, ..]`, `[N, ..]` → scalar
    fn nll(&self, outputs: &Tensor, targets: &Tensor) -> Tensor;

    /// The NLL of a part of a batch, of which others have the rest: `sum` adds a tensor, without a gradient, up over all parts.
    /// The mean of the parts' values, weighed by their [mass](Self::mass), is the NLL of the whole batch.
    ///
    /// # Errors
    /// When `sum` fails.
    fn nll_of_part(
        &self,
        outputs: &Tensor,
        targets: &Tensor,
        sum: &dyn Fn(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let _ = sum;
        Ok(self.nll(outputs, targets))
    }

    /// Whether [`Self::nll_of_part`] needs that sum.
    fn sums_over_parts(&self) -> bool {
        false
    }

    /// What the mean NLL of these targets counts beside that of others: rows, where nothing else is said.
    fn mass(&self, targets: &Tensor) -> f64 {
        targets.size().first().copied().unwrap_or(0) as f64
    }

    /// Expected second derivatives of the NLL by the outputs. `[N, outputs]`
    fn curvature(&self, outputs: &Tensor) -> Curvature;

    /// How a prediction is read from outputs.
    fn reading(&self) -> Reading<'_>;
}

/// How a prediction is read from outputs.
#[derive(Clone, Copy, Debug)]
pub enum Reading<'a> {
    /// A number and the noise around it.
    Numbers(&'a dyn NumberLikelihood),
    /// Logits of classes.
    Classes,
    /// Logits of classes for every pixel; more outputs than classes are not looked at.
    Pixels {
        /// Number of classes.
        classes: i64,
    },
}

impl<'a> Reading<'a> {
    /// The likelihood of numbers, if it is one.
    pub fn numbers(self) -> Option<&'a dyn NumberLikelihood> {
        if let Self::Numbers(likelihood) = self { Some(likelihood) } else { None }
    }
}

/// A likelihood of numbers: predictions need its first two moments, so that noise and what the weights leave open add up.
pub trait NumberLikelihood: Debug {
    /// Mean and noise variance from the network's outputs. `[N, outputs]` → `[N]`, `[N]`
    fn output(&self, outputs: &Tensor) -> GaussianOutput;

    /// The noise variance, where it is the same for all inputs and there are no members.
    fn constant_variance(&self) -> Option<Tensor> {
        None
    }
}

/// Mean and noise variance at each input.
#[derive(Debug)]
pub struct GaussianOutput {
    /// `[N]`
    pub mean: Tensor,
    /// `[N]`
    pub variance: Tensor,
}

/// What a likelihood is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// A number for each input.
    Numbers,
    /// A class for each input.
    Classes,
    /// A class for each pixel.
    Pixels,
}

/// What the settings of a likelihood do not know.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Members whose outputs stand one after another.
    pub members: i64,
    /// Classes of the data; 0 for numbers.
    pub classes: i64,
    /// Outputs of the network's head.
    pub head: i64,
}

/// The settings of one kind of likelihood.
pub trait LikelihoodSettings {
    /// What it is of.
    fn targets(&self) -> Targets;

    /// Whether [`Self::init`] would take these settings.
    ///
    /// # Errors
    /// Names the setting that cannot be.
    fn check(&self, classes: Option<usize>) -> Result<()>;

    /// How many outputs it needs of the network.
    fn outputs(&self, classes: i64) -> i64;

    /// The likelihood; what it learns is a parameter under `path`.
    ///
    /// # Errors
    /// As [`Self::check`].
    fn init(&self, path: &Path, given: &Given) -> Result<Box<dyn Likelihood>>;
}
