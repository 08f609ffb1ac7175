//! What wrapping does to a trained network, before any training.

use fidgp::Key;
use fidgp::predict::Draws;
use fidgp_data::Part;
use fidgp_metrics::names;
use fidgp_zoo::{ImportReport, StartReport};
use serde::Serialize;

use super::inert::judged;
use super::linearise::fit_linearised;
use super::start;
use super::task::{self, HeldOut, Set, Sets, SplitRole};
use crate::config::{LinearisedConfig, PosteriorConfig, RunConfig, StartConfig};
use crate::error::{LabError, Result};
use crate::evaluate;
use crate::model::{Model, OwnPart};
use crate::record::{Hardware, Metrics, Uncertainty, commit};
use crate::run_folder::posterior;
use crate::run_folder::{RunContext, keep_command, keep_examples, open_folder, refuse_to_mix, write_classes};
use crate::source::ImageSet;
use crate::train::{Optimiser, checkpoint};

/// A network that was wrapped, measured on the test images at each stage.
#[derive(Clone, Debug, Serialize)]
pub struct WrapReport {
    /// What the weight file had.
    pub weights: ImportReport,
    /// How well each Bayesian layer fits the trained one.
    pub start: StartReport,
    /// The measurements, in order.
    pub stages: Vec<Stage>,
    /// Test images, or rows.
    pub images: usize,
    /// How much of the uncertainty of what predicts in the end is epistemic.
    pub uncertainty: Uncertainty,
    /// Why the BatchNorm statistics were not re-estimated, if they were not.
    pub statistics_kept: Option<String>,
    /// Why no linearised posterior was fitted, if weights are drawn for want of training images.
    pub posterior_missing: Option<String>,
    /// The resolved config.
    pub config: RunConfig,
    /// The commit of this program.
    pub commit: String,
    /// Where it ran.
    pub hardware: Hardware,
    /// The command that was given.
    pub command: Option<String>,
}

/// The network at one stage.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// In words.
    pub name: String,
    /// Fraction of test examples that are right; none for numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Root mean squared error of predicted numbers, in their unit; none for classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmse: Option<f64>,
    /// NLL of the mean prediction.
    pub nll: f64,
    /// Expected calibration error, 15 bins; none for numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ece: Option<f64>,
}

impl Stage {
    pub(super) fn of(name: &str, metrics: &Metrics) -> Self {
        let metric = |name: &str| metrics.get(name).map(|value| value.unwrap_or(f64::NAN));
        Self {
            name: name.to_owned(),
            accuracy: metric(names::CLS_ACC),
            rmse: metric(names::REG_RMSE),
            nll: metric(names::CLS_NLL).or_else(|| metric(names::REG_NLL)).unwrap_or(f64::NAN),
            ece: metric(names::CAL_ECE),
        }
    }
}

/// The weights a config names; refuses what cannot be wrapped.
pub(super) fn checked<'a>(config: &'a RunConfig, context: &RunContext, save: bool) -> Result<&'a StartConfig> {
    config.check()?;
    let file =
        config.start.as_ref().ok_or_else(|| LabError::config("start.weights", "is missing; pass --weights FILE"))?;
    if !config.method.about().is_inducing {
        let why = format!("= \"{}\" has nothing to wrap; try --set method=fidgp", config.method.name());
        return Err(LabError::config("method", why));
    }
    if save {
        refuse_to_mix(config, context)?;
    }
    Ok(file)
}

