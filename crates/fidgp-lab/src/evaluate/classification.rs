//! Metrics of a classification.

use fidgp::layer::Network;
use fidgp::predict::{self, Batch, Classified, Draws, Effort, PredictiveLaw};
use fidgp_metrics::recalibration::Recalibration;
use fidgp_metrics::{Predictions, ReliabilityTable, RiskCoverage, names};
use tch::{Kind, Tensor};

use crate::error::Result;
use crate::model::{OwnPart, recalibrated};
use crate::record::{Classification, Examples, MetricNotes, Metrics};
use crate::source::Chunks;

/// Bins of the calibration errors.
pub const BINS: usize = 15;

/// Predictions of a labelled set, and what follows from them.
#[derive(Debug)]
pub struct Evaluation {
    /// Mean probabilities and the uncertainty of each input.
    pub classified: Classified,
    /// Metric values.
    pub metrics: Metrics,
    /// What must be said with them.
    pub notes: MetricNotes,
    /// NLL and accuracy of each input.
    pub examples: Examples,
    /// The tables of the figures.
    pub figure: Classification,
}

/// Classifies a set, of which `part` is in the chunks, and measures the result, its probabilities mapped where there is a map.
/// Memory is bounded: draws are taken as many at a time as have 1 GiB of weights, and a set on disk part by part.
///
/// # Errors
/// When an image cannot be read, does not fit the network, or a probability is not finite.
pub fn classify(mut draws: Draws, chunks: Chunks, part: &OwnPart, map: Option<&Recalibration>) -> Result<Evaluation> {
    let (mut parts, mut labels) = (Vec::new(), Vec::new());
    draws.first_batch += part.own.start as u64;
    for chunk in chunks {
        let (batches, truth) = chunk?;
        let found = predict::classify(&draws, &batches, Some(&truth))?;
        parts.push(match map {
            Some(map) => recalibrated(found, map)?,
            None => found,
        });
        labels.push(truth);
        draws.first_batch += batches.len() as u64;
    }
    measure_all(&parts, &labels, part)
}

/// The same for a law that needs no draws of the weights, batch by batch.
///
/// # Errors
/// As [`classify`].
pub fn classify_by(
    law: &mut dyn PredictiveLaw,
    network: &dyn Network,
    chunks: Chunks,
    part: &OwnPart,
) -> Result<Evaluation> {
    let (mut parts, mut labels, mut number) = (Vec::new(), Vec::new(), part.own.start as u64);
    for chunk in chunks {
        let (batches, truth) = chunk?;
        for inputs in &batches {
            parts.push(law.classify(network, Batch { inputs, number }, Effort::default())?.0);
            number += 1;
        }
        labels.push(truth);
    }
    measure_all(&parts, &labels, part)
}

/// Measures what all processes have seen.
fn measure_all(parts: &[Classified], labels: &[Tensor], part: &OwnPart) -> Result<Evaluation> {
    let (own, labels) = (Classified::joined(parts)?, Tensor::cat(labels, 0));
    let (all, labels) = gathered(&own, &labels, part)?;
    measure(all, &labels)
}

/// What all processes have seen, in the order of the examples: every number of an example in one row.
fn gathered(own: &Classified, labels: &Tensor, part: &OwnPart) -> Result<(Classified, Tensor)> {
    let columns = [&own.total, &own.aleatoric, &own.epistemic, labels].into_iter().chain(&own.mean_nll);
    let columns = columns.map(|column| column.to_device(own.probs.device()).to_kind(Kind::Double).unsqueeze(1));
    let table: Vec<_> = std::iter::once(own.probs.to_kind(Kind::Double)).chain(columns).collect();
    let (table, classes) = (part.gathered(&Tensor::cat(&table, 1), "predictions")?, own.probs.size()[1]);
    let column = |number: i64, like: &Tensor| table.select(1, classes + number).to_kind(like.kind());
    let all = Classified {
        probs: table.narrow(1, 0, classes).to_kind(own.probs.kind()),
        total: column(0, &own.total),
        aleatoric: column(1, &own.aleatoric),
        epistemic: column(2, &own.epistemic),
        mean_nll: own.mean_nll.as_ref().map(|nll| column(4, nll)),
    };
    Ok((all, column(3, labels)))
}

fn measure(classified: Classified, labels: &Tensor) -> Result<Evaluation> {
    let classes = classified.probs.size()[1] as usize;
    let probs = normalised(&classified.probs)?;
    let labels: Vec<usize> =
        Vec::<i64>::try_from(labels.to_device(tch::Device::Cpu))?.into_iter().map(|label| label as usize).collect();
    let predictions = Predictions::new(&probs, classes, &labels)?;
    let metrics = metrics(&predictions, &classified)?;
    let figure = Classification::new(&predictions, BINS)?;
    let bins = |name: &str| (name.to_owned(), [("bins".to_owned(), BINS.into())].into());
    let notes = [bins(names::CAL_ECE), bins(names::CAL_ADAPTIVE_ECE)].into();
    Ok(Evaluation { classified, metrics, notes, examples: examples(&predictions), figure })
}

fn examples(predictions: &Predictions) -> Examples {
    let nll = predictions.rows().map(|(row, label)| -row[label].max(f64::MIN_POSITIVE).ln());
    let right = predictions.top_labels().map(|(_, right)| f64::from(u8::from(right)));
    Examples([(names::CLS_NLL.to_owned(), nll.collect()), (names::CLS_ACC.to_owned(), right.collect())].into())
}

/// Probabilities in f64 that sum to one in f64.
fn normalised(probs: &Tensor) -> Result<Vec<f64>> {
    let probs = probs.to_kind(Kind::Double);
    let probs = &probs / probs.sum_dim_intlist(-1, true, Kind::Double);
    Ok(Vec::try_from(probs.reshape([-1]).to_device(tch::Device::Cpu))?)
}

fn metrics(predictions: &Predictions, classified: &Classified) -> Result<Metrics> {
    let mean = |tensor: &Tensor| tensor.mean(Kind::Double).double_value(&[]);
    let risk = RiskCoverage::new(&predictions.confidences(), &predictions.errors())?;
    let entries = [
        (names::CLS_ACC, predictions.accuracy()),
        (names::CLS_NLL, predictions.nll()),
        (names::CLS_NLL_PER_DRAW, classified.mean_nll.as_ref().map_or(f64::NAN, mean)),
        (names::CLS_BRIER, predictions.brier()),
        (names::CAL_ECE, ReliabilityTable::equal_width(predictions, BINS)?.ece().value),
        (names::CAL_ADAPTIVE_ECE, ReliabilityTable::equal_mass(predictions, BINS)?.ece().value),
        (names::SC_AURC, risk.aurc()),
        (names::SC_AUGRC, risk.augrc()),
        (names::SC_COVERAGE_AT_5_RISK, risk.coverage_at_risk(0.05)),
        (names::SC_RISK_AT_80_COVERAGE, risk.risk_at_coverage(0.8)?),
        (names::CLS_ENTROPY, mean(&classified.total)),
        (names::ENS_ENTROPY, mean(&classified.aleatoric)),
        (names::ENS_MI, mean(&classified.epistemic)),
    ];
    // a law that has no draws has no NLL of each of them
    let entries =
        entries.into_iter().filter(|(name, _)| *name != names::CLS_NLL_PER_DRAW || classified.mean_nll.is_some());
    Ok(entries.map(|(name, value)| (name.to_owned(), value.is_finite().then_some(value))).collect())
}
