//! Tables are made of columns: a run, a group of seeds, or somebody else's numbers.

use std::collections::{BTreeMap, BTreeSet};

use fidgp_metrics::{mean, sample_sd};

use crate::pages::finished::Run;
use crate::words::{format, metric::words};

/// One number of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// `None`: recorded, but not finite.
    pub value: Option<f64>,
    /// Standard error or deviation.
    pub spread: Option<f64>,
}

impl Cell {
    /// As text; fractions become per cent where the metric says so.
    pub fn text(&self, metric: &str) -> String {
        let Some(value) = self.value else { return "not finite".to_owned() };
        let percent = words(metric).percent;
        let scale = if percent { 100.0 } else { 1.0 };
        let number = match self.spread {
            Some(spread) => format::with_spread(scale * value, scale * spread),
            None if percent => format!("{:.2}", scale * value),
            None => format::plain(value),
        };
        if percent { number + " %" } else { number }
    }
}

/// One column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its heading.
    pub heading: String,
    /// A line below the heading.
    pub note: String,
    /// Somebody else's numbers are set apart and never marked as best.
    pub published: bool,
    /// Metric to number.
    pub cells: BTreeMap<String, Cell>,
}

/// One column per run, with the standard error where there are splits, then the published ones.
pub fn of_runs(runs: &[&Run], headings: &[String]) -> Vec<Column> {
    let own = runs.iter().zip(headings).map(|(run, heading)| of_run(run, heading));
    own.chain(published(runs)).collect()
}

fn of_run(run: &Run, heading: &str) -> Column {
    let results = &run.results;
    let splits = results.splits.as_ref();
    let spread = |metric: &String| splits.and_then(|splits| splits.standard_error.get(metric).copied().flatten());
    let cells =
        results.metrics.iter().map(|(metric, value)| (metric.clone(), Cell { value: *value, spread: spread(metric) }));
    let note = splits.map_or_else(
        || results.method.clone(),
        |splits| format!("{}, {} splits, mean ± s.e.", results.method, splits.runs.len()),
    );
    Column { heading: heading.to_owned(), note, published: false, cells: cells.collect() }
}

fn published(runs: &[&Run]) -> Vec<Column> {
    let mut seen = BTreeSet::new();
    let all = runs.iter().flat_map(|run| &run.results.published);
    let fresh = all.filter(|entry| seen.insert((entry.method.clone(), entry.source.clone())));
    let cell = |(metric, value): (&String, &Option<f64>)| (metric.clone(), Cell { value: *value, spread: None });
    fresh
        .map(|entry| Column {
            heading: entry.method.clone(),
            note: format!("published: {}", entry.source),
            published: true,
            cells: entry.metrics.iter().map(cell).collect(),
        })
        .collect()
}

/// One column per configuration that ran with several seeds: mean and standard deviation.
pub fn over_seeds(runs: &[&Run]) -> Vec<Column> {
    let key = |run: &Run| (run.results.name.clone(), run.results.method.clone());
    let mut groups: Vec<((String, String), Vec<&Run>)> = Vec::new(); // in the order of the runs
    for &run in runs {
        match groups.iter_mut().find(|(name, _)| *name == key(run)) {
            Some((_, group)) => group.push(run),
            None => groups.push((key(run), vec![run])),
        }
    }
    let several = groups.into_iter().filter(|(_, group)| seeds(group).len() > 1 && seeds(group).len() == group.len());
    several
        .map(|((name, method), group)| Column {
            heading: name,
            note: format!("{method}, {} seeds, mean ± s.d.", group.len()),
            published: false,
            cells: group[0].results.metrics.keys().map(|metric| (metric.clone(), seed_cell(&group, metric))).collect(),
        })
        .collect()
}

fn seeds(group: &[&Run]) -> BTreeSet<u64> {
    group.iter().map(|run| run.results.seed).collect()
}

fn seed_cell(group: &[&Run], metric: &str) -> Cell {
    let values: Option<Vec<f64>> = group.iter().map(|run| run.results.metrics.get(metric).copied().flatten()).collect();
    let of =
        |statistic: fn(&[f64]) -> fidgp_metrics::Result<f64>| values.as_ref().and_then(|values| statistic(values).ok());
    Cell { value: of(mean), spread: of(sample_sd) }
}
