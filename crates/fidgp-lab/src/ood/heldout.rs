//! Near sets without other data: each fifth of the classes is taken out of logits and neighbours in turn, and its ID images
//! play the OoD set. The network has seen these classes, so it is easier than a real near set; but nothing else about the
//! images differs, so that a score cannot win by the looks of a set.

use fidgp_data::split;
use fidgp_zoo::baseline::knn::Neighbours;
use fidgp_zoo::baseline::logit_scores::energy;
use tch::{Kind, Tensor};

use super::scores::neighbours_of;
use super::statistics::Statistics;
use crate::error::{LabError, Result};
use crate::record::ood::Columns;

/// The name of these sets in `--choose-on`.
pub const HELD_OUT: &str = "heldout";
/// How many times classes are taken out.
const FOLDS: usize = 5;

/// ID images of a choice, with everything that depends on the classes.
#[derive(Debug)]
pub struct Labelled<'a> {
    /// Their scores.
    pub columns: &'a Columns,
    /// `[N, K]`
    pub logits: &'a Tensor,
    /// `[N, n]`
    pub features: Option<&'a Tensor>,
    /// Their classes.
    pub labels: &'a [i64],
}

/// Scores of the kept and of the held-out images, for each fold in which there are both.
///
/// # Errors
/// When there are no labels, or too few classes.
pub fn folds(id: &Labelled, fit: &Statistics) -> Result<Vec<(Columns, Columns)>> {
    let classes = id.logits.size()[1] as usize;
    if id.labels.len() != id.logits.size()[0] as usize || classes < 2 {
        let why = "needs the classes of the ID images, at least two of them";
        return Err(LabError::config(format!("--choose-on {HELD_OUT}"), why));
    }
    let order = split::epoch_order(classes, 4, 0);
    let folds = order.chunks(classes.div_ceil(FOLDS)).map(|out| fold(id, fit, classes, out));
    let folds = folds.collect::<Result<Vec<_>>>()?;
    let both = |columns: &Columns| columns.values().next().is_some_and(|values| !values.is_empty());
    let folds: Vec<_> = folds.into_iter().filter(|(kept, out)| both(kept) && both(out)).collect();
    if folds.is_empty() {
        return Err(LabError::config(format!("--choose-on {HELD_OUT}"), "found no images of held-out classes"));
    }
    Ok(folds)
}

fn fold(id: &Labelled, fit: &Statistics, classes: usize, out: &[usize]) -> Result<(Columns, Columns)> {
    let is_out = |label: i64| out.contains(&(label as usize));
    let kept: Vec<i64> = (0..classes as i64).filter(|&class| !is_out(class)).collect();
    let mut columns = id.columns.clone();
    let logits = id.logits.index_select(1, &Tensor::from_slice(&kept));
    columns.insert("energy".to_owned(), Vec::try_from(energy(&logits))?);
    let bank = fit.features.as_ref().filter(|bank| bank.size()[0] as usize == fit.labels.len());
    if let (Some(features), Some(bank), true) = (id.features, bank, columns.contains_key("knn")) {
        let rows: Vec<i64> =
            (0_i64..).zip(&fit.labels).filter(|(_, label)| !is_out(**label)).map(|(row, _)| row).collect();
        if rows.is_empty() {
            return Ok((Columns::new(), Columns::new())); // nothing is left to be near to
        }
        let neighbours = Neighbours::fit(&bank.index_select(0, &Tensor::from_slice(&rows)), neighbours_of(bank))?;
        columns.insert("knn".to_owned(), Vec::try_from(neighbours.score(&features.to_kind(Kind::Double))?)?);
    }
    let pick = |wanted: bool| -> Columns {
        let of = |values: &[f64]| {
            let own = values.iter().zip(id.labels).filter(|(_, label)| is_out(**label) == wanted);
            own.map(|(value, _)| *value).collect()
        };
        columns.iter().map(|(name, values)| (name.clone(), of(values))).collect()
    };
    Ok((pick(false), pick(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each image's largest logit is its own class's: with that class taken out its energy rises, and nothing else changes.
    #[test]
    fn held_out_images_lose_their_class() {
        let labels: Vec<i64> = (0..40).map(|i| i % 10).collect();
        let logits = Tensor::from_slice(&labels).one_hot(10).to_kind(Kind::Double) * 8.0;
        let columns = Columns::from([
            ("energy".to_owned(), Vec::try_from(energy(&logits)).unwrap()),
            ("variance/a".to_owned(), (0..40).map(f64::from).collect()),
        ]);
        let id = Labelled { columns: &columns, logits: &logits, features: None, labels: &labels };
        let folds = folds(&id, &Statistics::default()).unwrap();
        assert_eq!(folds.len(), FOLDS);
        let mut seen = Vec::new();
        for (kept, out) in &folds {
            let largest = kept["energy"].iter().copied().fold(f64::MIN, f64::max);
            assert!(out["energy"].iter().all(|energy| *energy > largest + 4.0));
            assert_eq!((kept["energy"].len(), out["energy"].len()), (32, 8));
            seen.extend(out["variance/a"].iter().map(|v| *v as i64));
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..40).collect::<Vec<_>>()); // every image is held out once
        let none = Labelled { labels: &[], ..id };
        assert!(
            super::folds(&none, &Statistics::default()).unwrap_err().to_string().contains("classes of the ID images")
        );
    }
}
