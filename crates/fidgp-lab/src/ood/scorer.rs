//! From observations to scores. Everything that is fitted is fitted once, on ID training images.

use fidgp::Key;
use fidgp::ood::{LeadingRows, ResidualHead, Ridge, Subspace};
use fidgp_zoo::baseline::activation::{Head, grad_norm, react, scale};
use fidgp_zoo::baseline::ash::ash;
use fidgp_zoo::baseline::ddu::ClassGaussians;
use fidgp_zoo::baseline::knn::Neighbours;
use fidgp_zoo::baseline::logit_scores::{energy, entropy, generalised_entropy, max_logit, msp};
use fidgp_zoo::baseline::mahalanobis::Mahalanobis;
use fidgp_zoo::baseline::odin::odin;
use fidgp_zoo::baseline::vim::Vim;
use tch::{Device, Kind, Tensor};

use super::layers::{LEVERAGE, Principal, SUBSPACE_RANKS};
use super::observe::{Inducing, Observed};
use super::statistics::Statistics;
use crate::error::{LabError, Result};

/// `variance/layer1.0.conv1` is one layer's.
pub use crate::record::ood::Columns;

/// One neighbour in so many training images: the paper's 50 of CIFAR's 50,000. More than a class has images would measure the
/// distance to *other* classes.
const IMAGES_PER_NEIGHBOUR: i64 = 1000;
/// Width of the released code's head.
pub(super) const COMPAT_HIDDEN: i64 = 128;
/// The widest feature map that head is put on: of a street scene it would have hundreds of millions of weights, and sums so
/// long that a score changes with its batch.
const COMPAT_WIDEST: i64 = 1 << 18;

/// Everything fitted.
#[derive(Debug, Default)]
pub struct Scorer {
    head: Option<Head>,
    clip: f64,
    mahalanobis: Option<Mahalanobis>,
    gaussians: Option<ClassGaussians>,
    neighbours: Option<Neighbours>,
    vim: Option<Vim>,
    principal: Vec<(String, Principal)>,
    leading: Vec<LeadingRows>,
    compat: Vec<(ResidualHead, Subspace)>,
    /// What the model does not have or could not be fitted, and why.
    pub left_out: Vec<String>,
}

impl Scorer {
    /// Fits on what is kept of ID training images; `first` is a batch of them with its products, on which the released code's
    /// head gets its one step.
    ///
    /// # Errors
    /// When a decomposition fails.
    pub fn fit(
        kept: &Statistics,
        first: &Observed,
        (head, inducing): (Option<Head>, &[Inducing]),
        key: Key,
    ) -> Result<Self> {
        let (mut left_out, labels) = (Vec::new(), &kept.labels);
        let features = kept.features.as_ref();
        let labelled = features.filter(|_| !labels.is_empty());
        let mahalanobis = labelled.map(|features| quietly(|| Mahalanobis::fit(features, labels)));
        // a model with Gaussians of its own, of all its training data, needs no others
        let others = labelled.filter(|_| first.log_density.is_none());
        let gaussians = others.map(|features| quietly(|| ClassGaussians::fit(features, labels)));
        let neighbours = features.map(|features| Neighbours::fit(features, neighbours_of(features)));
        let vim = features.zip(head.as_ref()).map(|(features, head)| Vim::fit(features, &head.weight, &head.bias));
        left_out.extend(why_not("mahalanobis", mahalanobis.as_ref()));
        left_out.extend(why_not("ddu", gaussians.as_ref()));
        left_out.extend(why_not("vim", vim.as_ref()));
        let principal = kept.moments.iter().map(|(layer, moment)| Ok((layer.clone(), Principal::of(moment)?)));
        let leading = kept.leading.iter().map(|rows| LeadingRows::of_basis(rows.basis().shallow_clone()));
        let mut compat = Vec::new();
        let widest = first.products.iter().map(|(_, z)| z.size()[1]).max().unwrap_or_default();
        if widest > COMPAT_WIDEST {
            let why = format!("the released head would have {widest} × {COMPAT_HIDDEN} weights on one layer");
            left_out.push(format!("compat-residual: {why}; at most {COMPAT_WIDEST} inputs are taken"));
        } else {
            let head = |(layer, (_, z)): (&Inducing, &(String, Tensor))| compat_of(layer, z, key);
            compat = inducing.iter().zip(&first.products).map(head).collect::<Result<_>>()?;
        }
        Ok(Self {
            clip: features.map_or(f64::INFINITY, |features| quantile(features, 0.9)),
            mahalanobis: mahalanobis.and_then(std::result::Result::ok),
            gaussians: gaussians.and_then(std::result::Result::ok),
            neighbours: neighbours.and_then(std::result::Result::ok),
            vim: vim.and_then(std::result::Result::ok),
            principal: principal.collect::<Result<_>>()?,
            leading: leading.collect(),
            compat,
            head,
            left_out,
        })
    }

