//! Whether two configs differ by more than chance: on other data (splits or test examples), and under other seeds.

use fidgp_metrics::{Bootstrap, names, paired_difference, paired_difference_of_splits};

use super::Finished;
use crate::config::{DataConfig, RunConfig, UciSplits};
use crate::error::Result;
use crate::record::SplitMetrics;
use crate::record::comparison::{Difference, Units};

/// Fewer pairs than this say nothing about chance.
const LEAST_PAIRS: usize = 3;
/// Resamples of the pairs.
const RESAMPLES: usize = 2000;
/// What is compared, where both configs have it.
const COMPARED: [&str; 8] = [
    names::CLS_ACC,
    names::CLS_NLL,
    names::SEG_PIXEL_ACC,
    names::SEG_NLL,
    names::CAL_ECE,
    names::REG_RMSE,
    names::REG_NLL,
    names::REG_CRPS,
];

/// Every config but the first against the first.
pub(super) fn against_first(configs: &[RunConfig], finished: &[Vec<Finished>]) -> Result<Vec<Difference>> {
    let mut all = Vec::new();
    let Some((reference, others)) = finished.split_first() else { return Ok(all) };
    let splits = match &configs[0].data {
        DataConfig::Uci { splits, .. } => *splits,
        _ => UciSplits::default(),
    };
    for (config, runs) in configs[1..].iter().zip(others) {
        for metric in COMPARED {
            for (a, b, units) in pairs(runs, reference, metric) {
                let settings = Bootstrap { resamples: RESAMPLES, ..Bootstrap::seeded(0) };
                let compared = || match units {
                    Units::Splits => paired_difference_of_splits(&a, &b, settings.level, splits.test_per_train()),
                    Units::Examples | Units::Seeds => paired_difference(&a, &b, &settings),
                };
                let found = (a.len() >= LEAST_PAIRS).then(compared).transpose()?;
                all.push(Difference {
                    name: config.name.clone(),
                    reference: configs[0].name.clone(),
                    metric: metric.to_owned(),
                    mean: a.iter().zip(&b).map(|(a, b)| a - b).sum::<f64>() / a.len() as f64,
                    interval: found.map(|found| found.interval),
                    rule: found.map(|found| found.rule),
                    pairs: a.len(),
                    units,
                });
            }
        }
    }
    Ok(all)
}

/// A metric of all units of some kind, in order; none where a run does not have them.
type Values = fn(&[Finished], &str) -> Option<Vec<f64>>;

/// Matched values of both by each unit that both have; a single seed is none.
fn pairs(runs: &[Finished], reference: &[Finished], metric: &str) -> Vec<(Vec<f64>, Vec<f64>, Units)> {
    let by: [(Values, Units); 3] = [(by_split, Units::Splits), (by_example, Units::Examples), (by_seed, Units::Seeds)];
    let matched = |(values, units): (Values, Units)| {
        let (a, b) = (values(runs, metric)?, values(reference, metric)?);
        let least = if units == Units::Seeds { 2 } else { 1 };
        (a.len() == b.len() && a.len() >= least).then_some((a, b, units))
    };
    by.into_iter().filter_map(matched).collect()
}

fn by_split(runs: &[Finished], metric: &str) -> Option<Vec<f64>> {
    let of_split = |split: &SplitMetrics| split.metrics.get(metric).copied().flatten();
    over_seeds(runs, |finished| finished.run.results.splits.as_ref()?.runs.iter().map(of_split).collect())
}

/// Mean over seeds for each example of a test set that all seeds share.
fn by_example(runs: &[Finished], metric: &str) -> Option<Vec<f64>> {
    over_seeds(runs, |finished| finished.examples.as_ref()?.0.get(metric).cloned())
}

/// Seeds share splits and examples, so they are no pairs of their own: their mean is one.
fn over_seeds(runs: &[Finished], values: impl Fn(&Finished) -> Option<Vec<f64>>) -> Option<Vec<f64>> {
    let mut sums: Option<Vec<f64>> = None;
    for finished in runs {
        let values = values(finished)?;
        let sums = sums.get_or_insert_with(|| vec![0.0; values.len()]);
        if sums.len() != values.len() {
            return None;
        }
        sums.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value / runs.len() as f64);
    }
    sums
}

fn by_seed(runs: &[Finished], metric: &str) -> Option<Vec<f64>> {
    runs.iter().map(|finished| finished.run.results.metrics.get(metric).copied().flatten()).collect()
}
