//! What is fitted to a trained model on examples that it was not trained on: a temperature, and rules for decisions.

mod examples;
mod temperature;
mod trust;

pub use examples::{From, Gathered, Inputs, Said};
pub(crate) use temperature::check;
pub use temperature::fit;

use std::path::{Path, PathBuf};

use fidgp::predict::WeightDraws;
use fidgp_decision::fit::{FEWEST, Origin, classes, numbers};
use fidgp_decision::{Asked, Calibration, Score, Trust};
use tch::Device;

use crate::config::{self, RunConfig};
use crate::error::{LabError, Result};
use crate::files::{CONFIG_FILE, TEMPERATURE_FILE};
use crate::json;
use crate::model_folder;
use crate::predict::{Predictor, Trained};
use crate::run_folder::{Temperature, calibration};
use temperature::{Opened, divided};

/// What is wanted of a calibration.
#[derive(Debug)]
pub struct Request {
    /// The folder of a run or a model.
    pub folder: PathBuf,
    /// Where data sets lie.
    pub data: PathBuf,
    /// Where to compute.
    pub device: Device,
    /// The examples.
    pub from: From,
    /// What is to be promised; the uncertainty that tells inputs out of distribution is the usual one where none is named.
    pub asked: Asked,
    /// That uncertainty.
    pub ood_score: Option<Score>,
    /// Folders of pictures or tables that are known to be foreign, to count how many the rules find.
    pub foreign: Vec<PathBuf>,
}

/// What was fitted.
#[derive(Debug)]
pub struct Fitted {
    /// The temperature, of a run that classifies images and its own validation examples.
    pub temperature: Option<Temperature>,
    /// The rules; none where there are too few examples for any beside a temperature.
    pub calibration: Option<Calibration>,
    /// What was seen of the model; none without rules.
    pub trust: Option<Trust>,
}

/// Told how many examples of how many the model has seen.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// Fits a temperature to the trained network of a run and writes it into the run folder.
///
/// # Errors
/// As [`fit`], and when the disk fails.
pub fn run(config: &RunConfig, run: &Path, data: &Path, device: Device) -> Result<Temperature> {
    let found = fit(config, run, data, device)?;
    json::write(&run.join(TEMPERATURE_FILE), &found)?;
    Ok(found)
}

/// Fits what a model can have, and keeps it in its folder: a run that classifies images gets a temperature, every model rules.
///
/// # Errors
/// When the examples cannot be read or are too few, or the disk fails. What stood in the folder before then still stands.
pub fn calibrate(request: &Request, progress: Progress) -> Result<Fitted> {
    request.asked.check()?;
    let (temperature, mut predictor, gathered) = gathered(request, progress)?;
    if temperature.is_some() && too_few(gathered.said.len(), &request.asked) {
        keep(&request.folder, temperature.as_ref(), None)?;
        return Ok(Fitted { temperature, calibration: None, trust: None });
    }
    let calibration = rules(predictor.trained(), &gathered, request)?;
    let mut trust = trust::trust(predictor.trained(), &gathered, &calibration)?;
    for path in &request.foreign {
        trust.foreign.push(trust::foreign(&mut predictor, &calibration, path, progress)?);
    }
    keep(&request.folder, temperature.as_ref(), Some((&calibration, &trust)))?;
    Ok(Fitted { temperature, calibration: Some(calibration), trust: Some(trust) })
}

/// The examples as the model sees them, with the temperature that was fitted first.
fn gathered(request: &Request, progress: Progress) -> Result<(Option<Temperature>, Predictor, Gathered)> {
    let Request { folder, data, device, from, .. } = request;
    let own = folder.join(CONFIG_FILE);
    let config = if own.exists() { Some(config::read(&own, &[])?) } else { None };
    let is_tempered = *from == From::Validation && config.is_some_and(|config| config.data.has_classes());
    let trained = if is_tempered {
        Trained::as_trained(folder, *device, Some(data))? // an older temperature may be of other weights
    } else {
        Trained::open(folder, *device)?
    };
    if !is_tempered {
        let mut predictor = Predictor::new(trained, None, WeightDraws::MEMORY)?;
        let gathered = examples::gather(&mut predictor, request, progress)?;
        return Ok((None, predictor, gathered));
    }
    let opened = Opened::of_run(&trained.config, folder, data, *device)?;
    let parts = divided(opened.validation.rows());
    let part = |rows: &Vec<usize>| opened.validation.select(rows);
    let temperature = match &parts {
        Some([rows, _]) => opened.temperature(&trained.config, &part(rows)?)?,
        None => opened.temperature(&trained.config, &opened.validation)?,
    };
    let rest = parts.as_ref().map(|[_, rows]| part(rows)).transpose()?;
    let Opened { mut model, validation, .. } = opened;
    model.temper(temperature.temperature)?;
    let mut predictor = Predictor::new(Trained { model, ..trained }, None, WeightDraws::MEMORY)?;
    let is_shared = rest.is_none();
    let mut gathered = examples::pictures(&mut predictor, rest.unwrap_or(validation), progress)?;
    gathered.source = from.words(&predictor.trained().config);
    gathered.notes.extend(examples::chosen_by(&predictor.trained().config, from));
    if is_shared {
        gathered.notes.push(
            "the temperature was fitted on the same examples, as there are few: the promises hold nearly".to_owned(),
        );
    }
    Ok((Some(temperature), predictor, gathered))
}

fn too_few(examples: usize, asked: &Asked) -> bool {
    ((examples as f64) * (1.0 - asked.held_back)).floor() < FEWEST as f64
}

fn rules(trained: &Trained, gathered: &Gathered, request: &Request) -> Result<Calibration> {
    let origin = Origin {
        source: gathered.source.clone(),
        model_sha256: trained.predicting().digest()?,
        draws: trained.config.predict.draws,
    };
    let asked = |usual: Score| Asked { ood_score: request.ood_score.unwrap_or(usual), ..request.asked.clone() };
    let mut found = match &gathered.said {
        Said::Classes { said, labels } => classes(said, labels, &gathered.named, &asked(Score::Total), origin)?,
        Said::Numbers { said, targets } => numbers(said, targets, &gathered.named, &asked(Score::Epistemic), origin)?,
    };
    found.notes.extend(gathered.notes.iter().cloned());
    Ok(found)
}

/// Writes them, or what there is of them, in one step.
fn keep(folder: &Path, temperature: Option<&Temperature>, found: Option<(&Calibration, &Trust)>) -> Result<()> {
    fidgp_files::write::check_writable(folder).map_err(|error| LabError::file(folder, &error))?;
    model_folder::keep_fitted(folder, || calibration::keep(folder, temperature, found))
}