    /// The layers of each family of per-layer scores, in the order of the network.
    pub fn families(&self, inducing: &[Inducing]) -> Vec<(String, Vec<String>)> {
        let bayesian: Vec<String> = inducing.iter().map(|layer| layer.name.clone()).collect();
        let pooled: Vec<String> = self.principal.iter().map(|(layer, _)| layer.clone()).collect();
        let residual = if self.leading.is_empty() { Vec::new() } else { bayesian.clone() };
        let mut families = vec![("variance".to_owned(), bayesian), ("residual".to_owned(), residual)];
        let names = SUBSPACE_RANKS.iter().map(|(family, _)| *family).chain([LEVERAGE]);
        families.extend(names.map(|family| (family.to_owned(), pooled.clone())));
        families.retain(|(_, layers)| !layers.is_empty());
        families
    }

    /// All scores of a batch.
    ///
    /// # Errors
    /// When the observations do not fit what was fitted, or a score is NaN.
    pub fn score(&self, seen: &Observed) -> Result<Columns> {
        let mut scores = of_outputs(seen);
        if let Some(features) = &seen.features {
            scores.extend(self.of_features(features, &seen.logits)?);
        }
        scores.extend(self.of_layers(seen)?);
        scores.into_iter().map(|(name, score)| Ok((name.clone(), numbers(&name, &score)?))).collect()
    }

    /// The same of the images it was fitted on: they are not their own neighbours.
    ///
    /// # Errors
    /// As [`Self::score`].
    pub fn score_fitted(&self, seen: &Observed) -> Result<Columns> {
        let mut columns = self.score(seen)?;
        if let (Some(fitted), Some(features)) = (&self.neighbours, &seen.features) {
            columns.insert("knn".to_owned(), numbers("knn", &fitted.score_fitted(features)?)?);
        }
        Ok(columns)
    }

    /// Scores of the last features.
    fn of_features(&self, features: &Tensor, logits: &Tensor) -> Result<Vec<(String, Tensor)>> {
        let mut scores = vec![("gradnorm", grad_norm(features, logits))];
        if let Some(head) = &self.head {
            scores.extend([
                ("react", react(features, head, self.clip)),
                ("scale", scale(features, head)),
                ("ash", ash(features, head)),
            ]);
        }
        if let Some(fitted) = &self.mahalanobis {
            scores.push(("mahalanobis", fitted.score(features)?));
            scores.push(("relative-mahalanobis", fitted.relative(features)?));
        }
        if let Some(fitted) = &self.neighbours {
            scores.push(("knn", fitted.score(features)?));
        }
        if let Some(fitted) = &self.gaussians {
            scores.push(("ddu", -fitted.score(features)?));
        }
        if let Some(fitted) = &self.vim {
            scores.push(("vim", fitted.score(features, logits)?));
        }
        Ok(named(scores))
    }

