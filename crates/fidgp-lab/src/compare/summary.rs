//! A config's runs in numbers.

use std::collections::{BTreeMap, BTreeSet};

use fidgp_metrics::{mean, sample_sd};
use serde::Serialize;

use super::Finished;
use crate::config::RunConfig;
use crate::error::Result;
use crate::model::prediction_macs;

/// A mean over seeds, and its deviation where there are several.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Mean over seeds.
    pub mean: f64,
    /// Sample deviation over seeds; none for a single seed.
    pub sd: Option<f64>,
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{:.4}", self.mean)?;
        self.sd.map_or(Ok(()), |sd| write!(f, " ± {sd:.4}"))
    }
}

/// Runs with a temperature, over seeds.
#[derive(Clone, Debug, Serialize)]
pub struct TemperedSpread {
    /// T.
    pub temperature: Spread,
    /// Whether T is an end of the range it is looked for in, for some seed.
    pub at_edge: bool,
    /// Test metrics.
    pub metrics: BTreeMap<String, Spread>,
}

/// One config with all its seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Contender {
    /// Its name.
    pub name: String,
    /// Its method.
    pub method: String,
    /// Its seeds.
    pub seeds: Vec<u64>,
    /// Trainable numbers.
    pub parameters: u64,
    /// Bytes of the stored weights.
    pub bytes: u64,
    /// Weight draws or members of one prediction.
    pub passes: u64,
    /// Multiply-accumulates of one prediction, all passes.
    pub macs: u64,
    /// Measured seconds of training.
    pub train_seconds: Option<Spread>,
    /// Measured training time over that of the first config.
    pub relative_training: Option<f64>,
    /// Test metrics; those that are missing in a seed are left out.
    pub metrics: BTreeMap<String, Spread>,
    /// The same networks with a temperature each, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tempered: Option<TemperedSpread>,
    /// AUROC by OoD set and score; scores that are missing in a seed are left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ood: BTreeMap<String, BTreeMap<String, Spread>>,
    /// OoD scores that there are none of in some seed, and why.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub ood_left_out: BTreeSet<String>,
}

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
