//! Rules for the pixels of pictures with masks.

use fidgp::Key;
use fidgp::objective::VOID;
use fidgp::predict::Segmented;
use fidgp_decision::Calibration;
use fidgp_decision::fit::{Named, Origin, pixels};
use fidgp_decision::pixels::{DECADES, PixelEvidence, SETTINGS};
use tch::{Device, Kind, Tensor};

use super::{From, Progress, Request};
use crate::config::DataConfig;
use crate::error::{LabError, Result};
use crate::evaluate::{pixel_classes, segment_set};
use crate::experiment::norms;
use crate::experiment::task::{Segmentation, SplitRole, Task};
use crate::predict::Trained;
use crate::run_folder::norms::are_missing;
use crate::run_folder::{same_classes, same_examples};

/// Rules for what a model says of pictures whose masks are known.
pub(super) fn rules(trained: &mut Trained, request: &Request, progress: Progress) -> Result<Calibration> {
    let config = trained.config.clone();
    let DataConfig::Segmentation(pairs) = &config.data else {
        return Err(LabError::config("data.set", "is no segmentation"));
    };
    refuse_others(request)?;
    let task = Segmentation::read(&config, pairs, &request.data)?;
    same_classes(&request.folder, task.classes())?;
    if request.from == From::Validation {
        task.trained_on().map_or(Ok(()), |examples| same_examples(&request.folder, &examples))?;
    }
    if are_missing(&config, &trained.model) {
        let train = task.examples(&trained.model, SplitRole::Measuring)?;
        norms::estimate(&config, &mut trained.model, train.as_ref())?;
    }
    let said = said(&task, trained, request, progress)?;
    let origin = Origin {
        source: request.from.words(&config),
        model_sha256: trained.predicting().digest()?,
        draws: config.predict.draws,
    };
    let named = Named { classes: trained.classes.clone(), ..Named::default() };
    let mut found = pixels(&said, &named, &request.asked, origin)?;
    if request.from == From::Validation && config.train.select == crate::config::Select::Best {
        found.notes.push(
            "the epoch was chosen by these pictures (train.select = \"best\"): the guarantees hold only approximately"
                .to_owned(),
        );
    }
    Ok(found)
}

/// What has no meaning for pixels.
fn refuse_others(request: &Request) -> Result<()> {
    if matches!(request.from, From::Path(_)) {
        let why =
            "must be `validation` or `test` for a segmentation: other pictures need masks in the layout of data.path";
        return Err(LabError::config("--examples", why));
    }
    for (option, given) in [
        ("--target-inputs", request.target_inputs.is_some()),
        ("--ood-inputs", !request.foreign.is_empty()),
        ("--coverage", request.asked.coverage.is_some()),
        ("--wrong-beyond", request.asked.wrong_beyond.is_some()),
        ("--ood-score", request.ood_score.is_some()),
    ] {
        if given {
            return Err(LabError::config(
                option,
                "is not for a segmentation, which gets sets of classes for its pixels",
            ));
        }
    }
    Ok(())
}

fn said(task: &Segmentation, trained: &Trained, request: &Request, progress: Progress) -> Result<Vec<PixelEvidence>> {
    let (model, config) = (&trained.model, &trained.config);
    let Some(set) = task.pictures(request.from == From::Test, model)? else {
        let why = "leaves no validation pictures, and rules are never fitted to those of training: --examples test";
        return Err(LabError::config("data.validation_fraction", why));
    };
    let (all, classes) = (set.names().len(), pixel_classes(model)?);
    let mut said = Vec::new();
    segment_set(
        model,
        (&config.predict, config.predict.draws),
        Key::new(config.seed).fold("predict"),
        (&set, task.classes()),
        (&|_| false, &mut |_, segmented, masks| {
            for picture in 0..masks.size()[0] {
                said.push(evidence(segmented, &masks.get(picture), picture, classes)?);
            }
            progress(said.len(), all);
            Ok(())
        }),
    )?;
    Ok(said)
}

/// How many pixels of each class are found from which threshold on.
fn evidence(segmented: &Segmented, mask: &Tensor, picture: i64, classes: i64) -> Result<PixelEvidence> {
    let mask = mask.to_device(Device::Cpu).to_kind(Kind::Int64).reshape([-1]);
    let probs = segmented.probs.get(picture).to_device(Device::Cpu).to_kind(Kind::Double).reshape([classes, -1]);
    let own = probs.f_gather(0, &mask.clamp(0, classes - 1).unsqueeze(0), false)?.squeeze_dim(0);
    let (last, steps) = (SETTINGS as f64, SETTINGS as i64 + 1);
    let first = (own.log10() * (-last / DECADES)).ceil().clamp(0.0, last).to_kind(Kind::Int64);
    let known = mask.ne(VOID);
    let places = (&mask * steps + first).masked_select(&known);
    let counts = places.f_bincount(None::<&Tensor>, classes * steps)?;
    let counts: Vec<u64> = Vec::<i64>::try_from(counts)?.into_iter().map(i64::unsigned_abs).collect();
    Ok(PixelEvidence { counts: counts.chunks(steps as usize).map(<[u64]>::to_vec).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidgp_decision::pixels::threshold;

    #[test]
    fn pixels_are_counted_at_the_first_threshold_that_finds_them() {
        let probs = Tensor::from_slice(&[0.9, 0.02, 0.3, 1.0, 0.1, 0.98, 0.7, 0.0]).view([1, 2, 1, 4]);
        let fields = || Tensor::zeros([1, 1, 4], (Kind::Double, Device::Cpu));
        let segmented = Segmented { probs, total: fields(), aleatoric: fields(), epistemic: fields() };
        let found = evidence(&segmented, &Tensor::from_slice(&[0_i64, 0, VOID, 1]).view([1, 4]), 0, 2).unwrap();
        assert_eq!(found.counts.iter().map(|of| of.iter().sum::<u64>()).collect::<Vec<_>>(), [2, 1]);
        for (p, class) in [(0.9, 0), (0.02, 0), (0.0, 1)] {
            let setting = (0..=SETTINGS).find(|&setting| threshold(setting) <= p).unwrap();
            assert_eq!(found.counts[class][setting], 1, "{p}");
        }
    }
}
