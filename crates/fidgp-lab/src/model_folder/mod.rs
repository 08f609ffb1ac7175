//! A trained model as one folder, in the form the Hugging Face Hub uses:
//!
//! ```text
//! config.json               what to build: the run's whole config, the names of the classes
//! model.safetensors         the parameters, in f32 or rounded
//! preprocessor_config.json  size and normalisation of the images
//! network.onnx              the graph, for a network of another framework
//! norms.safetensors         BatchNorm statistics of each draw's own, where the run has them
//! posterior.json            the linearised posterior, where the run has one: what it is
//! posterior.safetensors     its tensors
//! calibration.json          rules for decisions, where the run has them
//! temperature.json          what logits are divided by, where `fidgp calibrate` fitted it to the folder; before that of config.json
//! trust.json                what was seen of the model when they were made
//! README.md                 the card: what it is, how good it is, how to use it
//! ```

pub(crate) mod card;
mod decisions;
mod graph;
mod linearised;
mod preprocessor;
mod request;
mod rounding;
mod sketch;
mod state_dict;
mod values;

pub use graph::{WrittenGraph, export_graph, graph_bytes};
pub use preprocessor::Preprocessor;
pub use request::{GraphRequest, Weights};
pub use rounding::{Rounding, rounded};
pub use state_dict::export_state_dict;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fidgp_data::{ChannelStatistics, catalogue, file_sha256};
use fidgp_decision::{CALIBRATION_FILE, TRUST_FILE, Trust};
use fidgp_files::NewFolder;
use fidgp_metrics::recalibration::Recalibration;
use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

use crate::config::{DataConfig, NetworkConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::files::{
    CARD_FILE, CONFIG_FILE, MODEL_CONFIG_FILE, NETWORK_FILE, NORMS_FILE, POSTERIOR_FILE, POSTERIOR_TENSORS_FILE,
    PREPROCESSOR_FILE, STATISTICS_FILE, TEMPERATURE_FILE, WEIGHTS_FILE,
};
use crate::json;
use crate::model::{Mended, Model, Normalisation, Signature};
use crate::predict::Trained;
use crate::record::{RESULTS_FILE, Results, write_atomically};
use crate::run_folder::{calibration, chosen_checkpoint, norms, posterior, temperature};
use crate::train::checkpoint::{self, Progress};

/// Every file of a model folder.
pub const FILES: [&str; 11] = [
    MODEL_CONFIG_FILE,
    PREPROCESSOR_FILE,
    WEIGHTS_FILE,
    CARD_FILE,
    NORMS_FILE,
    NETWORK_FILE,
    POSTERIOR_FILE,
    POSTERIOR_TENSORS_FILE,
    CALIBRATION_FILE,
    TEMPERATURE_FILE,
    TRUST_FILE,
];
/// The parts that the config has the digests of: all but the card, which people write in.
const PARTS: [&str; 8] = [
    PREPROCESSOR_FILE,
    WEIGHTS_FILE,
    NORMS_FILE,
    NETWORK_FILE,
    POSTERIOR_FILE,
    POSTERIOR_TENSORS_FILE,
    CALIBRATION_FILE,
    TRUST_FILE,
];
/// Of these, what is fitted anew: it may stand there without its digest, as in older folders, and belongs to what predicts by
/// a digest of its own.
const FITTED_ANEW: [&str; 4] = [POSTERIOR_FILE, POSTERIOR_TENSORS_FILE, CALIBRATION_FILE, TRUST_FILE];
/// Of these, what people remove: predictions go on without.
const MAY_BE_GONE: [&str; 2] = [CALIBRATION_FILE, TRUST_FILE];
/// What an export takes the place of, the config last.
const PLACES: [&str; 12] = [
    STATISTICS_FILE,
    CALIBRATION_FILE,
    TEMPERATURE_FILE,
    TRUST_FILE,
    PREPROCESSOR_FILE,
    WEIGHTS_FILE,
    NORMS_FILE,
    NETWORK_FILE,
    POSTERIOR_FILE,
    POSTERIOR_TENSORS_FILE,
    CARD_FILE,
    MODEL_CONFIG_FILE,
];
const FORMAT: &str = "fidgp-model/1";

/// The type the parameters are stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dtype {
    /// As they are.
    #[serde(rename = "float32")]
    F32,
    /// Matrices rounded to half precision.
    #[serde(rename = "float16")]
    F16,
    /// Matrices rounded to bf16.
    #[serde(rename = "bfloat16")]
    Bf16,
    /// Matrices in bytes, each row with a scale in f32.
    #[serde(rename = "int8")]
    Int8,
}

