//! Segmentation: a class for every pixel.

use std::path::Path;
use std::time::Instant;

use fidgp::Key;
use fidgp::predict::Segmented;
use fidgp_data::PairSet;
use fidgp_metrics::names;
use tch::Tensor;

use super::members::{Place, Training};
use super::{Setting, TrainedOn, blank_results};
use crate::config::{PairSets, RunConfig, SegmentationConfig, Select};
use crate::error::{LabError, Result};
use crate::evaluate::{EachSegmented, PixelEvaluation, segment_set};
use crate::maps::{MAPS_FOLDER, panels};
use crate::model::{Model, Signature};
use crate::predict::Predictor;
use crate::record::{Examples, Figure, Results, Time, write_atomically};
use crate::source::{Joint, PairSource, Source};
use crate::train::Watch;

/// Test pictures that are drawn as maps.
const MAPS: usize = 6;

/// Trains, evaluates and draws.
pub fn run(
    config: &RunConfig,
    pairs: &SegmentationConfig,
    setting: &Setting,
    watch: &mut dyn Watch,
) -> Result<Option<Results>> {
    let sets = pairs.open(&setting.data_root)?;
    if sets.validation.is_none() && config.train.select == Select::Best {
        let why =
            format!("= {} leaves no validation picture; train.select = \"best\" needs some", pairs.validation_fraction);
        return Err(LabError::config("data.validation_fraction", why));
    }
    let images = TrainedOn { examples: sets.train.rows(), sha256: sets.train.fingerprint() };
    if setting.resume {
        super::same_classes(&setting.run, &sets.train.class_names)?;
        super::same_examples(&setting.run, &images)?;
    }
    let signature = Signature::of_pairs(config, pairs);
    let model = Model::init(config, &signature, setting.device)?;
    let train = source(&sets.train, pairs, &model, setting)?;
    if config.start.is_some() && !setting.resume {
        super::start::run(config, &model, &signature, &train)?;
    }
    let validation = sets.validation.as_ref().map(|set| source(set, pairs, &model, setting)).transpose()?;
    let _lock = super::open_folder(config, setting, &model, train.observations())?;
    super::write_classes(&setting.run, &sets.train.class_names)?;
    if !setting.resume {
        super::keep_examples(&setting.run, &images)?;
    }
    let validate = |model: &Model| -> Result<f64> {
        let Some(set) = &validation else { return Ok(f64::INFINITY) };
        let draws = config.predict.validation_draws;
        let evaluation = measure(config, model, (set, &sets.train.class_names), draws, &mut |_, _, _| Ok(()))?;
        Ok(evaluation.metrics.get(names::SEG_NLL).copied().flatten().unwrap_or(f64::INFINITY))
    };
    let training = Training {
        config,
        model: &model,
        signature: &signature,
        source: &train,
        validate: validation.is_some().then_some(&validate),
        stop: setting.stop,
        go_on: &setting.go_on,
    };
    let Some(outcome) = training.run(&Place::of(setting), watch)? else { return Ok(None) };
    watch.says(&format!("measuring {} test pictures, passes of each: {}", sets.test.rows(), config.passes()));
    let (mut results, examples) = assess(config, pairs, setting, &model, &sets, Some(&setting.run))?;
    examples.write(&setting.run)?;
    results.time = Time { predict_seconds: results.time.predict_seconds, ..super::training_time(config, &outcome) };
    Ok(Some(results))
}

/// Measures a trained network.
pub fn evaluate(predictor: &Predictor, pairs: &SegmentationConfig, setting: &Setting) -> Result<Results> {
    let Predictor { config, model, .. } = predictor;
    let sets = pairs.open(&setting.data_root)?;
    super::same_classes(&setting.run, &sets.train.class_names)?;
    super::as_many_classes(predictor, &sets.train.class_names)?;
    Ok(assess(config, pairs, setting, model, &sets, None)?.0)
}

/// Metrics on the test pictures, also one by one, and beside them on the validation pictures; maps of some, where a folder
/// for them is given.
fn assess(
    config: &RunConfig,
    pairs: &SegmentationConfig,
    setting: &Setting,
    model: &Model,
    sets: &PairSets,
    run: Option<&Path>,
) -> Result<(Results, Examples)> {
    let mut results = blank_results(config, setting, model)?;
    let classes = &sets.train.class_names;
    let test = source(&sets.test, pairs, model, setting)?;
    let (names, draws) = (test.names(), config.predict.draws);
    let drawn: Vec<usize> = (0..MAPS.min(names.len())).map(|i| i * names.len() / MAPS.min(names.len())).collect();
    let mut maps = Vec::new();
    let mut drawing = 0.0;
    let started = Instant::now();
    let mut tested = measure(config, model, (&test, classes), draws, &mut |first, segmented, masks| {
        let Some(run) = run else { return Ok(()) };
        let began = Instant::now();
        let count = masks.size()[0] as usize;
        for &row in drawn.iter().filter(|row| (first..first + count).contains(row)) {
            let name = format!("{}.png", names[row]);
            draw(run, &name, &test.picture(row)?, segmented, (row - first) as i64, masks)?;
            maps.push(name);
        }
        drawing += began.elapsed().as_secs_f64();
        Ok(())
    })?;
    results.time.predict_seconds = Some(started.elapsed().as_secs_f64() - drawing);
    tested.figure.maps = maps;
    results.metrics = tested.metrics;
    results.test_sha256 = Some(sets.test.fingerprint());
    results.metric_notes = tested.notes;
    results.published = super::paper::of(config, pairs);
    results.figures = vec![Figure::Segmentation(Box::new(tested.figure))];
    if let Some(set) = &sets.validation {
        let set = source(set, pairs, model, setting)?;
        let chosen = measure(config, model, (&set, classes), draws, &mut |_, _, _| Ok(()))?.metrics;
        results.metrics.extend(chosen.into_iter().map(|(name, value)| (format!("validation/{name}"), value)));
    }
    Ok((results, tested.examples))
}

fn draw(run: &Path, name: &str, picture: &Tensor, segmented: &Segmented, index: i64, masks: &Tensor) -> Result<()> {
    let map = panels(picture, segmented, index, Some(&masks.get(index)))?;
    Ok(write_atomically(&run.join(MAPS_FOLDER).join(name), &map.to_png()?)?)
}

fn source(set: &PairSet, pairs: &SegmentationConfig, model: &Model, setting: &Setting) -> Result<PairSource> {
    let normalisation = model.normalisation.as_ref();
    let normalisation = normalisation.ok_or_else(|| LabError::config("network", "has no normalisation"))?;
    PairSource::new(set.clone(), Joint::of(pairs), normalisation, setting.device)
}

/// Segments a set with K draws.
fn measure(
    config: &RunConfig,
    model: &Model,
    set: (&PairSource, &[String]),
    draws: u64,
    each: &mut EachSegmented,
) -> Result<PixelEvaluation> {
    let key = Key::new(config.seed).fold("predict");
    segment_set(model, (&config.predict, draws), key, set, each)
}