/// Wraps a network for pictures.
pub(super) fn wrap(
    config: &RunConfig,
    context: &RunContext,
    save: bool,
    say: &mut dyn FnMut(&str),
) -> Result<WrapReport> {
    let file = checked(config, context, save)?;
    let (train, test) = match Sets::read(config, &context.data_root) {
        Ok(sets) => (Ok(sets.train), sets.test),
        Err(error) if config.normalisation.as_ref().is_none_or(|given| given.statistics().is_none()) => {
            return Err(error);
        }
        Err(error) => (Err(error), task::part(config, &context.data_root, Part::Test)?),
    };
    let known = train.as_ref().unwrap_or(&test);
    let (config, posterior_missing) = with_posterior(known.filled_in(config)?, train.as_ref().err())?;
    let config = &config;
    let signature = known.signature(config)?;
    let (plain, weights) = start::plain(config, &signature, &file.weights, context.device)?;
    let mut model = Model::init(config, &signature, context.device)?;
    let source = |set: &Set, model: &Model| set.source(config, model, SplitRole::Measuring, context.device);
    let images = source(&test, &plain)?;
    say(&format!("measuring the trained network on {} test images", test.rows()));
    let mut stages = vec![at_mean("trained network", &plain, images.as_ref(), config)?];
    say("fitting the inducing weights, and measuring the wrapped network");
    let start = start::wrap(&model, &plain)?;
    stages.push(at_mean("wrapped, posterior mean", &model, images.as_ref(), config)?);
    let statistics_kept = match &train {
        _ if file.statistics_images == 0 => Some("start.statistics_images is 0".to_owned()),
        Ok(set) => {
            say("estimating BatchNorm's statistics, and measuring with them");
            start::reestimate(config, &model, source(set, &model)?.as_ref(), file.statistics_images)?;
            stages.push(at_mean("… with BatchNorm re-estimated", &model, images.as_ref(), config)?);
            None
        }
        Err(error) => Some(error.to_string()),
    };
    let draws = model.draws(config.predict.draws, Key::new(config.seed).fold("predict"))?;
    let name = format!("… mean of {} weight draw{}", draws.count, if draws.count == 1 { "" } else { "s" });
    say("measuring the mean of draws");
    stages.push(stage(&name, draws, images.as_ref(), config)?);
    if let (Ok(set), Some(_)) = (&train, config.linearised()) {
        say("fitting the linearised posterior to the training images, and measuring with it");
        let images = source(set, &model)?;
        fit_linearised(config, &mut model, images.as_ref(), None)?;
        stages.extend(by_law(&model, source(&test, &model)?.as_ref(), config)?);
    }
    let spreads =
        tch::no_grad(|| task::spreads_of((config, &model), (HeldOut::Test, images.as_ref()), config.predict.draws))?;
    let uncertainty = judged(config, &model, &spreads);
    if save {
        keep(config, context, &model, train.as_ref().ok(), &test)?;
    }
    Ok(WrapReport {
        weights,
        start,
        stages,
        images: images.len(),
        uncertainty,
        statistics_kept,
        posterior_missing,
        config: config.clone(),
        commit: commit(),
        hardware: crate::device::hardware(context.device),
        command: context.command.clone(),
    })
}

/// The config with the linearised posterior, where it says nothing of one: the narrow q of a start has draws that do not differ.
/// Without training images there is nothing to fit it to: then weights are drawn, and why is said; a config that asks for it is
/// refused.
pub(super) fn with_posterior(config: RunConfig, unread: Option<&LabError>) -> Result<(RunConfig, Option<String>)> {
    if config.linearised().is_some()
        && let Some(error) = unread
    {
        let why = format!(
            "= \"linearised\" is fitted to the training images, which are not there ({error}); bring them, or take \
             --set posterior.kind=flow, which draws weights"
        );
        return Err(LabError::config("posterior.kind", why));
    }
    if config.posterior.is_some() {
        return Ok((config, None));
    }
    if let Some(error) = unread {
        return Ok((RunConfig { posterior: Some(PosteriorConfig::Flow {}), ..config }, Some(error.to_string())));
    }
    let posterior = Some(PosteriorConfig::Linearised(LinearisedConfig::default()));
    Ok((RunConfig { posterior, ..config }, None))
}

/// Leaves a run folder that `fidgp train --resume` trains from its first step.
pub(super) fn keep(
    config: &RunConfig,
    context: &RunContext,
    model: &Model,
    train: Option<&Set>,
    test: &Set,
) -> Result<()> {
    let _lock = open_folder(config, context, model, train.map_or(test.rows(), Set::rows))?;
    write_classes(&context.run, test.classes())?;
    if let Some(set) = train {
        keep_examples(&context.run, &set.trained_on())?;
    }
    if let Some(command) = &context.command {
        keep_command(&context.run, &format!("{command} && {}", context.resume_command))?;
    }
    let mut tensors = checkpoint::variables(&model.store);
    tensors.extend(Optimiser::new(&model.store, config.train.optimiser)?.state());
    checkpoint::save(&checkpoint::last(&context.run), &tensors, &checkpoint::Progress::default())?;
    posterior::write(&context.run, model, 0)
}

fn at_mean(name: &str, model: &Model, images: &dyn ImageSet, config: &RunConfig) -> Result<Stage> {
    stage(name, Draws::at_mean(model.network.as_ref())?, images, config)
}

fn stage(name: &str, draws: Draws, images: &dyn ImageSet, config: &RunConfig) -> Result<Stage> {
    let chunks = images.chunks(config.predict.batch_size);
    Ok(Stage::of(name, &evaluate::classify(draws, chunks, &OwnPart::default(), None)?.metrics))
}

/// What the linearised posterior of a model predicts, where it has one.
fn by_law(model: &Model, images: &dyn ImageSet, config: &RunConfig) -> Result<Option<Stage>> {
    let Some(posterior) = &model.posterior else { return Ok(None) };
    let mut law = model.law(config.predict.draws, Key::new(config.seed).fold("predict"), 0)?;
    let chunks = images.chunks(config.predict.batch_size);
    let metrics = evaluate::classify_by(law.as_mut(), model.network.as_ref(), chunks, &OwnPart::default())?.metrics;
    Ok(Some(Stage::of(&format!("… {}", posterior.words()), &metrics)))
}