/// The content of `config.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ModelConfig {
    format: String,
    model_type: String,
    architectures: Vec<String>,
    dtype: Dtype,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    id2label: BTreeMap<usize, String>,
    /// SHA-256 of the other parts, by file: parts of several folders are no model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    sha256: BTreeMap<String, String>,
    /// What logits are divided by, where it was fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    /// What probabilities are mapped with after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recalibration: Option<Recalibration>,
    run: RunConfig,
}

/// Writes the trained model of a run as a folder, or that of a model folder as another one.
///
/// # Errors
/// When the run has no whole checkpoint, a value does not fit into the type, or the disk fails.
pub fn export(run: &Path, predictor: &Trained, dtype: Dtype, out: &Path) -> Result<Rounding> {
    let rounding = rounded(&predictor.model, dtype)?;
    // the normalisation stands in the preprocessor's file alone
    let tensors: Vec<_> = rounding.tensors.iter().filter(|(name, _)| !Normalisation::holds(name)).map(copy).collect();
    let config = ModelConfig {
        format: FORMAT.to_owned(),
        model_type: "fidgp".to_owned(),
        architectures: vec![predictor.config.network.name()],
        dtype,
        id2label: predictor.classes.iter().cloned().enumerate().collect(),
        sha256: BTreeMap::new(),
        temperature: predictor.model.temperature,
        recalibration: predictor.model.recalibration.clone(),
        run: portable(&predictor.config),
    };
    let card = if run.join(CONFIG_FILE).exists() {
        let results = run.join(RESULTS_FILE);
        let results = if results.exists() { Some(Results::read(&results)?) } else { None };
        card::card(predictor, dtype, results.as_ref())
    } else {
        card::of_another_type(&run.join(CARD_FILE), dtype)?
    };
    let failed = |error: std::io::Error| LabError::file(out, &error);
    let folder = NewFolder::beside(out).map_err(failed)?;
    let place = folder.path();
    checkpoint::write(&place.join(WEIGHTS_FILE), &tensors, ("model", FORMAT.to_owned()))?;
    json::write(&place.join(PREPROCESSOR_FILE), &preprocessor::of(predictor)?)?;
    copy_graph(&predictor.config.network, place)?;
    norms::write(&place.join(NORMS_FILE), &predictor.model.norms, &Progress::default())?;
    posterior::write(place, &predictor.model, 0)?;
    copy_rules(run, predictor, dtype, place)?;
    write_atomically(&place.join(CARD_FILE), card.as_bytes())?;
    let config = ModelConfig { sha256: digests(place)?, ..config };
    json::write(&place.join(MODEL_CONFIG_FILE), &config)?;
    folder.take_place(&PLACES).map_err(failed)?;
    Ok(rounding)
}

/// The graph that a network is built of, beside its weights, in one file.
fn copy_graph(network: &NetworkConfig, out: &Path) -> Result<()> {
    let NetworkConfig::Onnx(graph) = network else { return Ok(()) };
    Ok(write_atomically(&out.join(NETWORK_FILE), &graph.content()?.0)?)
}

/// The rules of a run belong to its weights to the last bit: they go with them unless these are rounded.
fn copy_rules(run: &Path, predictor: &Trained, dtype: Dtype, out: &Path) -> Result<()> {
    if dtype != Dtype::F32 {
        return Ok(());
    }
    let Some(rules) = predictor.rules(run)? else { return Ok(()) };
    rules.write(out)?;
    Trust::read(run)?.map_or(Ok(()), |trust| Ok(trust.write(out)?))
}

/// The digests of the parts that are there.
fn digests(folder: &Path) -> Result<BTreeMap<String, String>> {
    let there = PARTS.iter().filter(|part| folder.join(part).exists());
    there.map(|part| Ok(((*part).to_owned(), file_sha256(&folder.join(part))?))).collect()
}

