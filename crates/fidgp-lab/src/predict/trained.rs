//! A trained model, as it was opened.

use std::path::Path;

use fidgp_data::{Table, catalogue, unnamed};
use fidgp_decision::Calibration;
use tch::{Device, Kind, Tensor};

use crate::config::{self, DataConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::files::{CONFIG_FILE, MODEL_CONFIG_FILE};
use crate::json;
use crate::model::{Model, Signature};
use crate::record::RESULTS_FILE;
use crate::run_folder::calibration::{self, Predicting};
use crate::run_folder::{read_classes, read_view, restore, restore_as_trained, restore_to_fit};
use crate::source::{TableSource, TableView, View};

/// A trained model.
#[derive(Debug)]
pub struct Trained {
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

impl Trained {
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

    /// The same where another posterior will be fitted: one that cannot be read is warned of and left out.
    ///
    /// # Errors
    /// As [`Self::of_run`].
    pub fn before_fit(run: &Path, device: Device, data: Option<&Path>) -> Result<Self> {
        let mut built = Self::untrained(run, device, data)?;
        restore_to_fit(&built.config, run, &mut built.model)?;
        Ok(built)
    }

    /// The config of the model in a folder, of a run or a model.
    ///
    /// # Errors
    /// When it is neither, or the config is broken.
    pub fn config_of(folder: &Path) -> Result<RunConfig> {
        #[derive(serde::Deserialize)]
        struct Exported {
            run: RunConfig,
        }
        let (own, model) = (folder.join(CONFIG_FILE), folder.join(MODEL_CONFIG_FILE));
        if own.exists() || !model.exists() {
            return config::read(&own, &[]);
        }
        Ok(json::read::<Exported>(&model)?.run)
    }

    /// What predicts, as rules for decisions know it.
    pub fn predicting(&self) -> Predicting<'_> {
        Predicting { model: &self.model, view: self.view.as_ref(), table: self.table.as_ref() }
    }

    /// The rules for decisions in a folder, where there are any.
    ///
    /// # Errors
    /// When they are broken, or not of this model.
    pub fn rules(&self, folder: &Path) -> Result<Option<Calibration>> {
        self.predicting().rules(folder)
    }

    /// The network of a run, its weights not read.
    fn untrained(run: &Path, device: Device, data: Option<&Path>) -> Result<Self> {
        _ = calibration::settle(run); // a folder that cannot be written is used as it is
        let config = config::read(&run.join(CONFIG_FILE), &[])?;
        if config.data.has_splits() {
            let why = "= \"uci\" keeps no weights of its splits, so there is no model to use";
            return Err(LabError::config("data.set", why));
        }
        let recorded = read_classes(run)?;
        let signature = Signature::expected(&config, recorded.as_ref().map(Vec::len))?;
        let (classes, view) = match signature {
            Signature::Regression { .. } => (Vec::new(), None),
            Signature::Segmentation { classes, .. } | Signature::Rows { classes, .. } => {
                (recorded.unwrap_or_else(|| unnamed(classes as usize)), None)
            }
            Signature::Classification { classes, image, .. } => {
                let known = recorded.or_else(|| names(&config, data)).filter(|names| names.len() as i64 == classes);
                (known.unwrap_or_else(|| unnamed(classes as usize)), Some(View::of(&config.data, image)))
            }
        };
        let own_table = config.data.is_own_table();
        let table = own_table.then(|| read_view(run)).transpose()?;
        let model = Model::init(&config, &signature, device)?;
        Ok(Self { config, model, classes, view, table })
    }

    /// Whether the model gives a class for every pixel.
    pub fn segments(&self) -> bool {
        self.config.data.has_masks()
    }

    /// How pictures become inputs when whole pictures are scored: a segmentation sees a square as high as its crop.
    pub fn square_view(&self) -> Option<View> {
        match &self.config.data {
            DataConfig::Segmentation(pairs) => {
                let side = pairs.crop[0].min(pairs.crop[1]) as u32;
                Some(View { channels: 3, resize: side, crop: side })
            }
            _ => self.view,
        }
    }

    /// How many numbers a row has that the model takes; none where it takes pictures.
    ///
    /// # Errors
    /// When its config does not say.
    pub fn columns(&self) -> Result<Option<usize>> {
        if let Some(table) = &self.table {
            return Ok(Some(table.features.len()));
        }
        if self.model.likelihood.reading().numbers().is_none() {
            return Ok(None);
        }
        let expected = Signature::expected(&self.config, Some(self.classes.len()))?;
        Ok(if let Signature::Regression { features } = expected { Some(features as usize) } else { None })
    }

    /// The names of the columns that the model takes; numbered where they have none.
    ///
    /// # Errors
    /// When its config does not say how many there are.
    pub fn feature_names(&self) -> Result<Vec<String>> {
        if let Some(table) = &self.table {
            return Ok(table.features.clone());
        }
        Ok((0..self.columns()?.unwrap_or(0)).map(|column| format!("x{column}")).collect())
    }

    /// Rows of a table, row-major, as the network takes them, in batches.
    pub(super) fn inputs_of_rows(&self, name: &str, rows: &[f64]) -> Result<Vec<Tensor>> {
        let names = self.feature_names()?;
        let columns = names.len();
        if columns == 0 {
            return Err(LabError::config("MODEL", "takes pictures, not tables"));
        }
        if rows.is_empty() || !rows.len().is_multiple_of(columns) {
            return Err(LabError::config(name, format!("are {} numbers, no whole rows of {columns}", rows.len())));
        }
        let targets = vec![1.0; rows.len() / columns]; // not known, and not looked at; 1 has a logarithm
        let given = Table::new(name, rows.to_vec(), columns, targets)?;
        let standard = self.table.as_ref().map(|table| table.scale.transform(&given)).transpose()?;
        let source = TableSource::of_columns(standard.as_ref().unwrap_or(&given), &names, self.model.store.device())?;
        Ok(source.batches(self.config.predict.batch_size))
    }

    /// Pixels as the network takes them. `[N, C, H, W]`, 0 … 255
    pub(super) fn normalised(&self, pixels: &Tensor) -> Result<Tensor> {
        let normalisation = self.model.normalisation.as_ref();
        let normalisation = normalisation.ok_or_else(|| LabError::config("MODEL", "has no normalisation"))?;
        Ok(normalisation.apply(&pixels.to_device(self.model.store.device()).to_kind(Kind::Float)))
    }
}

fn names(config: &RunConfig, root: Option<&Path>) -> Option<Vec<String>> {
    match (&config.data, root) {
        (DataConfig::Images { name, .. }, Some(root)) => catalogue::class_names(root, name).ok().flatten(),
        _ => None,
    }
}
