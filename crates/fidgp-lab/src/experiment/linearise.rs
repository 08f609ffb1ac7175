//! The linearised posterior, fitted once when the training is over.

use std::cell::RefCell;
use std::path::Path;

use fidgp::Key;
use fidgp::linearised::{LinearisedPosterior, Observed, fit};
use fidgp::objective::Likelihood;
use tch::{Kind, Tensor};

use super::task::{self, SplitRole};
use crate::config::{LinearisedConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::files::{CONFIG_FILE, TEMPERATURE_FILE};
use crate::model::Model;
use crate::model_folder::keep_posterior;
use crate::predict::Trained;
use crate::run_folder::posterior::{self, PosteriorRecord};
use crate::run_folder::{same_classes, same_examples};
use crate::source::Source;

/// Fits the posterior that a config asks for to all training data, unchanged, and keeps it in the run's folder. Does nothing
/// for other configs.
///
/// # Errors
/// When an example cannot be read, the structure does not fit into memory, or a matrix cannot be decomposed.
pub fn fit_linearised(config: &RunConfig, model: &mut Model, source: &dyn Source, run: Option<&Path>) -> Result<()> {
    let Some(linearised) = config.linearised() else { return Ok(()) };
    model.posterior = Some(linearise(config, linearised, model, source)?);
    run.map_or(Ok(()), |run| posterior::keep(config, model, run))
}

/// Fits the posterior that a config asks for to what is trained already, and keeps it in the folder of the run or model; a
/// config with `posterior.kind = "flow"` removes what is there.
///
/// # Errors
/// When the training data cannot be read or are others than the run's, or as [`fit_linearised`].
pub fn fit_posterior(
    predictor: &mut Trained,
    config: &RunConfig,
    folder: &Path,
    data: &Path,
) -> Result<Option<PosteriorRecord>> {
    config.check()?;
    if predictor.model.temperature.is_some() {
        let why = "divides its logits by a temperature that was fitted to weight draws; export the run anew without it";
        return Err(LabError::config(folder.display().to_string(), why));
    }
    let task = task::reopen(predictor, data)?;
    task.trained_on().map_or(Ok(()), |now| same_examples(folder, &now))?;
    same_classes(folder, task.classes())?;
    let source = task.examples(&predictor.model, SplitRole::Measuring)?;
    predictor.model.posterior = match config.linearised() {
        Some(linearised) => Some(linearise(config, linearised, &predictor.model, source.as_ref())?),
        None => None,
    };
    if folder.join(CONFIG_FILE).exists() {
        posterior::keep(config, &predictor.model, folder)?;
        if predictor.model.posterior.is_some() && folder.join(TEMPERATURE_FILE).exists() {
            let path = folder.join(TEMPERATURE_FILE); // fitted to the law of before
            std::fs::remove_file(&path).map_err(|error| LabError::file(&path, &error))?;
        }
    } else {
        keep_posterior(folder, &predictor.model)?;
    }
    posterior::record(folder)
}

/// The linearised posterior of a trained model.
///
/// # Errors
/// As [`fit_linearised`].
pub fn linearise(
    config: &RunConfig,
    linearised: &LinearisedConfig,
    model: &Model,
    source: &dyn Source,
) -> Result<LinearisedPosterior> {
    let mut tangent = model.centre(&linearised.layers)?;
    let directions = linearised.directions(config.data.has_images());
    (tangent.directions, tangent.conditional) = (directions, linearised.conditional());
    let (targets, rows) = (RefCell::new(Vec::new()), chosen(config, linearised, source));
    let mut failed = None;
    let mut batches = rows.chunks(config.predict.batch_size).map_while(|rows| {
        match source.batch(&Tensor::from_slice(rows).to_device(model.store.device()), None) {
            Ok((x, y)) => {
                targets.borrow_mut().push(y);
                Some(Ok(x))
            }
            Err(error) => {
                failed = Some(error);
                None
            }
        }
    });
    let observe = |batch: usize, start: i64, outputs: &Tensor| {
        let targets = targets.borrow()[batch].narrow(0, start, outputs.size()[0]);
        tch::no_grad(|| Ok(observed(model.likelihood.as_ref(), outputs, &targets)))
    };
    let fitted = fit(&tangent, &mut batches, rows.len() as i64, &observe, &linearised.fit(directions));
    failed.map_or(Ok(()), Err)?;
    let fitted = fitted?;
    tracing::info!(
        target: "start",
        "linearised posterior ({}): prior precision {:.4e}, the data decide {:.1} of {} directions",
        fitted.structure.kind(), fitted.precision.prior, fitted.decided, tangent.size()
    );
    Ok(fitted)
}

/// The examples that a posterior is fitted to, in order.
fn chosen(config: &RunConfig, linearised: &LinearisedConfig, source: &dyn Source) -> Vec<i64> {
    let all = source.len();
    if linearised.examples == 0 || linearised.examples >= all {
        return (0..all as i64).collect();
    }
    let order = fidgp_data::epoch_order(all, Key::new(config.seed).fold("posterior").seed(), 0);
    let mut rows: Vec<_> = order.into_iter().take(linearised.examples).map(|row| row as i64).collect();
    rows.sort_unstable();
    rows
}

fn observed(likelihood: &dyn Likelihood, outputs: &Tensor, targets: &Tensor) -> Observed {
    let misfit = likelihood.reading().numbers().map(|numbers| {
        let output = numbers.output(outputs);
        (targets.to_kind(Kind::Double) - output.mean).square() / output.variance
    });
    Observed { curvature: likelihood.curvature(outputs), misfit }
}
