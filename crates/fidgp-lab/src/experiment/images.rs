//! Image classification.

use std::time::Instant;

use fidgp::Key;
use fidgp_data::Part;
use fidgp_metrics::names;

use super::members::{Place, Training};
use super::sets::{self, Set, Sets, Use};
use super::settle::{prepare, settle};
use super::{Setting, blank_results, norms};
use crate::config::{Method, RunConfig, Select};
use crate::error::{LabError, Result};
use crate::evaluate;
use crate::model::Model;
use crate::predict::Predictor;
use crate::record::{Examples, Figure, Results, Time};
use crate::source::ImageSet;
use crate::train::Watch;

pub fn run(config: &RunConfig, setting: &Setting, watch: &mut dyn Watch) -> Result<Option<Results>> {
    let sets = Sets::read(config, &setting.data_root)?;
    if setting.resume {
        super::same_classes(&setting.run, sets.train.classes())?;
        super::same_examples(&setting.run, &sets.train.trained_on())?;
    }
    if sets.validation.is_none() && config.train.select == Select::Best {
        let (fraction, images) = (config.data.validation_fraction().unwrap_or(0.0), sets.train.rows());
        let why = format!(
            "= {fraction} leaves no validation image beside {images} for training; train.select = \"best\" needs some"
        );
        return Err(LabError::config("data.validation_fraction", why));
    }
    if let Some(class) = sets.train.class_of_one().filter(|_| config.method == Method::Ddu) {
        let why = format!(
            "= \"ddu\" fits a covariance to each class, and `{class}` has one training image; give it two, or none"
        );
        return Err(LabError::config("method", why));
    }
    let config = &sets.train.filled_in(config);
    let signature = sets.train.signature(config)?;
    let mut model = Model::init(config, &signature, setting.device)?;
    let train = sets.train.source(config, &model, Use::Training, setting.device)?;
    if config.start.is_some() && !setting.resume {
        super::start::run(config, &model, &signature, train.as_ref())?;
    }
    if !setting.resume {
        prepare(config, &model, train.as_ref())?;
    }
    let measured = |set: &Set| set.source(config, &model, Use::Measuring, setting.device);
    let validation = sets.validation.as_ref().map(measured).transpose()?;
    let _lock = super::open_folder(config, setting, &model, train.observations())?;
    super::write_classes(&setting.run, sets.train.classes())?;
    if !setting.resume {
        super::keep_examples(&setting.run, &sets.train.trained_on())?;
    }
    let validate = |model: &Model| -> Result<f64> {
        let Some(set) = &validation else { return Ok(f64::INFINITY) };
        let evaluation = classify(config, model, set.as_ref(), config.predict.validation_draws)?;
        Ok(evaluation.metrics.get(names::CLS_NLL).copied().flatten().unwrap_or(f64::INFINITY))
    };
    let training = Training {
        config,
        model: &model,
        signature: &signature,
        source: train.as_ref(),
        validate: validation.is_some().then_some(&validate),
        stop: setting.stop,
        go_on: &setting.go_on,
    };
    let Some(outcome) = training.run(&Place::of(setting), watch)? else { return Ok(None) };
    let fitting = Instant::now();
    settle(config, &model, train.as_ref(), Some(&setting.run))?;
    norms::estimate(config, &mut model, train.as_ref())?;
    norms::keep(config, &model, &setting.run)?;
    let outcome = outcome.and(fitting.elapsed());
    watch.says(&format!("measuring {} test images, passes of each: {}", sets.test.rows(), config.passes()));
    let (mut results, examples) = assess(config, setting, &model, (&sets.test, sets.validation.as_ref()))?;
    examples.write(&setting.run)?;
    results.time = Time { predict_seconds: results.time.predict_seconds, ..super::training_time(config, &outcome) };
    Ok(Some(results))
}

/// Measures the network that a run has trained; where the training images cannot be read, on the test images alone.
pub fn evaluate(predictor: &mut Predictor, setting: &Setting) -> Result<Results> {
    let sets = match Sets::read(&predictor.config, &setting.data_root) {
        Ok(sets) => Ok(sets),
        Err(error) => {
            let test = sets::part(&predictor.config, &setting.data_root, Part::Test);
            let lacks_norms = norms::are_missing(&predictor.config, &predictor.model);
            let Some(test) = test.ok().filter(|_| !lacks_norms) else { return Err(error) };
            tracing::warn!("only the test images are measured: {error}");
            Err(test)
        }
    };
    let (test, sets) = match &sets {
        Ok(sets) => (&sets.test, Some(sets)),
        Err(test) => (test, None),
    };
    super::same_classes(&setting.run, test.classes())?;
    super::as_many_classes(predictor, test.classes())?;
    let Predictor { config, model, .. } = predictor;
    sets.map_or(Ok(()), |sets| norms::complete(config, model, sets))?;
    let own = |sets: &&Sets| super::same_examples(&setting.run, &sets.train.trained_on()).is_ok();
    let validation = sets.filter(own).and_then(|sets| sets.validation.as_ref());
    if sets.is_some_and(|sets| sets.validation.is_some()) && validation.is_none() {
        // some of them may have been trained on
        tracing::warn!("the training images are not those of the run: nothing is measured on validation images");
    }
    let mut results = assess(config, setting, model, (test, validation))?.0;
    if let Some(temperature) = model.temperature {
        for name in results.metrics.keys() {
            let notes = results.metric_notes.entry(name.clone()).or_default();
            notes.insert("temperature".to_owned(), temperature.into());
        }
    }
    Ok(results)
}

/// Metrics on the test images, also one by one, and beside them on the validation images.
fn assess(
    config: &RunConfig,
    setting: &Setting,
    model: &Model,
    (test, validation): (&Set, Option<&Set>),
) -> Result<(Results, Examples)> {
    let mut results = blank_results(config, setting, model)?;
    let started = Instant::now();
    let tested = measure(config, setting, model, test)?;
    results.time.predict_seconds = Some(started.elapsed().as_secs_f64());
    results.metrics = tested.metrics;
    results.test_sha256 = Some(test.fingerprint());
    results.metric_notes = tested.notes;
    results.figures = vec![Figure::Classification(tested.figure)];
    if let Some(images) = validation {
        let chosen = measure(config, setting, model, images)?.metrics;
        let named = |name: &String| format!("validation/{name}");
        let notes = results.metric_notes.iter().map(|(name, notes)| (named(name), notes.clone())).collect::<Vec<_>>();
        results.metric_notes.extend(notes);
        results.metrics.extend(chosen.into_iter().map(|(name, value)| (named(&name), value)));
    }
    Ok((results, tested.examples))
}

fn measure(config: &RunConfig, setting: &Setting, model: &Model, set: &Set) -> Result<evaluate::Evaluation> {
    let set = set.source(config, model, Use::Measuring, setting.device)?;
    classify(config, model, set.as_ref(), config.predict.draws)
}

/// Classifies a set with K draws.
pub fn classify(config: &RunConfig, model: &Model, set: &dyn ImageSet, draws: u64) -> Result<evaluate::Evaluation> {
    let key = Key::new(config.seed).fold("predict");
    let (draws, members) = (model.draws(draws, key)?, model.network.members());
    evaluate::classify(draws, members, set.chunks(config.predict.batch_size))
}