    /// Scores of single layers, and the released one, which is a mean over them.
    fn of_layers(&self, seen: &Observed) -> Result<Vec<(String, Tensor)>> {
        let variance = seen.unexplained.iter();
        let mut scores: Vec<_> =
            variance.map(|(layer, share)| (format!("variance/{layer}"), share.shallow_clone())).collect();
        for ((layer, q), leading) in seen.rows.iter().zip(&self.leading) {
            scores.push((format!("residual/{layer}"), leading.score(q)?));
        }
        for ((layer, principal), (_, x)) in self.principal.iter().zip(&seen.pooled) {
            let energies = principal.energies(x)?;
            for (family, part) in SUBSPACE_RANKS {
                scores.push((format!("{family}/{layer}"), principal.outside(&energies, part)));
            }
            scores.push((format!("{LEVERAGE}/{layer}"), principal.leverage(&energies)));
        }
        scores.extend(self.compat_score(seen)?.map(|score| ("compat-residual".to_owned(), score)));
        Ok(scores)
    }

    /// The mean over layers of `‖(I − P)f‖`, as the paper has it, with the one U.
    fn compat_score(&self, seen: &Observed) -> Result<Option<Tensor>> {
        let mut sum: Option<Tensor> = None;
        for ((head, subspace), (_, z)) in self.compat.iter().zip(&seen.products) {
            let score = subspace.score(&head.forward(z)?)?.to_kind(Kind::Double);
            sum = Some(sum.map_or_else(|| score.shallow_clone(), |sum| sum + &score));
        }
        Ok(sum.map(|sum| sum / self.compat.len() as f64))
    }
}

/// Scores of the outputs alone, those of draws and a network's own density among them.
fn of_outputs(seen: &Observed) -> Vec<(String, Tensor)> {
    let logits = &seen.logits;
    let mut scores = vec![
        ("msp", msp(logits)),
        ("max-logit", max_logit(logits)),
        ("energy", energy(logits)),
        ("entropy", entropy(logits)),
        ("gen", generalised_entropy(logits)),
    ];
    scores.extend(seen.perturbed.as_ref().map(|perturbed| ("odin", odin(perturbed))));
    if let Some((total, epistemic)) = &seen.draws {
        scores.push(("total-entropy", total.shallow_clone()));
        scores.push(("mutual-information", epistemic.shallow_clone()));
    }
    scores.extend(seen.log_density.as_ref().map(|density| ("ddu", -density)));
    named(scores)
}

fn named(scores: Vec<(&str, Tensor)>) -> Vec<(String, Tensor)> {
    scores.into_iter().map(|(name, score)| (name.to_owned(), score)).collect()
}

/// A score as numbers, none of them NaN.
fn numbers(name: &str, score: &Tensor) -> Result<Vec<f64>> {
    let values = Vec::<f64>::try_from(score.to_device(Device::Cpu).to_kind(Kind::Double))?;
    if values.iter().any(|value| value.is_nan()) {
        let why = "is NaN for an image: find out where the network diverges before ranking anything by it";
        return Err(LabError::config(format!("score {name}"), why));
    }
    Ok(values)
}

/// Covariances of few images in many dimensions need jitter, one class like the other: that is no news for a user.
fn quietly<T>(fit: impl FnOnce() -> T) -> T {
    tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), fit)
}

fn why_not<T>(name: &str, fitted: Option<&fidgp_zoo::Result<T>>) -> Option<String> {
    fitted?.as_ref().err().map(|error| format!("{name}: {error}"))
}

/// k for so many ID training features.
pub(super) fn neighbours_of(features: &Tensor) -> i64 {
    features.size()[0] / IMAGES_PER_NEIGHBOUR
}

fn compat_of(layer: &Inducing, z: &Tensor, key: Key) -> Result<(ResidualHead, Subspace)> {
    let subspace = Subspace::softened(&layer.u, Ridge::COMPAT)?;
    let key = key.fold("compat").fold(&layer.name);
    let head = ResidualHead::init(z.size()[1], COMPAT_HIDDEN, layer.u.size()[1], z.device(), key);
    Ok((head.one_step(z, &subspace)?, subspace))
}

/// The q-quantile of all entries.
fn quantile(x: &Tensor, q: f64) -> f64 {
    let (sorted, _) = x.reshape([-1]).sort(0, false);
    sorted.double_value(&[(q * (sorted.size()[0] - 1) as f64) as i64])
}
