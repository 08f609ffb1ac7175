//! Metrics of a segmentation, image by image: memory grows neither with K nor with the set.

use std::ops::Range;

use fidgp::Key;
use fidgp::linalg::check_finite;
use fidgp::objective::Reading;
use fidgp::predict::{Segmented, segment, windows};
use fidgp_metrics::{Confusion, names};
use tch::Tensor;

use super::tally::Tally;
use super::{BINS, NOT_FINITE};
use crate::config::PredictConfig;
use crate::error::{LabError, Result};
use crate::model::Model;
use crate::record::{
    Boundary, ClassScore, Classification, ConfidenceHistogram, Examples, MetricNotes, Metrics, Segmentation,
};
use crate::source::PairSource;

/// What follows from the predictions of a set.
#[derive(Debug)]
pub struct PixelEvaluation {
    /// Metric values.
    pub metrics: Metrics,
    /// What must be said with them.
    pub notes: MetricNotes,
    /// NLL and accuracy of each image.
    pub examples: Examples,
    /// The tables of the figures.
    pub figure: Segmentation,
}

/// Images that were just segmented: the first one's number, what was said, their masks.
pub type EachSegmented<'a> = dyn FnMut(usize, &Segmented, &Tensor) -> Result<()> + 'a;

/// The number of classes of a segmentation model.
///
/// # Errors
/// When the model is another.
pub fn pixel_classes(model: &Model) -> Result<i64> {
    match model.likelihood.reading() {
        Reading::Pixels { classes } => Ok(classes),
        _ => Err(LabError::config("likelihood.kind", "must be \"pixels\" for a segmentation")),
    }
}

/// Segments a set with K draws and measures the result; `each` sees every batch of this process, and those with a picture that it
/// `shows`.
///
/// # Errors
/// When a picture cannot be read or does not fit the network, or no pixel has a class.
pub fn segment_set(
    model: &Model,
    (predict, draws): (&PredictConfig, u64),
    key: Key,
    (set, classes): (&PairSource, &[String]),
    (shows, each): (&dyn Fn(Range<usize>) -> bool, &mut EachSegmented),
) -> Result<PixelEvaluation> {
    let count = pixel_classes(model)?;
    let mut draws = model.draws(draws, key)?;
    let mut tally = Tally::new(count, model.store.device());
    let part = model.parts.part(set.batches(predict.batch_size));
    let mut first = 0;
    for (number, batch) in set.whole(predict.batch_size).enumerate() {
        let (x, masks) = batch?;
        let (own, rows) = (part.own.contains(&number), masks.size()[0] as usize);
        if own || shows(first..first + rows) {
            let segmented = tch::no_grad(|| segment(&draws, &x, count, predict.window))?;
            check_finite("probabilities of the pixels", &segmented.probs, NOT_FINITE)?;
            if own {
                tally.add(&segmented, &masks)?;
            }
            each(first, &segmented, &masks)?;
        }
        first += rows;
        draws.first_batch += windows([x.size()[2], x.size()[3]], predict.window) as u64;
    }
    measure(&tally.gathered(&part)?, classes)
}

fn measure(tally: &Tally, classes: &[String]) -> Result<PixelEvaluation> {
    let confusion = tally.confusion()?;
    if confusion.total() == 0 {
        return Err(LabError::config("data", "has no pixel with a class to measure on"));
    }
    let (reliability, risk) = (tally.reliability()?, tally.risk()?);
    let [boundary, interior] = tally.boundary()?;
    let [nll, brier, total, aleatoric, epistemic] = tally.means()?;
    let ratio = |part: fn(&Boundary) -> Option<f64>| Some(part(&boundary)? / part(&interior)?);
    let entries = [
        (names::SEG_MIOU, confusion.mean_iou()),
        (names::SEG_MEAN_ACC, confusion.mean_accuracy()),
        (names::SEG_PIXEL_ACC, confusion.global_accuracy()),
        (names::SEG_NLL, Some(nll)),
        (names::SEG_BRIER, Some(brier)),
        (names::CAL_ECE, Some(reliability.ece().value)),
        (names::SC_AURC, Some(risk.aurc())),
        (names::CLS_ENTROPY, Some(total)),
        (names::ENS_ENTROPY, Some(aleatoric)),
        (names::ENS_MI, Some(epistemic)),
        (names::SEG_BOUNDARY_RATIO, ratio(|part| part.total)),
        (names::SEG_BOUNDARY_RATIO_EPISTEMIC, ratio(|part| part.epistemic)),
    ];
    let finite = |(name, value): (&str, Option<f64>)| (name.to_owned(), value.filter(|value| value.is_finite()));
    let (nll, right) = tally.images()?;
    Ok(PixelEvaluation {
        metrics: entries.into_iter().map(finite).collect(),
        notes: [(names::CAL_ECE.to_owned(), [("bins".to_owned(), BINS.into())].into())].into(),
        examples: Examples([(names::SEG_NLL.to_owned(), nll), (names::SEG_PIXEL_ACC.to_owned(), right)].into()),
        figure: Segmentation {
            classes: scores(&confusion, classes),
            boundary,
            interior,
            pixels: Classification {
                confidence: ConfidenceHistogram::of(&reliability),
                reliability,
                risk_coverage: crate::record::thinned(risk.curve()),
            },
            maps: Vec::new(),
        },
    })
}

fn scores(confusion: &Confusion, classes: &[String]) -> Vec<ClassScore> {
    let score = |(class, name): (usize, &String)| ClassScore {
        name: name.clone(),
        pixels: confusion.pixels(class),
        iou: confusion.iou(class),
        accuracy: confusion.accuracy(class),
    };
    classes.iter().enumerate().map(score).collect()
}
