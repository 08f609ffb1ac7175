//! From scores to the table, and the choice of one recipe among many on sets that are not in it.

use std::collections::BTreeMap;

use fidgp_metrics::OodScores;
use rayon::prelude::*;

use super::combine::{Combined, recipes};
use super::heldout::HELD_OUT;
use super::scorer::about;
use super::scores::OodScore;
use crate::error::{LabError, Result};
use crate::record::ood::{Columns, Recipe};
use crate::record::{Chosen, Group, OodMetrics, OodScoreRecord, OodSetRecord};

/// The name of the chosen score.
pub const CHOSEN: &str = "chosen";
/// What it is.
const CHOSEN_IS: &str = "the recipe chosen on the validation sets";

/// What a recipe is chosen on: sets against the ID images, and images of held-out classes against the rest of them.
#[derive(Debug, Default)]
pub struct Choice {
    /// Scores of the ID images.
    pub id: Columns,
    /// Scores of the sets.
    pub sets: Vec<(String, Columns)>,
    /// Scores of kept and held-out images; empty for none.
    pub folds: Vec<(Columns, Columns)>,
}

impl Choice {
    /// Mean AUROC of a recipe over the sets; the folds together are one of them.
    fn auroc(&self, made: &Combined) -> Result<f64> {
        let kept = made.score(&self.id)?;
        let auroc = |id: &[f64], ood: &[f64]| Ok::<_, LabError>(OodScores::new(id, ood)?.auroc());
        let sets = self.sets.iter().map(|(_, columns)| auroc(&kept, &made.score(columns)?));
        let mut each = sets.collect::<Result<Vec<_>>>()?;
        let folds = self.folds.iter().map(|(kept, out)| auroc(&made.score(kept)?, &made.score(out)?));
        let folds = folds.collect::<Result<Vec<_>>>()?;
        each.extend((!folds.is_empty()).then(|| folds.iter().sum::<f64>() / folds.len() as f64));
        Ok(each.iter().sum::<f64>() / each.len().max(1) as f64)
    }

    fn names(&self) -> Vec<String> {
        let folds = (!self.folds.is_empty()).then(|| HELD_OUT.to_owned());
        self.sets.iter().map(|(name, _)| name.clone()).chain(folds).collect()
    }
}

/// The recipe with the largest mean AUROC on validation sets; the first of equals.
///
/// # Errors
/// When there is nothing to choose from, or a score is missing.
pub fn choose(families: &[(String, Vec<String>)], fit: &Columns, on: &Choice) -> Result<(Chosen, Combined)> {
    let mut best: Option<(f64, Recipe, Combined)> = None;
    let all = recipes(families, fit.contains_key("knn"));
    for recipe in &all {
        let made = Combined::fit(recipe, families, fit)?;
        let mean = on.auroc(&made)?;
        if best.as_ref().is_none_or(|(so_far, ..)| mean > *so_far) {
            best = Some((mean, recipe.clone(), made));
        }
    }
    let none =
        || LabError::config("--choose-on", "has nothing to choose from: the model has no layers that can be scored");
    let (auroc, recipe, made) = best.ok_or_else(none)?;
    let chosen = Chosen {
        on: on.names(),
        id_images: on.id.values().next().map_or(0, Vec::len),
        says: recipe.to_string(),
        recipe,
        auroc,
        candidates: all.len(),
    };
    Ok((chosen, made))
}

/// Every score on every set, `more` being those that are not registered.
///
/// # Errors
/// When a set is empty.
pub fn table(
    id: &Columns,
    sets: &[(OodSetRecord, Columns)],
    more: &[&'static OodScore],
    seed: u64,
) -> Result<Vec<OodScoreRecord>> {
    let rows = about(more).into_iter().chain([(CHOSEN, CHOSEN_IS)]);
    let shown: Vec<_> = rows.filter(|(name, _)| id.contains_key(*name)).collect();
    let record = |(name, about): &(&str, &str)| -> Result<OodScoreRecord> {
        let mut metrics = BTreeMap::new();
        for (set, columns) in sets {
            if let Some(ood) = columns.get(*name) {
                metrics.insert(set.name.clone(), OodMetrics::of(&id[*name], ood, seed)?);
            }
        }
        let mean = |group: Group| {
            let own = sets.iter().filter(|(set, _)| set.group == group);
            let values: Vec<f64> = own.filter_map(|(set, _)| Some(metrics.get(&set.name)?.AUROC)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let (nearood, farood) = (mean(Group::NearOod), mean(Group::FarOod));
        Ok(OodScoreRecord { name: (*name).to_owned(), about: (*about).to_owned(), sets: metrics, nearood, farood })
    };
    shown.par_iter().map(record).collect()
}

/// Those scores of a set that stand in a table: not those of single layers.
pub fn headline(columns: &Columns) -> Columns {
    columns.iter().filter(|(name, _)| !name.contains('/')).map(|(name, own)| (name.clone(), own.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ood::Join;

    fn columns(layer: &[f64], energy: &[f64]) -> Columns {
        Columns::from([("variance/a".to_owned(), layer.to_vec()), ("energy".to_owned(), energy.to_vec())])
    }

    /// The layer tells a far set apart and is silent on held-out images, where the energy is right: chosen on both, the recipe
    /// keeps the energy.
    #[test]
    fn held_out_classes_keep_the_choice_from_running_far() {
        let ramp = |from: f64| (0..50).map(|i| from + f64::from(i)).collect::<Vec<_>>();
        let families = [("variance".to_owned(), vec!["a".to_owned()])];
        let id = columns(&ramp(0.0), &ramp(0.0));
        let far = vec![("letters".to_owned(), columns(&ramp(45.0), &ramp(0.0)))];
        let folds = vec![(columns(&ramp(0.0), &ramp(0.0)), columns(&[24.5; 50], &ramp(40.0)))];
        let of = |sets: &[(String, Columns)], folds: &[(Columns, Columns)]| {
            let on = Choice { id: id.clone(), sets: sets.to_vec(), folds: folds.to_vec() };
            choose(&families, &id, &on).unwrap().0
        };
        assert_eq!(of(&far, &[]).recipe.join, Join::Alone);
        let both = of(&far, &folds);
        assert_ne!(both.recipe.join, Join::Alone);
        assert_eq!(both.on, ["letters", HELD_OUT]);
    }

    /// The layer tells the sets apart and the energy does not: a recipe with the layer wins, and says what it was chosen on.
    #[test]
    fn the_best_recipe_on_the_validation_set_is_chosen() {
        let id: Vec<f64> = (0..50).map(f64::from).collect();
        let far: Vec<f64> = (0..50).map(|i| 100.0 + f64::from(i)).collect();
        let energy: Vec<f64> = (0..50).map(|i| f64::from(i % 7)).collect();
        let families = [("variance".to_owned(), vec!["a".to_owned()])];
        let fit = columns(&id, &energy);
        let sets = vec![("letters".to_owned(), columns(&far, &energy))];
        let on = Choice { id: columns(&id, &energy), sets, folds: Vec::new() };
        let (chosen, made) = choose(&families, &fit, &on).unwrap();
        assert_eq!((chosen.auroc, chosen.on, chosen.id_images), (1.0, vec!["letters".to_owned()], 50));
        assert!(made.score(&fit).unwrap().iter().all(|score| score.is_finite()));
        assert!(choose(&[], &fit, &Choice::default()).unwrap_err().to_string().contains("nothing to choose from"));
    }
}
