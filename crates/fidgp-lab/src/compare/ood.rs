//! Out-of-distribution scores of every run of a comparison, by the benchmark of `fidgp ood` and with its controls.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::Plan;
use crate::config::RunConfig;
use crate::error::{LabError, Result};
use crate::files::OOD_FOLDER;
use crate::ood::{self, Settings, WeightChoice};
use crate::predict::Trained;
use crate::record::write_atomically;
use crate::report::pages;

/// AUROC by set and score.
pub type Aurocs = BTreeMap<String, BTreeMap<String, f64>>;

/// What is known of a run out of distribution.
pub(super) struct OfRun {
    /// Of the sets of the plan; none where a control failed.
    pub aurocs: Aurocs,
    /// Scores that there are none of, and why.
    pub left_out: Vec<String>,
}

/// ID training images that scores are fitted on, as `fidgp ood` has it.
const FIT: usize = 10_000;
const BATCH: usize = 200;

/// The scores of a run on the sets of the plan: read where they are, else computed. Of the network as it was trained, without
/// a temperature, since its results are. None where a control fails, with a warning: a comparison of many does not end with
/// one.
pub(super) fn of_run(config: &RunConfig, run: &Path, plan: &Plan) -> Result<OfRun> {
    let path = run.join(OOD_FOLDER).join("ood.json");
    let settings = settings(config, run, plan);
    if let Some(found) = read(&path, &settings, config)? {
        return Ok(found);
    }
    let predictor = Trained::as_trained(run, plan.device, Some(&plan.data_root))?;
    let bench = match ood::run(&predictor, &settings, &mut |text| tracing::info!("{text}")) {
        Err(LabError::Refused { why }) => {
            tracing::warn!("{}: no out-of-distribution table, a control failed: {why}", run.display());
            let left_out = vec![format!("every score: a control failed: {why}")];
            return Ok(OfRun { aurocs: Aurocs::new(), left_out });
        }
        other => other?,
    };
    let out = run.join(OOD_FOLDER);
    pages::ood::write(&bench.document, &bench.id, &bench.ood, &out)?;
    write_atomically(&out.join("ood.csv"), bench.document.csv().as_bytes())?;
    bench.document.write(&path)?; // last: what has it is whole
    let lost = || LabError::File { path: path.clone(), why: "does not have the sets it was written for".to_owned() };
    read(&path, &settings, config)?.ok_or_else(lost)
}

/// Whether the sets of a plan can be meant for the runs of a config.
///
/// # Errors
/// As [`ood::checked_id`].
pub(super) fn check(config: &RunConfig, plan: &Plan) -> Result<()> {
    ood::checked_id(&config.data, &settings(config, &plan.out, plan)).map(|_| ())
}

/// The benchmark that a plan asks of a run.
fn settings(config: &RunConfig, run: &Path, plan: &Plan) -> Settings {
    let draws = config.predict.draws;
    Settings {
        model: run.display().to_string(),
        id: None,
        ood: plan.ood.clone(),
        near: Vec::new(),
        choose_on: Vec::new(),
        root: plan.data_root.clone(),
        u: WeightChoice::Mean,
        draws: if draws > 1 { draws } else { 0 },
        gradients: true,
        limit: plan.ood_limit.unwrap_or(usize::MAX),
        fit: FIT,
        batch: BATCH,
        seed: 0,
        skip_controls: false,
        command: plan.command.clone(),
        more: crate::ood::More::default(),
    }
}

/// A document that has all of the sets, and that these settings would give.
fn read(path: &Path, settings: &Settings, config: &RunConfig) -> Result<Option<OfRun>> {
    if !path.exists() {
        return Ok(None);
    }
    let document: Value = crate::json::read(path)?;
    if !is_of(&document, settings, config)? {
        tracing::info!("{} is of other images or settings: scored again", path.display());
        return Ok(None);
    }
    let mut found = Aurocs::new();
    for score in document["scores"].as_array().into_iter().flatten() {
        for (set, metrics) in score["sets"].as_object().into_iter().flatten() {
            if let (Some(name), Some(auroc)) = (score["name"].as_str(), metrics["AUROC"].as_f64()) {
                found.entry(set.clone()).or_default().insert(name.to_owned(), auroc);
            }
        }
    }
    let left_out = document["left_out"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let left_out = left_out.map(str::to_owned).collect();
    let all = settings.ood.iter().all(|set| found.contains_key(&ood::sets::shown_name(set)));
    Ok(all.then_some(OfRun { aurocs: found, left_out }))
}

/// Whether a document was made for the same ID set, from as many images of each set, with the same U, draws and seed, with its controls, nothing
/// chosen and no temperature. One from before `limit` was written does not say.
fn is_of(document: &Value, settings: &Settings, config: &RunConfig) -> Result<bool> {
    let as_asked = [
        ("id", json!(ood::checked_id(&config.data, settings)?)),
        ("limit", json!(settings.most_images())),
        ("fit", json!(settings.fit)),
        ("forward_only", json!(!settings.gradients)),
        ("u", json!(settings.u.to_string())),
        ("draws", json!(settings.draws)),
        ("seed", json!(settings.seed)),
        ("controls_skipped", json!(settings.skip_controls)),
        ("chosen", Value::Null),
        ("temperature", Value::Null),
    ];
    Ok(as_asked.iter().all(|(key, value)| document.get(key) == Some(value)))
}
