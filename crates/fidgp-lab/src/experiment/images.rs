//! Image classification.

use std::time::Instant;

use fidgp::Key;
use fidgp_data::{Images, Part, catalogue, split};
use fidgp_metrics::names;

use super::{Logged, Setting, blank_results};
use crate::config::{DataConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::evaluate;
use crate::model::{Model, Signature};
use crate::record::{Figure, Results, Time};
use crate::source::{Augment, ImageSource};
use crate::train::{Fit, Watch};

/// Training, validation and test images of a config.
pub struct Sets {
    /// For fitting.
    pub train: Images,
    /// For choosing; empty without a validation fraction.
    pub validation: Option<Images>,
    /// For reporting.
    pub test: Images,
}

/// Reads the images a config names and holds out its validation part.
///
/// # Errors
/// When a file is missing or broken; the message names it.
pub fn read(config: &RunConfig, setting: &Setting) -> Result<Sets> {
    let DataConfig::Images { name, validation_fraction, limit, .. } = &config.data else {
        return Err(LabError::config("data.set", "must be \"images\""));
    };
    let all = catalogue::images(&setting.data_root, name, Part::Train)?;
    let test = catalogue::images(&setting.data_root, name, Part::Test)?;
    // The validation images depend on the data alone, not on the run's seed: all runs choose on the same ones.
    let holdout = split::stratified(all.labels(), *validation_fraction, 0)?;
    let validation = if holdout.validation.is_empty() { None } else { Some(all.select(&holdout.validation)?) };
    let kept = limit.unwrap_or(usize::MAX).min(holdout.train.len());
    Ok(Sets { train: all.select(&holdout.train[..kept])?, validation, test })
}

/// The signature of a network for these images.
pub fn signature(images: &Images) -> Signature {
    Signature::Classification {
        image: images.size().map(|size| size as i64),
        classes: images.class_names().len() as i64,
        statistics: images.channel_statistics(),
    }
}

pub fn run(config: &RunConfig, setting: &Setting, watch: &mut dyn Watch) -> Result<Results> {
    let sets = read(config, setting)?;
    let model = Model::init(config, &signature(&sets.train), setting.device)?;
    let DataConfig::Images { augment, .. } = config.data else { unreachable!("read has checked it") };
    let train = source(&model, &sets.train, augment, setting)?;
    if let Some(begin) = config.start.as_ref().filter(|_| !setting.resume) {
        let statistics = source(&model, &sets.train, Augment::None, setting)?;
        super::start::run(begin, &model, &statistics, config.predict.batch_size)?;
    }
    super::open_folder(config, setting)?;
    let validation =
        sets.validation.as_ref().map(|images| source(&model, images, Augment::None, setting)).transpose()?;
    let validate = |model: &Model| -> Result<f64> {
        let Some(set) = &validation else { return Ok(f64::INFINITY) };
        let evaluation = classify(config, model, set, config.predict.validation_draws)?;
        Ok(evaluation.metrics.get(names::CLS_NLL).copied().flatten().unwrap_or(f64::INFINITY))
    };
    let fit = Fit {
        model: &model,
        config: &config.train,
        seed: config.seed,
        source: &train,
        validate: validation.is_some().then_some(&validate),
        run: Some(setting.run.clone()),
        compute: config.compute(setting.device),
        stop: setting.stop,
    };
    let outcome = fit.run(setting.resume, &mut Logged::new(&setting.run, setting.resume, watch)?)?;
    let mut results = assess(config, setting, &model, &sets)?;
    results.time = Time { predict_seconds: results.time.predict_seconds, ..super::training_time(config, &outcome) };
    Ok(results)
}

/// Measures the network that a run has trained.
pub fn evaluate(config: &RunConfig, setting: &Setting) -> Result<Results> {
    let sets = read(config, setting)?;
    let model = Model::init(config, &signature(&sets.train), setting.device)?;
    super::restore(config, setting, &model)?;
    assess(config, setting, &model, &sets)
}

/// Metrics on the test images, and beside them on the validation images.
fn assess(config: &RunConfig, setting: &Setting, model: &Model, sets: &Sets) -> Result<Results> {
    let mut results = blank_results(config, setting, model)?;
    let started = Instant::now();
    let tested = measure(config, setting, model, &sets.test)?;
    results.time.predict_seconds = Some(started.elapsed().as_secs_f64());
    results.metrics = tested.metrics;
    results.metric_notes = tested.notes;
    results.figures = vec![Figure::Classification(tested.figure)];
    if let Some(images) = &sets.validation {
        let chosen = measure(config, setting, model, images)?.metrics;
        results.metrics.extend(chosen.into_iter().map(|(name, value)| (format!("validation/{name}"), value)));
    }
    Ok(results)
}

fn source(model: &Model, images: &Images, augment: Augment, setting: &Setting) -> Result<ImageSource> {
    let normalisation = model.normalisation.as_ref();
    let normalisation = normalisation.ok_or_else(|| LabError::config("network", "has no normalisation"))?;
    Ok(ImageSource::new(images, augment, normalisation, setting.device))
}

fn measure(config: &RunConfig, setting: &Setting, model: &Model, images: &Images) -> Result<evaluate::Evaluation> {
    classify(config, model, &source(model, images, Augment::None, setting)?, config.predict.draws)
}

fn classify(config: &RunConfig, model: &Model, set: &ImageSource, draws: u64) -> Result<evaluate::Evaluation> {
    let key = Key::new(config.seed).fold("predict");
    evaluate::classify(model, &set.batches(config.predict.batch_size), &set.labels, draws, key)
}
