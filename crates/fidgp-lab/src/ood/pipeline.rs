//! The observer with everything that was fitted on ID training images: rows in, scores out.

use std::time::{Duration, Instant};

use fidgp::Key;
use fidgp_zoo::baseline::activation::Head;
use tch::{Kind, Tensor};

use super::combine::Combined;
use super::inducing::Inducing;
use super::observe::Observe;
use super::observed::Observed;
use super::scorer::{Scorer, fixed_recipes};
use super::scores::{Given, OodScore};
use super::statistics::{Statistics, StatisticsCache};
use crate::error::{LabError, Result};
use crate::model::OwnPart;
use crate::record::ood::Columns;

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
        self.score_aloud(inputs, batch, "", &mut |_| {})
    }

    /// The same; `say` hears how far it is, and what is done.
    pub fn score_aloud(&self, inputs: &Tensor, batch: usize, name: &str, say: &mut dyn FnMut(&str)) -> Result<Scored> {
        let batches = inputs.split(batch as i64, 0);
        let own = self.observer.parts().part(batches.len());
        let mut pace = Pace::new(format!("scoring {name}"), own.rows(batch, inputs.size()[0] as usize).len() as i64);
        let (mut columns, mut logits, mut features) = (Columns::new(), Vec::new(), Vec::new());
        for part in &batches[own.own.clone()] {
            let seen = self.observer.observe(part)?;
            for (name, values) in self.scorer.score(&seen)? {
                columns.entry(name).or_default().extend(values);
            }
            logits.push(seen.logits.to_kind(Kind::Float));
            features.extend(seen.features.map(|features| features.to_kind(Kind::Float)));
            pace.done(part.size()[0], say);
        }
        say(&format!("scored {name}: {} examples", inputs.size()[0]));
        let mut columns = columns_of_all(columns, &own)?;
        for (name, made) in &self.recipes {
            let score = made.score(&columns)?;
            columns.insert(name.clone(), score);
        }
        let of_all = |tensors: &[Tensor]| {
            Ok::<_, LabError>(own.gathered(&Tensor::cat(tensors, 0), "scores")?.to_kind(Kind::Float))
        };
        let features = (features.len() == logits.len()).then(|| of_all(&features)).transpose()?;
        Ok(Scored { columns, logits: of_all(&logits)?, features })
    }
}

/// The scores of all processes, in the order of the rows.
fn columns_of_all(own: Columns, part: &OwnPart) -> Result<Columns> {
    let rows = own.values().next().map_or(0, Vec::len);
    let row = |row: usize| own.values().map(|column| column[row]).collect();
    let all = part.numbers((0..rows).map(row).collect(), "scores")?;
    Ok(own.into_keys().enumerate().map(|(i, name)| (name, all.iter().map(|row| row[i]).collect())).collect())
}

/// Says now and then how far a long look is, and how long it will take.
struct Pace {
    what: String,
    of: i64,
    done: i64,
    since: Instant,
    said: Instant,
}

impl Pace {
    /// Between two lines at least.
    const EVERY: Duration = Duration::from_secs(10);

    fn new(what: String, of: i64) -> Self {
        Self { what, of, done: 0, since: Instant::now(), said: Instant::now() }
    }

    fn done(&mut self, count: i64, say: &mut dyn FnMut(&str)) {
        self.done += count;
        if self.said.elapsed() < Self::EVERY || self.done >= self.of {
            return;
        }
        self.said = Instant::now();
        let left = self.since.elapsed().as_secs_f64() * (self.of - self.done) as f64 / self.done.max(1) as f64;
        say(&format!("{}: {} of {}, about {left:.0} s left", self.what, self.done, self.of));
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
    let parts = observer.parts();
    let stored = kept.and_then(StatisticsCache::read);
    let stored = stored.filter(|stored| stored.fit_to(&first, fit.rows.size()[0], fit.labels));
    let everywhere = parts.all(stored.is_some(), "whether statistics are kept")?;
    let stored = match stored.filter(|_| everywhere) {
        Some(stored) => Some((fit_on(&stored)?, stored)).filter(|(scorer, stored)| scorer.knows(&stored.columns)),
        None => None,
    };
    let (statistics, scorer) = if let Some((scorer, stored)) = stored {
        say(&format!("statistics of {} ID training examples read, not fitted again", fit.rows.size()[0]));
        (stored, scorer)
    } else {
        let (rows, of) = (fit.rows.size()[0], first.logits.size()[0].max(1));
        let bytes = first.bytes() as f64 / of as f64 * rows as f64;
        say(&format!(
            "fitting on {rows} ID training examples, of which about {:.0} MB are kept in memory",
            bytes / 1e6
        ));
        let mut seen = Vec::new();
        let own = parts.part(batches.len());
        let mut pace =
            Pace::new("looking at ID training examples".to_owned(), own.rows(fit.batch, rows as usize).len() as i64);
        for batch in &batches[own.own.clone()] {
            seen.push(Observed { products: Vec::new(), ..observer.observe_to_fit(batch)? });
            pace.done(batch.size()[0], say);
        }
        let seen = Observed::join(seen).of_all(&own)?;
        let mut statistics = Statistics::of(&seen, fit.labels, inducing)?;
        let scorer = fit_on(&statistics)?;
        statistics.columns = scorer.score_fitted(&seen)?;
        say(&format!("fitted on {} ID training examples", fit.rows.size()[0]));
        if let Some(kept) = kept.filter(|_| parts.is_first()) {
            match kept.keep(&statistics) {
                Ok(true) => say(&format!("wrote {}: the next benchmark need not fit", kept.path.display())),
                Ok(false) => say(&format!("{} holds fuller statistics and stays as it is", kept.path.display())),
                Err(error) => say(&format!("statistics were not kept: {error}")),
            }
        }
        (statistics, scorer)
    };
    let families = scorer.families();
    let recipes = fixed_recipes(&families, &statistics.columns)?;
    Ok(Pipeline { observer, scorer, recipes, families, fit: statistics })
}
