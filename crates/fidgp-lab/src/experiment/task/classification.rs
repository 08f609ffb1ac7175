//! A class for every image.

use std::path::Path;

use fidgp::Key;
use fidgp_data::Part;
use fidgp_metrics::names;
use tch::{Kind, Tensor};

use super::Spreads;
use super::image_sets::{self, Set, Sets, SplitRole};
use super::{HeldOut, Measure, Measured, Task};
use crate::config::{RunConfig, Select};
use crate::error::{LabError, Result};
use crate::evaluate::{self, Spread, permuted_pixels};
use crate::model::{Model, OwnPart, Signature};
use crate::predict::Trained;
use crate::record::Figure;
use crate::run_folder::norms::are_missing;
use crate::run_folder::{TrainedOn, write_classes};
use crate::source::{Chunks, ImageSet, Source};

/// Images at most that are also looked at with their pixels permuted.
const IMAGES_SCRAMBLED: usize = 128;

/// Labelled images.
pub struct Classification {
    /// The config, with what arrays and folders say of themselves.
    pub config: RunConfig,
    /// For fitting; none where only the test images are at hand.
    pub train: Option<Set>,
    /// For choosing; none where nothing is chosen.
    pub validation: Option<Set>,
    /// For reporting.
    pub test: Set,
}

impl Classification {
    /// Reads (or lists) the images of a config.
    ///
    /// # Errors
    /// When a file is missing or broken, or there are too few images for what the config asks for.
    pub fn read(config: &RunConfig, root: &Path) -> Result<Self> {
        let sets = Sets::read(config, root)?;
        if sets.validation.is_none() && config.train.select == Select::Best {
            let (fraction, images) = (config.data.validation_fraction().unwrap_or(0.0), sets.train.rows());
            let why = format!(
                "= {fraction} leaves no validation image beside {images} for training; train.select = \"best\" needs some"
            );
            return Err(LabError::config("data.validation_fraction", why));
        }
        if let Some((why, class)) = config.method.about().needs_pairs.zip(sets.train.class_of_one()) {
            let name = config.method.name();
            let why = format!("= \"{name}\" {why}, and `{class}` has one training image; give it two, or none");
            return Err(LabError::config("method", why));
        }
        for set in [Some(&sets.train), sets.validation.as_ref(), Some(&sets.test)].into_iter().flatten() {
            set.check_pictures()?;
        }
        Ok(Self::of_sets(sets.train.filled_in(config)?, sets))
    }

    /// The images that a trained model is measured on: the test images alone where the others cannot be read.
    ///
    /// # Errors
    /// When not even those can be read, or the model needs the others.
    pub fn of_model(predictor: &Trained, root: &Path) -> Result<Self> {
        let config = predictor.config.clone();
        let error = match Sets::read(&config, root) {
            Ok(sets) => return Ok(Self::of_sets(config, sets)),
            Err(error) => error,
        };
        let test = image_sets::part(&config, root, Part::Test);
        let lacks_norms = are_missing(&config, &predictor.model);
        let Some(test) = test.ok().filter(|_| !lacks_norms) else { return Err(error) };
        tracing::warn!("only the test images are measured: {error}");
        Ok(Self { config, train: None, validation: None, test })
    }

    fn of_sets(config: RunConfig, sets: Sets) -> Self {
        Self { config, train: Some(sets.train), validation: sets.validation, test: sets.test }
    }

    fn train(&self) -> Result<&Set> {
        self.train.as_ref().ok_or_else(|| LabError::config("data", "has no training images here"))
    }

    fn measured(&self, model: &Model, images: &dyn ImageSet, draws: u64) -> Result<Measured> {
        let key = Key::new(self.config.seed).fold("predict");
        let size = self.config.predict.batch_size;
        let part = model.parts.part(images.len().div_ceil(size));
        let chunks = images.some_chunks(size, part.own.clone());
        classified(model, (draws, key), chunks, &part)
    }
}

/// Measures a model that tells classes apart, by its draws or by its linearised posterior.
pub(super) fn classified(model: &Model, (draws, key): (u64, Key), chunks: Chunks, part: &OwnPart) -> Result<Measured> {
    let found = if model.posterior.is_some() {
        let mut law = model.law(draws, key, 0)?;
        evaluate::classify_by(law.as_mut(), model.network.as_ref(), chunks, part)?
    } else {
        evaluate::classify(model.draws(draws, key)?, chunks, part, model.recalibration.as_ref())?
    };
    Ok(Measured {
        metrics: found.metrics,
        notes: found.notes,
        examples: Some(found.examples),
        figure: Some(Figure::Classification(found.figure)),
        aside: 0.0,
    })
}

impl Task for Classification {
    fn config(&self) -> &RunConfig {
        &self.config
    }

    fn signature(&self) -> Result<Signature> {
        self.train()?.signature(&self.config)
    }

    fn classes(&self) -> &[String] {
        self.test.classes()
    }

    fn trained_on(&self) -> Option<TrainedOn> {
        self.train.as_ref().map(Set::trained_on)
    }

    fn examples<'a>(&'a self, model: &Model, role: SplitRole) -> Result<Box<dyn Source + 'a>> {
        Ok(self.train()?.source(&self.config, model, role, model.store.device())?)
    }

    fn measure<'a>(&'a self, part: HeldOut, model: &Model) -> Result<Option<Measure<'a>>> {
        let set = match part {
            HeldOut::Validation => self.validation.as_ref(),
            HeldOut::Test => Some(&self.test),
        };
        let Some(set) = set else { return Ok(None) };
        let images = set.source(&self.config, model, SplitRole::Measuring, model.store.device())?;
        Ok(Some(Box::new(move |model, draws, _| self.measured(model, images.as_ref(), draws))))
    }

    fn spreads(&self, model: &Model, draws: u64) -> Result<Option<Spreads>> {
        let (part, set) = match &self.validation {
            Some(set) => (HeldOut::Validation, set),
            None => (HeldOut::Test, &self.test),
        };
        let images = set.source(&self.config, model, SplitRole::Measuring, model.store.device())?;
        spreads_of((&self.config, model), (part, images.as_ref()), draws).map(Some)
    }

    fn chosen_by(&self) -> &'static str {
        names::CLS_NLL
    }

    fn test_sha256(&self) -> Option<String> {
        Some(self.test.fingerprint())
    }

    fn keep(&self, run: &Path) -> Result<()> {
        write_classes(run, self.classes())
    }

    fn announces(&self) -> Option<String> {
        Some(format!("{} test images", self.test.rows()))
    }
}

/// Uncertainty on the first images of a set, and on the same with their pixels permuted.
pub(in crate::experiment) fn spreads_of(
    (config, model): (&RunConfig, &Model),
    (part, images): (HeldOut, &dyn ImageSet),
    draws: u64,
) -> Result<Spreads> {
    let rows = Tensor::arange(images.len().min(IMAGES_SCRAMBLED) as i64, (Kind::Int64, model.store.device()));
    let (pictures, _) = images.batch(&rows, None)?;
    let key = Key::new(config.seed);
    let spread = |x: &Tensor| Spread::of(model, x, (draws, key.fold("predict"), config.predict.batch_size));
    let scrambled = spread(&permuted_pixels(&pictures, key.fold("scrambled")))?;
    Ok(Spreads { part, own: spread(&pictures)?, scrambled: Some(scrambled) })
}
