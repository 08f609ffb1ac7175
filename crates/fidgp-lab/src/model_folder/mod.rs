//! A trained model as one folder, in the form the Hugging Face Hub uses:
//!
//! ```text
//! config.json               what to build: the run's whole config, the names of the classes
//! model.safetensors         the parameters, in f32 or rounded to f16
//! preprocessor_config.json  size and normalisation of the images
//! norms.safetensors         BatchNorm statistics of each draw's own, where the run has them
//! README.md                 the card: what it is, how good it is, how to use it
//! ```

mod card;
mod preprocessor;
mod rounding;

pub use preprocessor::Preprocessor;
pub use rounding::{Rounding, rounded};

use std::collections::BTreeMap;
use std::path::Path;

use fidgp_data::ChannelStatistics;
use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

use crate::config::{DataConfig, NetworkConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::experiment::norms::{self, NORMS_FILE};
use crate::json;
use crate::model::{Model, Signature};
use crate::predict::Predictor;
use crate::record::{RESULTS_FILE, Results, write_atomically};
use crate::train::checkpoint;

/// The file that says what to build; it is written last, so a folder that has one is whole.
pub const MODEL_CONFIG_FILE: &str = "config.json";
const PREPROCESSOR_FILE: &str = "preprocessor_config.json";
pub(crate) const WEIGHTS_FILE: &str = "model.safetensors";
const CARD_FILE: &str = "README.md";

/// Every file of a model folder.
pub const FILES: [&str; 5] = [MODEL_CONFIG_FILE, PREPROCESSOR_FILE, WEIGHTS_FILE, CARD_FILE, NORMS_FILE];
const FORMAT: &str = "fidgp-model/1";
/// The normalisation stands in the preprocessor's file alone.
const NORMALISATION: &str = "input.";

/// The type the parameters are stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dtype {
    /// As they are.
    #[serde(rename = "float32")]
    F32,
    /// Matrices rounded to half precision.
    #[serde(rename = "float16")]
    F16,
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
    /// What logits are divided by, where it was fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    run: RunConfig,
}

/// Writes the trained model of a run as a folder.
///
/// # Errors
/// When the run has no whole checkpoint, a value does not fit into f16, or the disk fails.
pub fn export(run: &Path, predictor: &Predictor, dtype: Dtype, out: &Path) -> Result<Rounding> {
    let rounding = rounded(&predictor.model, dtype)?;
    let tensors: Vec<_> =
        rounding.tensors.iter().filter(|(name, _)| !name.starts_with(NORMALISATION)).map(copy).collect();
    let config = ModelConfig {
        format: FORMAT.to_owned(),
        model_type: "fidgp".to_owned(),
        architectures: vec![architecture(&predictor.config.network)],
        dtype,
        id2label: predictor.classes.iter().cloned().enumerate().collect(),
        temperature: predictor.model.temperature,
        run: predictor.config.clone(),
    };
    let results = run.join(RESULTS_FILE);
    let results = if results.exists() { Some(Results::read(&results)?) } else { None };
    checkpoint::write(&out.join(WEIGHTS_FILE), &tensors, ("model", FORMAT.to_owned()))?;
    json::write(&out.join(PREPROCESSOR_FILE), &preprocessor::of(predictor)?)?;
    norms::write(&out.join(NORMS_FILE), &predictor.model.norms, 0)?;
    let card = card::card(predictor, dtype, results.as_ref());
    write_atomically(&out.join(CARD_FILE), card.as_bytes())?;
    json::write(&out.join(MODEL_CONFIG_FILE), &config)?;
    Ok(rounding)
}

fn copy((name, tensor): &(String, Tensor)) -> (String, Tensor) {
    (name.clone(), tensor.shallow_clone())
}

/// The network in words.
fn architecture(network: &NetworkConfig) -> String {
    match network {
        NetworkConfig::Mlp { .. } => "mlp".to_owned(),
        NetworkConfig::Resnet { depth, .. } => format!("resnet-{}", i64::from(*depth)),
        NetworkConfig::ResnetCifar { depth, .. } => format!("resnet-cifar-{depth}"),
        NetworkConfig::Fcn { depth, .. } => format!("fcn-resnet-{}", i64::from(*depth)),
        NetworkConfig::Hrnet { width } => format!("hrnetv2-w{width}"),
    }
}

/// Builds the model of a folder.
///
/// # Errors
/// When a file is missing, broken, or does not fit the others; the message names it.
pub fn open(folder: &Path, device: Device) -> Result<Predictor> {
    let path = folder.join(MODEL_CONFIG_FILE);
    let config: ModelConfig = json::read(&path)?;
    let broken = |why: String| LabError::File { path: path.clone(), why };
    if config.format != FORMAT {
        return Err(broken(format!("`format` is `{}`, this program reads `{FORMAT}`", config.format)));
    }
    config.run.check()?;
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
            let signature = Signature::Regression { features: columns.features.len() as i64 };
            table = Some(columns);
            (signature, None)
        }
        Preprocessor::Table { features } => (Signature::Regression { features }, None),
    };
    let mut model = Model::init(&config.run, &signature, device)?;
    let weights = folder.join(WEIGHTS_FILE);
    let mut stored = checkpoint::load(&weights)?;
    let own = checkpoint::variables(&model.store).into_iter().filter(|(name, _)| name.starts_with(NORMALISATION));
    stored.tensors.extend(own);
    checkpoint::restore(&weights, &stored, &model.store)?;
    model.norms = norms::read(&folder.join(NORMS_FILE), 0, &config.run, &model)?;
    if let Some(temperature) = config.temperature {
        model.temper(temperature).map_err(|error| broken(format!("`temperature`: {error}")))?;
    }
    Ok(Predictor { config: config.run, model, classes, view, table })
}

/// Numbers of a buffer.
fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    Ok(Vec::try_from(tensor.to_kind(Kind::Double).to_device(Device::Cpu))?)
}
