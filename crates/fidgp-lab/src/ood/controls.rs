//! What must hold before any number is shown. A protocol that breaks one of these can produce any AUROC at all.
//!
//! | control | breaks when |
//! |---|---|
//! | the same images twice | something is drawn anew for each set: another U, another head |
//! | a part of the images, in the same batches | a score depends on the rest of its set: a normalisation per set |
//! | shuffled and re-batched | a score depends on the batch or its order: train-mode BatchNorm |
//! | two halves of the ID set | the ID set is not one population, or scores depend on the place in the file |

use fidgp_data::split;
use fidgp_metrics::OodScores;
use tch::Tensor;

use crate::error::Result;
use crate::record::ood::{Columns, Control};

/// Largest change of a score by shuffling and re-batching, relative to the score or its spread, whichever is larger.
const REBATCH_BOUND: f64 = 1e-4;
/// Differences below this share of a score or its spread are rounding, and the two count as equal.
const ROUNDING: f64 = 1e-6;
/// Standard errors that two halves may be apart.
const HALVES_BOUND: f64 = 4.0;
/// Images scored again, at least, where there are as many.
const AGAIN: usize = 500;

/// Scores a whole set: inputs and the size of a batch.
pub type Score<'a> = dyn Fn(&Tensor, usize) -> Result<Columns> + 'a;

/// Scores ID images again, as sets of their own, and compares with what they got at first.
///
/// # Errors
/// When scoring fails.
pub fn scored_again(score: &Score, id: &Tensor, first: &Columns, batch: usize) -> Result<Vec<Control>> {
    let rows = id.size()[0] as usize;
    let part = (AGAIN.div_ceil(batch) * batch).min(rows); // whole batches, so that nothing but the set differs
    let same = score(&id.narrow(0, 0, part as i64), batch)?;
    let twice = worst(first, |name, spread| {
        let at_first = &first[name][..part];
        let again = same.get(name)?.iter().zip(at_first);
        let again: Vec<f64> = again.map(|(&b, &a)| if apart(a, b, spread) <= ROUNDING { a } else { b }).collect();
        Some((OodScores::new(at_first, &again).ok()?.auroc() - 0.5).abs().max(if again == at_first {
            0.0
        } else {
            f64::MIN_POSITIVE
        }))
    });
    let changed = |again: &Columns, order: &[usize]| {
        worst(first, |name, spread| {
            let again = again.get(name)?.iter().zip(order);
            Some(again.map(|(&b, &row)| apart(first[name][row], b, spread)).fold(0.0, f64::max))
        })
    };
    let fewer: Vec<usize> = (0..(part / batch / 2 * batch).max(batch.min(part))).collect();
    let alone = changed(&score(&id.narrow(0, 0, fewer.len() as i64), batch)?, &fewer);
    let order: Vec<usize> = split::epoch_order(part, 1, 0).into_iter().take((part * 2).div_ceil(3)).collect();
    let index: Vec<i64> = order.iter().map(|&row| row as i64).collect();
    let odd = if batch > 8 { batch / 3 + 2 } else { batch + 1 };
    let moved = changed(&score(&id.index_select(0, &Tensor::from_slice(&index)), odd)?, &order);
    let control =
        |name: &str, (measured, worst_score): (f64, String), bound: f64, images: usize, cause: &str| Control {
            name: name.to_owned(),
            passed: measured <= bound,
            measured,
            bound,
            worst_score,
            images,
            cause: cause.to_owned(),
        };
    let drawn = "something is drawn anew whenever a set is scored, such as U or a head: use one U for all sets";
    let of_set =
        "a score depends on the other images of its set, such as a normalisation for each set: use the model's own";
    let of_batch =
        "a score depends on its batch, such as BatchNorm in training mode: use evaluation mode and the sum of losses";
    Ok(vec![
        control("the same images twice: distance of AUROC from exactly 1/2", twice, 0.0, part, drawn),
        control("a part of the images: largest relative change of a score", alone, REBATCH_BOUND, fewer.len(), of_set),
        control(
            "shuffled and re-batched: largest relative change of a score",
            moved,
            REBATCH_BOUND,
            order.len(),
            of_batch,
        ),
    ])
}

/// Two halves of the ID set, by one fixed split, against each other.
pub fn halves(first: &Columns) -> Control {
    let rows = first.values().next().map_or(0, Vec::len);
    let order = split::epoch_order(rows, 2, 0);
    let (a, b) = order.split_at(rows / 2);
    let pick = |name: &str, rows: &[usize]| rows.iter().map(|&row| first[name][row]).collect::<Vec<_>>();
    let (measured, worst_score) = worst(first, |name, _| {
        let scores = OodScores::new(&pick(name, a), &pick(name, b)).ok()?;
        Some((scores.auroc() - 0.5).abs() / scores.auroc_null_error())
    });
    Control {
        name: "two halves of the ID set: standard errors of AUROC from 1/2".to_owned(),
        passed: measured <= HALVES_BOUND,
        measured,
        bound: HALVES_BOUND,
        worst_score,
        images: rows,
        cause: "the ID set is not one population: its parts differ in content or in how they were made".to_owned(),
    }
}

/// The largest of a measure over all scores; a score that cannot be measured is infinitely bad.
fn worst(columns: &Columns, measure: impl Fn(&str, f64) -> Option<f64>) -> (f64, String) {
    let each =
        columns.iter().map(|(name, values)| (measure(name, spread(values)).unwrap_or(f64::INFINITY), name.clone()));
    each.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, "no score".to_owned()))
}

/// `|a − b|` relative to the score or its spread.
fn apart(a: f64, b: f64, spread: f64) -> f64 {
    if a.total_cmp(&b).is_eq() { 0.0 } else { (a - b).abs() / a.abs().max(spread).max(f64::MIN_POSITIVE) }
}

fn spread(values: &[f64]) -> f64 {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt()
}
