//! The observer with everything that was fitted on ID training images: rows in, scores out.

use fidgp::Key;
use fidgp_zoo::baseline::activation::Head;
use tch::{Kind, Tensor};

use super::combine::Combined;
use super::observe::{Inducing, Observe};
use super::observed::Observed;
use super::scorer::{Columns, Scorer, fixed_recipes};
use super::scores::{Given, OodScore};
use super::statistics::{Statistics, StatisticsCache};
use crate::error::Result;

/// A set with its scores.
pub(super) struct Scored {
    pub columns: Columns,
    pub logits: Tensor,
    pub features: Option<Tensor>,
}

/// The observer, what was fitted, and the fixed recipes.
pub(super) struct Pipeline<'a> {
    pub observer: &'a dyn Observe,
    pub scorer: Scorer,
    pub recipes: Vec<(String, Combined)>,
    /// The layers of each family, in the order of the network.
    pub families: Vec<(String, Vec<String>)>,
    /// What is kept of the ID training rows.
    pub fit: Statistics,
}

impl<'a> Pipeline<'a> {
    /// Scores that need no fitting.
    pub fn unfitted(observer: &'a dyn Observe, more: &[&'static OodScore]) -> Self {
        let (scorer, fit) = (Scorer::unfitted(more), Statistics::default());
        Self { observer, scorer, recipes: Vec::new(), families: Vec::new(), fit }
    }

    pub fn score(&self, inputs: &Tensor, batch: usize) -> Result<Scored> {
        let (mut columns, mut logits, mut features) = (Columns::new(), Vec::new(), Vec::new());
        for part in inputs.split(batch as i64, 0) {
            let seen = self.observer.observe(&part)?;
            for (name, values) in self.scorer.score(&seen)? {
                columns.entry(name).or_default().extend(values);
            }
            logits.push(seen.logits.to_kind(Kind::Float));
            features.extend(seen.features.map(|features| features.to_kind(Kind::Float)));
        }
        for (name, made) in &self.recipes {
            let score = made.score(&columns)?;
            columns.insert(name.clone(), score);
        }
        let features = (features.len() == logits.len()).then(|| Tensor::cat(&features, 0));
        Ok(Scored { columns, logits: Tensor::cat(&logits, 0), features })
    }
}

/// Rows to fit on.
pub(super) struct FitRows<'a> {
    pub rows: &'a Tensor,
    pub labels: &'a [i64],
    pub batch: usize,
    pub seed: u64,
    /// Scores beside the registered ones.
    pub more: &'a [&'static OodScore],
}

/// Fits everything on ID training rows, or takes what is kept of an earlier fit; `say` hears which.
pub(super) fn fitted<'a>(
    observer: &'a dyn Observe,
    fit: &FitRows,
    (head, inducing): (Option<Head>, &[Inducing]),
    kept: Option<&StatisticsCache>,
    say: &mut dyn FnMut(&str),
) -> Result<Pipeline<'a>> {
    let batches = fit.rows.split(fit.batch as i64, 0);
    let first = observer.observe(&batches[0])?;
    let head = head.as_ref();
    let fit_on = |kept: &Statistics| {
        Scorer::fit(&Given { kept, first: &first, head, inducing, key: Key::new(fit.seed) }, fit.more)
    };
    let stored = match kept.and_then(|kept| Statistics::read(&kept.path, &kept.signature)) {
        Some(stored) => Some((fit_on(&stored)?, stored)).filter(|(scorer, stored)| scorer.knows(&stored.columns)),
        None => None,
    };
    let (statistics, scorer) = if let Some((scorer, stored)) = stored {
        say(&format!("statistics of {} ID training examples read, not fitted again", fit.rows.size()[0]));
        (stored, scorer)
    } else {
        let mut parts = Vec::new();
        for batch in &batches {
            parts.push(Observed { products: Vec::new(), ..observer.observe(batch)? });
        }
        let seen = Observed::join(&parts);
        let mut statistics = Statistics::of(&seen, fit.labels, inducing)?;
        let scorer = fit_on(&statistics)?;
        statistics.columns = scorer.score_fitted(&seen)?;
        say(&format!("fitted on {} ID training examples", fit.rows.size()[0]));
        if let Some(kept) = kept {
            match statistics.write(&kept.path, &kept.signature) {
                Ok(()) => say(&format!("wrote {}: the next benchmark need not fit", kept.path.display())),
                Err(error) => say(&format!("statistics were not kept: {error}")),
            }
        }
        (statistics, scorer)
    };
    let families = scorer.families();
    let recipes = fixed_recipes(&families, &statistics.columns)?;
    Ok(Pipeline { observer, scorer, recipes, families, fit: statistics })
}
