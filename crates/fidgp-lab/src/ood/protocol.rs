//! The released script's procedure (`--paper-protocol`), next to its own null control, so that anyone sees what it measures.
//!
//! Each set gets a new draw of U, and with it new weights and a new projection; each is normalised with its own pixel
//! statistics; the loss is a mean over the batch; and a small network, trained for one step on the first batch of ID images,
//! stands before the projection. That network is shared by the sets here, which is kinder than drawing it anew. The null
//! control is the ID set against itself, the second time as any other set: with a draw of its own.

use fidgp::Key;
use fidgp::ood::{ResidualHead, Ridge, Subspace};
use fidgp_metrics::OodScores;
use tch::{Kind, Tensor};

use super::inducing::Inducing;
use super::observe::{ModelObserver, WeightChoice};
use super::scores::COMPAT_HIDDEN;
use crate::error::{LabError, Result};
use crate::predict::Trained;
use crate::record::ood::PaperProtocol;

/// How often the whole procedure is done.
const REPEATS: u64 = 5;
/// Most images of a set.
pub const IMAGES: usize = 1000;
/// The layers that the paper scores, where they are Bayesian.
const SCORED: [&str; 2] = ["layer2.1.conv2", "layer4.1.conv2"];
/// Draws of U are counted from here, away from those of other scores.
const FIRST_DRAW: u64 = 1 << 20;

/// Runs it on ID pixels and those of the other sets.
///
/// # Errors
/// When scoring fails. The model must have a U.
pub fn run(
    predictor: &Trained,
    id: &Tensor,
    sets: &[(String, Tensor)],
    batch: usize,
    seed: u64,
) -> Result<PaperProtocol> {
    let procedure = Procedure { predictor, batch };
    let (mut null, mut layers) = (Vec::new(), Vec::new());
    let mut found: Vec<(String, Vec<f64>)> = sets.iter().map(|(name, _)| (name.clone(), Vec::new())).collect();
    for repeat in 0..REPEATS {
        let draw = |set: u64| FIRST_DRAW + repeat * 1000 + set;
        let observer = procedure.observer(draw(0), None)?;
        let heads = procedure.heads(&observer, id, Key::new(seed).fold("paper protocol").at(repeat))?;
        let kept = procedure.score(&observer, &heads, id)?;
        let against = |scores: &[f64]| Ok::<_, LabError>(OodScores::new(&kept, scores)?.auroc());
        null.push(against(&procedure.score(&procedure.observer(draw(1), None)?, &heads, id)?)?);
        for (i, (_, pixels)) in (2..).zip(sets) {
            let observer = procedure.observer(draw(i), Some(pixels))?;
            found[i as usize - 2].1.push(against(&procedure.score(&observer, &heads, pixels)?)?);
        }
        layers = scored(&observer).map(|(_, layer)| layer.name.clone()).collect();
    }
    let passed = null.iter().all(|auroc| auroc.total_cmp(&0.5).is_eq());
    Ok(PaperProtocol { layers, images: id.size()[0] as usize, null, sets: found, passed })
}

struct Procedure<'a> {
    predictor: &'a Trained,
    batch: usize,
}

impl<'a> Procedure<'a> {
    /// A draw of U of its own, and the normalisation of the given pixels (the model's own for none).
    fn observer(&self, draw: u64, pixels: Option<&Tensor>) -> Result<ModelObserver<'a>> {
        let observer = ModelObserver::new(self.predictor, WeightChoice::Draw(draw), 0, true)?;
        let own = self.predictor.model.normalisation.as_ref();
        Ok(match pixels.zip(own) {
            Some((pixels, own)) => {
                let (mean, sd) = channel_statistics(pixels)?;
                observer.with_normalisation(own.with(&mean, &sd))
            }
            None => observer,
        })
    }

    /// One small network for each layer, after one step on the first batch.
    fn heads(&self, observer: &ModelObserver, id: &Tensor, key: Key) -> Result<Vec<ResidualHead>> {
        let first = id.narrow(0, 0, id.size()[0].min(self.batch as i64));
        let products = observer.products(&first)?;
        let head = |(i, layer): (usize, &Inducing)| {
            let z = &products[i] / first.size()[0] as f64;
            let key = key.fold(&layer.name);
            let head = ResidualHead::init(z.size()[1], COMPAT_HIDDEN, layer.u.size()[1], z.device(), key);
            Ok(head.one_step(&z, &Subspace::softened(&layer.u, Ridge::COMPAT)?)?)
        };
        scored(observer).map(head).collect()
    }

    /// The mean over layers of `‖(I − P)f‖`.
    fn score(&self, observer: &ModelObserver, heads: &[ResidualHead], pixels: &Tensor) -> Result<Vec<f64>> {
        let subspace = |(_, layer): (usize, &Inducing)| Subspace::softened(&layer.u, Ridge::COMPAT);
        let subspaces = scored(observer).map(subspace).collect::<fidgp::Result<Vec<_>>>()?;
        let mut scores = Vec::new();
        for part in pixels.split(self.batch as i64, 0) {
            let products = observer.products(&part)?;
            let mut own = Vec::new();
            for (((i, _), head), subspace) in scored(observer).zip(heads).zip(&subspaces) {
                let z = &products[i] / part.size()[0] as f64;
                let score = tch::no_grad(|| subspace.score(&head.forward(&z)?))?;
                own.push(score.to_device(tch::Device::Cpu).to_kind(Kind::Double));
            }
            scores.extend(Vec::<f64>::try_from(Tensor::stack(&own, 0).mean_dim(0, false, Kind::Double))?);
        }
        Ok(scores)
    }
}

/// The layers scored, with their places: the paper's, or all where it has none of them.
fn scored<'a>(observer: &'a ModelObserver) -> impl Iterator<Item = (usize, &'a Inducing)> {
    let any = observer.inducing.iter().any(|layer| SCORED.contains(&layer.name.as_str()));
    observer.inducing.iter().enumerate().filter(move |(_, layer)| !any || SCORED.contains(&layer.name.as_str()))
}

/// Mean and deviation of each channel, on the scale where 255 is 1.
fn channel_statistics(pixels: &Tensor) -> Result<(Vec<f64>, Vec<f64>)> {
    let x = pixels.to_kind(Kind::Double) / 255.0;
    let over = [0_i64, 2, 3];
    let mean = x.mean_dim(over.as_slice(), true, Kind::Double);
    let sd = (&x - &mean).square().mean_dim(over.as_slice(), false, Kind::Double).sqrt().clamp_min(1e-3);
    Ok((Vec::try_from(mean.reshape([-1]))?, Vec::try_from(sd)?))
}