/// Refuses a folder whose parts are not those that its config was written with. One from before they were remembered does
/// not say.
fn check_parts(folder: &Path, config: &ModelConfig) -> Result<()> {
    if config.sha256.is_empty() {
        return Ok(());
    }
    let there = digests(folder)?;
    let names: BTreeSet<_> = there.keys().chain(config.sha256.keys()).collect();
    let differs = |name: &&&String| match config.sha256.get(**name) {
        None if FITTED_ANEW.contains(&name.as_str()) => false,
        Some(_) if MAY_BE_GONE.contains(&name.as_str()) && !there.contains_key(**name) => false,
        digest => there.get(**name) != digest,
    };
    match names.iter().find(differs) {
        Some(name) => {
            let why = if there.contains_key(*name) {
                format!("is not the file that {MODEL_CONFIG_FILE} was written with (their SHA-256 differ)")
            } else {
                format!("is missing, {MODEL_CONFIG_FILE} has its digest")
            };
            let why = format!(
                "{why}: the folder is a mixture or damaged. Fetch it again, or export it anew: fidgp export RUN"
            );
            Err(LabError::File { path: folder.join(name), why })
        }
        None => Ok(()),
    }
}

/// Puts the posterior of a model into its folder, or removes it.
///
/// # Errors
/// When the config is broken or the disk fails.
pub fn keep_posterior(folder: &Path, model: &Model) -> Result<()> {
    keep_fitted(folder, || posterior::write(folder, model, 0))
}

/// Writes what is fitted anew into a model folder. A kill between two steps leaves parts that are whole, and their digests, or
/// none of them, in the config. In another folder it is only written.
///
/// # Errors
/// When the config is broken or the disk fails.
pub fn keep_fitted(folder: &Path, write: impl FnOnce() -> Result<()>) -> Result<()> {
    let path = folder.join(MODEL_CONFIG_FILE);
    if folder.join(CONFIG_FILE).exists() || !path.exists() {
        return write();
    }
    let mut config: ModelConfig = json::read(&path)?;
    if config.sha256.is_empty() {
        return write(); // a folder from before digests
    }
    config.sha256.retain(|part, _| !FITTED_ANEW.contains(&part.as_str()));
    json::write(&path, &config)?;
    write()?;
    config.sha256 = digests(folder)?;
    json::write(&path, &config)
}

/// The config with the graph where the folder has it.
fn portable(config: &RunConfig) -> RunConfig {
    let mut config = config.clone();
    if let NetworkConfig::Onnx(graph) = &mut config.network {
        graph.path = NETWORK_FILE.into();
    }
    config
}

fn copy((name, tensor): &(String, Tensor)) -> (String, Tensor) {
    (name.clone(), tensor.shallow_clone())
}

impl Trained {
    /// Opens a run folder or a model folder.
    ///
    /// # Errors
    /// When it is neither, or a file in it is missing or broken; the message names it.
    pub fn open(folder: &Path, device: Device) -> Result<Self> {
        if folder.join(CONFIG_FILE).exists() {
            Self::of_run(folder, device, catalogue::data_root().ok().as_deref())
        } else if folder.join(MODEL_CONFIG_FILE).exists() {
            open(folder, device)
        } else {
            let why = format!("is neither a run folder ({CONFIG_FILE}) nor a model folder ({MODEL_CONFIG_FILE})");
            Err(LabError::config(folder.display().to_string(), why))
        }
    }

    /// Opens a run folder or a model folder to fit something to its network, without the temperature that is divided by.
    ///
    /// # Errors
    /// As [`Self::open`], and for a model folder with a temperature, which would no longer belong to what predicts.
    pub fn open_to_fit(folder: &Path, device: Device) -> Result<Self> {
        if folder.join(CONFIG_FILE).exists() {
            return Self::before_fit(folder, device, catalogue::data_root().ok().as_deref());
        }
        if !folder.join(MODEL_CONFIG_FILE).exists() {
            return Self::open(folder, device); // says what is missing
        }
        let (trained, mended) = untempered(folder, device)?;
        if mended.is_some() || folder.join(TEMPERATURE_FILE).exists() {
            let why = "has a temperature that was fitted to what predicts now: run `fidgp fit-posterior` and `fidgp calibrate` \
                       on its run, and export that again";
            return Err(LabError::config(folder.display().to_string(), why));
        }
        Ok(trained)
    }

    /// Opens a run folder or a model folder to fit a temperature to it: without one, and with the training step that its weights
    /// are of.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_untempered(folder: &Path, device: Device, data: &Path) -> Result<(Self, u64)> {
        if !folder.join(CONFIG_FILE).exists() {
            let is_model = folder.join(MODEL_CONFIG_FILE).exists(); // else `open` says what is missing
            return Ok((if is_model { untempered(folder, device)?.0 } else { Self::open(folder, device)? }, 0));
        }
        let trained = Self::as_trained(folder, device, Some(data))?;
        let checkpoint = chosen_checkpoint(&trained.config, folder);
        Ok((trained, checkpoint::load(&checkpoint)?.progress.step))
    }
}

