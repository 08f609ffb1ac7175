//! A config's runs in numbers.

use std::collections::BTreeMap;

use fidgp_metrics::{mean, sample_sd};

use super::Finished;
use crate::config::RunConfig;
use crate::error::Result;
use crate::model::prediction_macs;
use crate::record::comparison::{Contender, Spread, TemperedSpread};

/// All configs, in order.
pub(super) fn contenders(configs: &[RunConfig], finished: &[Vec<Finished>]) -> Result<Vec<Contender>> {
    let all = configs.iter().zip(finished).map(|(config, runs)| contender(config, runs));
    let mut all = all.collect::<Result<Vec<_>>>()?;
    let first = all.first().and_then(|first| first.train_seconds).map(|seconds| seconds.mean);
    for contender in &mut all {
        let seconds = contender.train_seconds.map(|seconds| seconds.mean);
        contender.relative_training =
            seconds.zip(first).filter(|(_, first)| *first > 0.0).map(|(own, first)| own / first);
    }
    Ok(all)
}

fn contender(config: &RunConfig, runs: &[Finished]) -> Result<Contender> {
    let results: Vec<_> = runs.iter().map(|finished| &finished.run.results).collect();
    let cost = results[0].cost;
    let names = results[0].metrics.keys().filter(|name| !name.starts_with("validation/"));
    let over_seeds = |name: &String| -> Option<Spread> {
        let values: Option<Vec<_>> =
            results.iter().map(|results| results.metrics.get(name).copied().flatten()).collect();
        spread(&values?)
    };
    let seconds: Option<Vec<_>> = results.iter().map(|results| results.time.train_seconds).collect();
    Ok(Contender {
        name: config.name.clone(),
        method: config.method.name().to_owned(),
        seeds: results.iter().map(|results| results.seed).collect(),
        parameters: cost.parameters,
        bytes: cost.bytes,
        passes: config.passes(),
        macs: prediction_macs(&runs[0].config, 1)? as u64,
        train_seconds: seconds.and_then(|seconds| spread(&seconds)),
        relative_training: None,
        tempered: tempered(runs),
        ood: aurocs(runs),
        ood_left_out: runs.iter().filter_map(|run| run.ood.as_ref()).flat_map(|ood| ood.left_out.clone()).collect(),
        metrics: names.filter_map(|name| Some((name.clone(), over_seeds(name)?))).collect(),
    })
}

/// The metrics that every seed has with its temperature, over seeds.
fn tempered(runs: &[Finished]) -> Option<TemperedSpread> {
    let all: Vec<_> = runs.iter().map(|run| run.tempered.as_ref()).collect::<Option<_>>()?;
    let over_seeds = |name: &String| {
        let values: Option<Vec<f64>> = all.iter().map(|one| one.metrics.get(name).copied()).collect();
        spread(&values?)
    };
    let metrics = all.first()?.metrics.keys().filter_map(|name| Some((name.clone(), over_seeds(name)?)));
    let temperatures: Vec<_> = all.iter().map(|one| one.temperature).collect();
    Some(TemperedSpread {
        temperature: spread(&temperatures)?,
        at_edge: all.iter().any(|one| one.at_edge),
        metrics: metrics.collect(),
    })
}

/// The scores that every seed has, over seeds.
fn aurocs(runs: &[Finished]) -> BTreeMap<String, BTreeMap<String, Spread>> {
    let Some(first) = runs[0].ood.as_ref().map(|ood| &ood.aurocs) else { return BTreeMap::new() };
    let over_seeds = |set: &str, score: &str| {
        let values: Option<Vec<f64>> =
            runs.iter().map(|run| run.ood.as_ref()?.aurocs.get(set)?.get(score).copied()).collect();
        spread(&values?)
    };
    let of_set = |(set, scores): (&String, &BTreeMap<String, f64>)| {
        let scores = scores.keys().filter_map(|score| Some((score.clone(), over_seeds(set, score)?)));
        (set.clone(), scores.collect())
    };
    first.iter().map(of_set).collect()
}

fn spread(values: &[f64]) -> Option<Spread> {
    Some(Spread { mean: mean(values).ok()?, sd: sample_sd(values).ok() })
}
