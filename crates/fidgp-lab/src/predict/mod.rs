//! Trained models used on new inputs, without the data they were trained on.

mod images;
mod pixels;
mod replay;
mod tables;

pub use images::{ClassPrediction, Predicted};
pub use pixels::PixelPrediction;
pub use replay::Replayed;
pub use tables::NumberPrediction;

use std::path::Path;

use fidgp::Key;
use fidgp::predict::Draws;
use fidgp_data::{catalogue, unnamed};
use tch::Device;

use crate::config::{self, DataConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::experiment::{CONFIG_FILE, read_classes, restore, restore_as_trained, table};
use crate::model::{Model, Signature};
use crate::model_folder::{self, MODEL_CONFIG_FILE};
use crate::record::RESULTS_FILE;
use crate::source::{TableView, View};

/// A trained model.
#[derive(Debug)]
pub struct Predictor {
    /// The config of its run.
    pub config: RunConfig,
    /// The model.
    pub model: Model,
    /// The names of its classes; none for a regression.
    pub classes: Vec<String>,
    /// How pictures become its inputs; none for a regression, and for a segmentation, which takes them as they are.
    pub view: Option<View>,
    /// How rows of a table become its inputs; none for pictures, and for the curve, which takes its points as they are.
    pub table: Option<TableView>,
}

impl Predictor {
    /// Opens a run folder or a model folder.
    ///
    /// # Errors
    /// When it is neither, or a file in it is missing or broken; the message names it.
    pub fn open(folder: &Path, device: Device) -> Result<Self> {
        if folder.join(CONFIG_FILE).exists() {
            Self::of_run(folder, device, catalogue::data_root().ok().as_deref())
        } else if folder.join(MODEL_CONFIG_FILE).exists() {
            model_folder::open(folder, device)
        } else {
            let why = format!("is neither a run folder ({CONFIG_FILE}) nor a model folder ({MODEL_CONFIG_FILE})");
            Err(LabError::config(folder.display().to_string(), why))
        }
    }

    /// The trained model of a run; class names come from the run, else from the data set's own files under `data`.
    ///
    /// # Errors
    /// When the run has no whole checkpoint or keeps none (UCI splits).
    pub fn of_run(run: &Path, device: Device, data: Option<&Path>) -> Result<Self> {
        let mut built = Self::untrained(run, device, data)?;
        restore(&built.config, run, &mut built.model)?;
        if !run.join(RESULTS_FILE).exists() {
            tracing::warn!("{}: the run is not finished, its weights so far are used", run.display());
        }
        Ok(built)
    }

    /// The same without the temperature that `fidgp calibrate` may have fitted: the network that `results.json` is of.
    ///
    /// # Errors
    /// As [`Self::of_run`].
    pub fn as_trained(run: &Path, device: Device, data: Option<&Path>) -> Result<Self> {
        let mut built = Self::untrained(run, device, data)?;
        restore_as_trained(&built.config, run, &mut built.model)?;
        Ok(built)
    }

    /// The network of a run, its weights not read.
    fn untrained(run: &Path, device: Device, data: Option<&Path>) -> Result<Self> {
        let config = config::read(&run.join(CONFIG_FILE), &[])?;
        if matches!(config.data, DataConfig::Uci { .. }) {
            let why = "= \"uci\" keeps no weights of its splits, so there is no model to use";
            return Err(LabError::config("data.set", why));
        }
        let recorded = read_classes(run)?;
        let signature = Signature::expected(&config, recorded.as_ref().map(Vec::len))?;
        let (classes, view) = match signature {
            Signature::Regression { .. } => (Vec::new(), None),
            Signature::Segmentation { classes, .. } => (recorded.unwrap_or_else(|| unnamed(classes as usize)), None),
            Signature::Classification { classes, image, .. } => {
                let known = recorded.or_else(|| names(&config, data)).filter(|names| names.len() as i64 == classes);
                (known.unwrap_or_else(|| unnamed(classes as usize)), Some(View::of(&config.data, image)))
            }
        };
        let own_table = matches!(config.data, DataConfig::Table(_));
        let table = own_table.then(|| table::read_view(run)).transpose()?;
        let model = Model::init(&config, &signature, device)?;
        Ok(Self { config, model, classes, view, table })
    }

    /// The draws of a prediction; the same ones as in an evaluation of the run.
    fn draws(&self, count: u64) -> Result<Draws<'_>> {
        self.model.draws(count, Key::new(self.config.seed).fold("predict"))
    }
}

fn names(config: &RunConfig, root: Option<&Path>) -> Option<Vec<String>> {
    match (&config.data, root) {
        (DataConfig::Images { name, .. }, Some(root)) => catalogue::class_names(root, name).ok().flatten(),
        _ => None,
    }
}
