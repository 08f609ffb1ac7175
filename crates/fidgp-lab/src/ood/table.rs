//! From scores to the table, and the choice of one recipe among many on sets that are not in it.

use std::collections::BTreeMap;

use fidgp_metrics::OodScores;
use rayon::prelude::*;

use super::combine::{Combined, recipes};
use super::heldout::HELD_OUT;
use super::layers::LEVERAGE;
use super::scorer::Columns;
use crate::error::{LabError, Result};
use crate::record::ood::{Base, Join, Layers, Pool, Recipe};
use crate::record::{Chosen, Group, OodMetrics, OodScoreRecord, OodSetRecord};

/// The name of the chosen score.
pub const CHOSEN: &str = "chosen";

/// Scores of the table, in its order, with what they are.
const ABOUT: [(&str, &str); 28] = [
    ("msp", "1 − largest softmax probability (Hendrycks and Gimpel 2017)"),
    ("max-logit", "−largest logit (Hendrycks et al. 2022)"),
    ("energy", "−log-sum-exp of the logits (Liu et al. 2020)"),
    ("entropy", "entropy of the softmax at the one U"),
    ("gen", "generalised entropy, γ = 0.1 (Liu, Lochman and Zach 2023)"),
    ("total-entropy", "entropy of the mean over K draws"),
    ("mutual-information", "epistemic part over K draws"),
    ("odin", "softmax at T = 1000 after a step of 0.0014 against its gradient (Liang, Li and Srikant 2018)"),
    ("gradnorm", "norm of the head's gradient (Huang et al. 2021)"),
    ("react", "energy of features clipped at the 90 % quantile (Sun et al. 2021)"),
    ("scale", "energy of scaled features, 85 % (Xu et al. 2024)"),
    ("ash", "energy of the largest 10 % of the features, scaled: ASH-S (Djurisic et al. 2023)"),
    ("mahalanobis", "distance to the nearest class mean (Lee et al. 2018)"),
    ("relative-mahalanobis", "the same less the distance to all features (Ren et al. 2021)"),
    ("knn", "distance to the k-th neighbour, k a thousandth of the images fitted on (Sun et al. 2022)"),
    ("ddu", "density of class Gaussians, a DDU network's own (Mukhoti et al. 2023)"),
    ("vim", "virtual logit (Wang et al. 2022)"),
    ("compat-residual", "the paper's residual as released, but with one U"),
    ("residual", "share of h·g outside the leading rows of U, mean over layers"),
    ("residual+energy", "energy, and what of the residual exceeds its 95 % quantile on ID train"),
    ("variance", "share of the mean patch that the inducing columns leave, mean over layers: one forward pass"),
    ("variance+energy", "energy, and what of the variance exceeds its 95 % quantile on ID train: one forward pass"),
    ("subspace", "share of the pooled input outside its ID-train quarter, mean over layers: one forward pass"),
    (
        "subspace+energy",
        "energy, and what of the subspace score exceeds its 95 % quantile on ID train: one forward pass",
    ),
    (
        "leverage",
        "variance of a Bayesian linear layer at the pooled input after ID train, mean over layers: one forward pass",
    ),
    ("leverage+energy", "energy, and what of the leverage exceeds its 95 % quantile on ID train: one forward pass"),
    ("leverage+near", "mean of energy and knn, and what of the leverage exceeds that quantile: one forward pass"),
    (CHOSEN, "the recipe chosen on the validation sets"),
];

/// The recipes that stand in every table, whatever is chosen; `near` where there are neighbours.
pub fn fixed_recipes(families: &[(String, Vec<String>)], near: bool) -> Vec<(String, Recipe)> {
    let has = |family: &str| families.iter().any(|(name, _)| name == family);
    let pairs = [("residual", "residual"), ("variance", "variance"), ("subspace", "subspace-4"), (LEVERAGE, LEVERAGE)];
    let recipe = |family: &str, join, base| Recipe {
        family: family.to_owned(),
        layers: Layers::All,
        pool: Pool::Mean,
        join,
        base,
    };
    let own = pairs.iter().filter(|(_, family)| has(family)).flat_map(|(name, family)| {
        [
            ((*name).to_owned(), recipe(family, Join::Alone, Base::Energy)),
            (format!("{name}+energy"), recipe(family, Join::Hinge(0.95), Base::Energy)),
        ]
    });
    let both = ("leverage+near".to_owned(), recipe(LEVERAGE, Join::Hinge(0.95), Base::EnergyNeighbours));
    own.chain((near && has(LEVERAGE)).then_some(both)).collect()
}

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

/// Every score of the table on every set.
///
/// # Errors
/// When a set is empty.
pub fn table(id: &Columns, sets: &[(OodSetRecord, Columns)], seed: u64) -> Result<Vec<OodScoreRecord>> {
    let shown: Vec<_> = ABOUT.iter().filter(|(name, _)| id.contains_key(*name)).collect();
    let record = |(name, about): &&(&str, &str)| -> Result<OodScoreRecord> {
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

/// Those scores of a set that stand in a table.
pub fn headline(columns: &Columns) -> Columns {
    let shown = ABOUT.iter().filter_map(|(name, _)| Some(((*name).to_owned(), columns.get(*name)?.clone())));
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