/// Builds the model of a folder.
///
/// # Errors
/// When a file is missing, broken, or does not fit the others; the message names it.
pub fn open(folder: &Path, device: Device) -> Result<Trained> {
    let (mut trained, mended) = untempered(folder, device)?;
    let path = folder.join(MODEL_CONFIG_FILE);
    if let Some(mended) = temperature::read(folder, 0, &trained.model)?.or(mended) {
        let broken = |error| LabError::File { path, why: format!("`temperature`: {error}") };
        trained.model.mend(mended).map_err(broken)?;
    }
    Ok(trained)
}

/// The model of a folder, and what is to be done with its outputs.
fn untempered(folder: &Path, device: Device) -> Result<(Trained, Option<Mended>)> {
    let path = folder.join(MODEL_CONFIG_FILE);
    _ = calibration::settle(folder); // a folder that cannot be written is used as it is
    let mut config: ModelConfig = json::read(&path)?;
    if let NetworkConfig::Onnx(graph) = &mut config.run.network {
        graph.path = folder.join(NETWORK_FILE);
    }
    let broken = |why: String| LabError::File { path: path.clone(), why };
    if config.format != FORMAT {
        return Err(broken(format!("`format` is `{}`, this program reads `{FORMAT}`", config.format)));
    }
    check_parts(folder, &config)?;
    config.run.check().map_err(|error| broken(format!("`run`: {error}")))?;
    let classes: Vec<String> = config.id2label.values().cloned().collect();
    if config.id2label.keys().copied().ne(0..classes.len()) {
        return Err(broken("`id2label` does not number the classes from 0 without gaps".to_owned()));
    }
    let mut table = None;
    let (signature, view) = match json::read(&folder.join(PREPROCESSOR_FILE))? {
        Preprocessor::Images(images) => {
            let [mean, sd] = [&images.image_mean, &images.image_std].map(Clone::clone);
            let side = i64::from(images.crop_size.height);
            let image = [mean.len() as i64, side, side];
            let statistics = ChannelStatistics { mean, sd };
            (Signature::Classification { image, classes: classes.len() as i64, statistics }, Some(images.view()?))
        }
        Preprocessor::Pictures(pictures) => {
            let DataConfig::Segmentation(pairs) = &config.run.data else {
                return Err(broken("has no segmentation, its preprocessor_config.json has one".to_owned()));
            };
            let statistics = pictures.statistics()?;
            (Signature::Segmentation { crop: pairs.crop, classes: classes.len() as i64, statistics }, None)
        }
        Preprocessor::Columns(columns) => {
            columns.check().map_err(|why| LabError::File { path: folder.join(PREPROCESSOR_FILE), why })?;
            let features = columns.features.len() as i64;
            let signature = match classes.len() as i64 {
                0 => Signature::Regression { features },
                classes => Signature::Rows { features, classes },
            };
            table = Some(columns);
            (signature, None)
        }
        Preprocessor::Table { features } => (Signature::Regression { features }, None),
    };
    signature.check_size().map_err(|exceeded| {
        let why = format!("asks for {exceeded}");
        LabError::File { path: folder.join(PREPROCESSOR_FILE), why }
    })?;
    let mut model = Model::init(&config.run, &signature, device)?;
    let weights = folder.join(WEIGHTS_FILE);
    let mut stored = checkpoint::load(&weights)?;
    rounding::unpack(&weights, &mut stored.tensors)?;
    let own = checkpoint::variables(&model.store).into_iter().filter(|(name, _)| Normalisation::holds(name));
    stored.tensors.extend(own);
    checkpoint::restore(&weights, &stored, &model.store)?;
    model.norms = norms::read(&folder.join(NORMS_FILE), 0, &config.run, &model)?;
    model.posterior = posterior::read(folder, 0, &model)?;
    let map = config.recalibration;
    let mended = config.temperature.map(|temperature| Mended { temperature, map });
    Ok((Trained { config: config.run, model, classes, view, table }, mended))
}

/// Numbers of a buffer.
fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    Ok(Vec::try_from(tensor.to_kind(Kind::Double).to_device(Device::Cpu))?)
}
