//! The out-of-distribution scores: one file each, one line of registration in [`SCORES`] or, for scores of single layers, in
//! [`LAYER_SCORES`]. A score of one's own, from Rust, needs neither: [`More::scores`](super::More) takes it.

mod activations;
mod compat;
mod ddu;
mod draws;
mod knn;
mod linearised;
mod logits;
mod mahalanobis;
mod odin;
mod pooled;
mod residual;
mod variance;
mod vim;

use fidgp::Key;
use fidgp_zoo::baseline::activation::Head;
use tch::Tensor;

use super::inducing::Inducing;
use super::observed::Observed;
use super::statistics::Statistics;
use crate::error::Result;
use crate::record::ood::{Base, Join};

pub(super) use compat::COMPAT_HIDDEN;
pub(super) use knn::neighbours_of;

/// The scores of images, in the order of the table.
pub const SCORES: &[&OodScore] = &[
    &logits::MSP,
    &logits::MAX_LOGIT,
    &logits::ENERGY,
    &logits::ENTROPY,
    &logits::GEN,
    &draws::ENTROPIES,
    &linearised::VARIANCE,
    &odin::ODIN,
    &activations::GRADNORM,
    &activations::REACT,
    &activations::SCALE,
    &activations::ASH,
    &mahalanobis::MAHALANOBIS,
    &knn::KNN,
    &ddu::DDU,
    &vim::VIM,
    &compat::COMPAT,
];

/// The scores of single layers, in the order of the table; their rows stand behind the others.
pub const LAYER_SCORES: &[&LayerScore] = &[&variance::VARIANCE, &residual::RESIDUAL, &pooled::POOLED];

/// A score: one number for each image, high = out of distribution. Where several follow from one fit, they are rows of one.
#[derive(Debug)]
pub struct OodScore {
    /// Names, and what is said about them in the table.
    pub rows: &'static [(&'static str, &'static str)],
    /// What a model must have.
    pub needs: Needs,
    /// How it is made.
    pub made: Made,
}

/// What a score is made from, beside the logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing else.
    Logits,
    /// Several answers of the model.
    Draws,
    /// Features before the last layer.
    Features,
    /// The last layer, a plain linear one.
    Head,
    /// Inducing weights.
    Inducing,
    /// A linearised posterior.
    Linearised,
}

/// How a score is made.
#[derive(Debug)]
pub enum Made {
    /// From what is seen of images alone: the numbers of each row; none where that was not seen.
    Plain(fn(&Observed) -> Vec<Tensor>),
    /// With what is fitted first, once. None where there is nothing to fit on; an error leaves the score out, and is told.
    Fitted(fn(&Given) -> Result<Fitted>),
}

/// What scores are fitted on.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// What is kept of ID training images.
    pub kept: &'a Statistics,
    /// A batch of them, with its products.
    pub first: &'a Observed,
    /// The last layer, where it is a plain linear one.
    pub head: Option<&'a Head>,
    /// The Bayesian layers.
    pub inducing: &'a [Inducing],
    /// For what is random.
    pub key: Key,
}

impl Given<'_> {
    /// Features of labelled images.
    fn labelled(&self) -> Option<(&Tensor, &[i64])> {
        let features = self.kept.features.as_ref();
        features.map(|features| (features, self.kept.labels.as_slice())).filter(|(_, labels)| !labels.is_empty())
    }

    /// The last layer, to keep.
    fn own_head(&self) -> Option<Head> {
        let share = |head: &Head| Head { weight: head.weight.shallow_clone(), bias: head.bias.shallow_clone() };
        self.head.map(share)
    }
}

/// A fitted score; none where there is nothing to fit on.
pub type Fitted = Option<Box<dyn Formula>>;

/// A fitted score.
pub trait Formula {
    /// The numbers of each row, `[N]`; none where the images were not looked at closely enough.
    ///
    /// # Errors
    /// When the observations do not fit what was fitted.
    fn score(&self, seen: &Observed) -> Result<Vec<Tensor>>;

    /// The same of the images it was fitted on.
    ///
    /// # Errors
    /// As [`Self::score`].
    fn score_fitted(&self, seen: &Observed) -> Result<Vec<Tensor>> {
        self.score(seen)
    }
}

impl<F: Fn(&Observed) -> Result<Vec<Tensor>>> Formula for F {
    fn score(&self, seen: &Observed) -> Result<Vec<Tensor>> {
        self(seen)
    }
}

/// A score of layers: recipes pool and join what it says of each.
#[derive(Debug)]
pub struct LayerScore {
    /// The recipes that always stand in the table.
    pub rows: &'static [LayerRow],
    /// What a model must have.
    pub needs: Needs,
    /// Fits it.
    pub fit: fn(&Given) -> Result<Box<dyn LayerFormula>>,
}

/// A row of the table: the mean over all layers of a family, joined with a score of images.
#[derive(Debug)]
pub struct LayerRow {
    /// Its name.
    pub name: &'static str,
    /// The family of columns that it pools.
    pub family: &'static str,
    /// How it is joined.
    pub join: Join,
    /// With what.
    pub base: Base,
    /// What is said about it in the table.
    pub about: &'static str,
}

impl LayerRow {
    /// The mean over layers alone.
    const fn alone(name: &'static str, family: &'static str, about: &'static str) -> Self {
        Self { name, family, join: Join::Alone, base: Base::Energy, about }
    }

    /// The energy, and what of that mean exceeds its 95 % quantile on ID training images.
    const fn hinge(name: &'static str, family: &'static str, about: &'static str) -> Self {
        Self { name, family, join: Join::Hinge(0.95), base: Base::Energy, about }
    }
}

/// A fitted score of layers.
pub trait LayerFormula {
    /// Its families with their layers, in the order of the network.
    fn families(&self) -> Vec<(String, Vec<String>)>;

    /// The numbers of each `family/layer`. `[N]` each
    ///
    /// # Errors
    /// When the observations do not fit what was fitted.
    fn score(&self, seen: &Observed) -> Result<Vec<(String, Tensor)>>;
}

/// The names of the Bayesian layers.
fn bayesian(given: &Given) -> Vec<String> {
    given.inducing.iter().map(|layer| layer.name.clone()).collect()
}

/// Covariances of few images in many dimensions need jitter, one class like the other: that is no news for a user.
fn quietly<T>(fit: impl FnOnce() -> T) -> T {
    tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), fit)
}
