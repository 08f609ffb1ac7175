//! What is fitted to a trained model on examples that it was not trained on: a temperature, and rules for decisions.

mod examples;
mod pixels;
mod recalibration;
mod shift;
mod temperature;
mod trust;

pub use examples::{From, Gathered, Inputs, Said};
pub use recalibration::Recalibrate;
pub(crate) use temperature::check;
pub use temperature::fit;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fidgp::predict::WeightDraws;
use fidgp_decision::fit::{FEWEST, Origin, classes, numbers};
use fidgp_decision::{Asked, Calibration, Score, Trust};
use fidgp_torch::Group;
use tch::Device;

use crate::config::RunConfig;
use crate::error::{LabError, Result};
use crate::files::TEMPERATURE_FILE;
use crate::json;
use crate::model_folder;
use crate::predict::{Predictor, Trained};
use crate::run_folder::{Temperature, Tried, calibration};
use crate::train::group::agree;
use examples::Collected;
use temperature::divided;

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
    /// The maps of probabilities that are tried.
    pub recalibrate: Recalibrate,
    /// A table without targets: the rules are for inputs like these.
    pub target_inputs: Option<PathBuf>,
    /// Folders of pictures or tables that are known to be foreign, to count how many the rules find.
    pub foreign: Vec<PathBuf>,
    /// The processes that look at the examples together; the first one writes.
    pub group: Option<Arc<Group>>,
}

/// What was fitted.
#[derive(Debug)]
pub struct Fitted {
    /// The temperature, of classes.
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

/// Fits what a model can have, and keeps it in its folder: classes get a temperature, every model rules.
///
/// # Errors
/// When the examples cannot be read or are too few, or the disk fails. What stood in the folder before then still stands.
pub fn calibrate(request: &Request, progress: Progress) -> Result<Fitted> {
    request.asked.check()?;
    if Trained::config_of(&request.folder)?.data.has_masks() {
        let mut trained = Trained::open(&request.folder, request.device)?;
        let calibration = pixels::rules(&mut trained, request, progress)?;
        if request.group.as_ref().is_none_or(|group| group.rank() == 0) {
            keep(&request.folder, None, Some((&calibration, None)))?;
        }
        return Ok(Fitted { temperature: None, calibration: Some(calibration), trust: None });
    }
    let (temperature, mut predictor, gathered) = gathered(request, progress)?;
    let writes = predictor.trained().model.parts.is_first();
    if temperature.is_some() && too_few(gathered.said.len(), &request.asked) {
        if writes {
            keep(&request.folder, temperature.as_ref(), None)?;
        }
        return Ok(Fitted { temperature, calibration: None, trust: None });
    }
    let calibration = rules(predictor.trained(), &gathered, request)?;
    let mut trust = trust::trust(predictor.trained(), &gathered, &calibration)?;
    for path in &request.foreign {
        trust.foreign.push(trust::foreign(&mut predictor, &calibration, path, progress)?);
    }
    if writes {
        keep(&request.folder, temperature.as_ref(), Some((&calibration, Some(&trust))))?;
    }
    Ok(Fitted { temperature, calibration: Some(calibration), trust: Some(trust) })
}

/// The examples as the model sees them, with the temperature that was fitted first. Classes have one where there are enough
/// examples to keep some for it alone; those of few validation images are for both.
fn gathered(request: &Request, progress: Progress) -> Result<(Option<Temperature>, Predictor, Gathered)> {
    let (mut trained, step) = Trained::open_untempered(&request.folder, request.device, &request.data)?;
    trained.share(request.group.as_ref())?;
    let has_classes = !trained.classes.is_empty() && !trained.segments();
    let is_shared = trained.config.data.has_classes() && request.from == From::Validation;
    let mut predictor = Predictor::new(trained, None, WeightDraws::MEMORY)?;
    let mut collected = examples::collect(&mut predictor, request)?;
    request.group.as_ref().map_or(Ok(()), |group| agree(group, "the examples", &collected.words()))?;
    let mut notes = Vec::new();
    if let Some(path) = &request.target_inputs {
        let (kept, note) = shift::towards(&collected, predictor.trained(), path, request.asked.seed)?;
        (collected, notes) = (kept, vec![note]);
    }
    let parts = if has_classes { divided(collected.len()) } else { None };
    if parts.is_none() && !(has_classes && is_shared) {
        let older = if has_classes { Trained::open(&request.folder, request.device)?.model.mended() } else { None };
        older.map_or(Ok(()), |older| predictor.changed(|trained| trained.model.mend(older)))?;
        let mut gathered = examples::gather(&mut predictor, collected, request, progress)?;
        gathered.notes.extend(notes);
        return Ok((None, predictor, gathered));
    }
    let fitted = |examples: &Collected| {
        let trained = predictor.trained();
        examples.as_inputs(trained, &mut |chunks, part| {
            temperature::of_batches(&trained.config, (&trained.model, step), examples.len(), (chunks, part))
        })
    };
    let (mut temperature, own, rest) = match &parts {
        Some([rows, rest]) => {
            let own = collected.select(rows)?;
            (fitted(&own)?, Some(own), collected.select(rest)?)
        }
        None => (fitted(&collected)?, None, collected),
    };
    predictor.changed(|trained| trained.model.temper(temperature.temperature))?;
    if let Some(own) = own.filter(|_| request.recalibrate != Recalibrate::Never) {
        let seen = examples::gather(&mut predictor, own, request, progress)?;
        recalibrate(&mut predictor, &mut temperature, &seen.said, request.recalibrate)?;
    }
    let mut gathered = examples::gather(&mut predictor, rest, request, progress)?;
    gathered.notes.extend(notes);
    if parts.is_none() {
        gathered.notes.push(
            "the temperature was fitted on the same examples, as there are few; the guarantees hold only approximately"
                .to_owned(),
        );
    }
    Ok((Some(temperature), predictor, gathered))
}

/// Maps probabilities from now on, where examples that were not used for rules speak for it.
fn recalibrate(predictor: &mut Predictor, temperature: &mut Temperature, said: &Said, maps: Recalibrate) -> Result<()> {
    let Said::Classes { said, labels } = said else { return Ok(()) };
    let Some(found) = maps.choose(said, labels)? else { return Ok(()) };
    temperature.recalibrations = Some(Tried { nll: found.nll, maps: found.tried });
    temperature.recalibration.clone_from(&found.map);
    found.map.map_or(Ok(()), |map| predictor.changed(|trained| trained.model.recalibrate(map)))
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
fn keep(folder: &Path, temperature: Option<&Temperature>, found: Option<(&Calibration, Option<&Trust>)>) -> Result<()> {
    fidgp_files::write::check_writable(folder).map_err(|error| LabError::file(folder, &error))?;
    model_folder::keep_fitted(folder, || calibration::keep(folder, temperature, found))
}
