//! The images of a config: in memory or on disk, with their classes.

use std::path::Path;

use fidgp_data::{ImageFolder, Images, Part, catalogue, split};
use tch::Device;

use crate::config::{Augment, DataConfig, FolderConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::model::{Model, Signature};
use crate::run_folder::TrainedOn;
use crate::source::{Decoder, FolderSource, ImageSet, ImageSource, View};

/// Pictures of a folder that are all decoded once before a training; of more it would take too long.
const MOST_LOOKED_AT: usize = 100_000;

/// What the test part of a folder that has none follows from; that of validation is 0.
const TEST_SEED: u64 = 1;

/// Labelled images.
pub enum Set {
    /// Of one size, as bytes.
    Memory(Images),
    /// Of any size, decoded when they are asked for.
    Folder(ImageFolder),
}

/// Training, validation and test images of a config.
pub struct Sets {
    /// For fitting.
    pub train: Set,
    /// For choosing; none without a validation fraction.
    pub validation: Option<Set>,
    /// For reporting.
    pub test: Set,
}

/// Whether a set is for training or for measuring.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SplitRole {
    /// Random changes, as the config says.
    Training,
    /// None.
    Measuring,
}

impl Set {
    /// The names of the classes.
    pub fn classes(&self) -> &[String] {
        match self {
            Self::Memory(images) => images.class_names(),
            Self::Folder(folder) => folder.class_names(),
        }
    }

    /// How many images there are.
    pub fn rows(&self) -> usize {
        self.labels().len()
    }

    /// What a run on these images remembers of them: of pixels and labels, or of the files' places where pictures are read
    /// one by one.
    pub fn trained_on(&self) -> TrainedOn {
        TrainedOn { examples: self.rows(), sha256: self.fingerprint() }
    }

    /// SHA-256 of the images, as far as they are held in memory.
    pub fn fingerprint(&self) -> String {
        match self {
            Self::Memory(images) => images.fingerprint(),
            Self::Folder(folder) => folder.fingerprint(),
        }
    }

    /// A class that has a single image.
    pub fn class_of_one(&self) -> Option<&str> {
        let mut counts = vec![0; self.classes().len()];
        self.labels().iter().for_each(|&label| counts[label as usize] += 1);
        counts.iter().position(|&count| count == 1).map(|class| self.classes()[class].as_str())
    }

    /// The number of each image's class.
    pub fn labels(&self) -> &[u32] {
        match self {
            Self::Memory(images) => images.labels(),
            Self::Folder(folder) => folder.labels(),
        }
    }

    /// Some of the images, in the order named.
    ///
    /// # Errors
    /// When there is no such image.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        Ok(match self {
            Self::Memory(images) => Self::Memory(images.select(rows)?),
            Self::Folder(folder) => Self::Folder(folder.select(rows)?),
        })
    }

    /// Decodes the pictures of a folder that is not too large for that, so that damaged ones are known before a training begins.
    ///
    /// # Errors
    /// Names every picture that is damaged.
    pub fn check_pictures(&self) -> Result<()> {
        match self {
            Self::Folder(folder) if folder.rows() <= MOST_LOOKED_AT => {
                folder.survey(|_| (), &|_, _| ())?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The set as a model sees it.
    pub fn source(
        &self,
        config: &RunConfig,
        model: &Model,
        role: SplitRole,
        device: Device,
    ) -> Result<Box<dyn ImageSet>> {
        let normalisation = model.normalisation.as_ref();
        let normalisation = normalisation.ok_or_else(|| LabError::config("network", "has no normalisation"))?;
        let augment = match config.data.in_memory() {
            Some((augment, _)) if role == SplitRole::Training => augment,
            _ => Augment::None,
        };
        Ok(match self {
            Self::Memory(images) => Box::new(ImageSource::new(images, augment, normalisation, device)),
            Self::Folder(folder) => {
                let view = View::of(&config.data, folder_image(config));
                Box::new(FolderSource::new(Decoder::new(folder.clone(), view)?, normalisation, device))
            }
        })
    }

    /// The signature of a network for these images.
    ///
    /// # Errors
    /// When they are to be normalised with their own deviation and have none.
    pub fn signature(&self, config: &RunConfig) -> Result<Signature> {
        let classes = self.classes().len() as i64;
        let given = config.normalisation.as_ref().and_then(crate::config::NormaliseConfig::statistics);
        let (image, statistics) = match self {
            Self::Memory(images) => {
                let statistics = given.unwrap_or_else(|| images.channel_statistics());
                (images.size().map(|size| size as i64), statistics)
            }
            Self::Folder(_) => (folder_image(config), given.unwrap_or_else(crate::config::imagenet)),
        };
        let constant = statistics.sd.iter().position(|sd| *sd <= 0.0);
        if let Some(channel) = constant.filter(|_| self.rows() > 0) {
            let why =
                format!("= \"data\": channel {channel} is the same everywhere; give {{ mean = [...], sd = [...] }}");
            return Err(LabError::config("normalisation", why));
        }
        Ok(Signature::Classification { image, classes, statistics })
    }

    /// The config with what arrays and folders say of themselves, for those who use the network without them.
    ///
    /// # Errors
    /// When it weighs a class that is not there.
    pub fn filled_in(&self, config: &RunConfig) -> Result<RunConfig> {
        let (mut config, classes) = (config.clone(), Some(self.classes().len()));
        match (self, &mut config.data) {
            (Self::Memory(images), DataConfig::Arrays(arrays)) => {
                arrays.image = Some(images.size());
                arrays.classes = classes;
            }
            (Self::Folder(_), DataConfig::Folder(folder)) => folder.classes = classes,
            _ => {}
        }
        config.with_class_weights(self.classes(), self.labels().iter().map(|&label| label as usize))
    }
}

/// `[channels, height, width]` of what a network sees of a folder.
fn folder_image(config: &RunConfig) -> [i64; 3] {
    let side = if let DataConfig::Folder(folder) = &config.data { i64::from(folder.crop) } else { 0 };
    [3, side, side]
}

impl Sets {
    /// Reads (or lists) the images a config names and holds out its validation part.
    ///
    /// # Errors
    /// When a file is missing or broken; the message names it.
    pub fn read(config: &RunConfig, root: &Path) -> Result<Self> {
        let [all, test] = match &config.data {
            DataConfig::Arrays(arrays) => arrays.both(root)?.map(Set::Memory),
            _ => [part(config, root, Part::Train)?, part(config, root, Part::Test)?],
        };
        same_classes(&all, &test)?;
        // The validation images depend on the data alone, not on the run's seed: all runs choose on the same ones.
        let holdout = split::stratified(all.labels(), config.data.validation_fraction().unwrap_or(0.0), 0)?;
        let validation = if holdout.validation.is_empty() { None } else { Some(all.select(&holdout.validation)?) };
        let found = holdout.train.len();
        let kept = config.data.limit().unwrap_or(found).min(found);
        let train = match &all {
            Set::Memory(_) => all.select(&holdout.train[..kept])?,
            // a folder lists class after class
            Set::Folder(_) => all.select(&(0..kept).map(|i| holdout.train[i * found / kept]).collect::<Vec<_>>())?,
        };
        Ok(Self { train, validation, test })
    }
}

/// The training or the test images of a config.
///
/// # Errors
/// When a file is missing or broken; the message names it.
pub fn part(config: &RunConfig, root: &Path, part: Part) -> Result<Set> {
    match &config.data {
        DataConfig::Images { name, .. } => {
            let images = catalogue::images(root, name, part)?;
            let (found, official) = (images.rows(), catalogue::official_rows(name, part));
            if let Some(official) = official.filter(|official| *official != found) {
                tracing::warn!("{}: {found} images here, {official} in the official set", images.name());
            }
            Ok(Set::Memory(images))
        }
        DataConfig::Arrays(arrays) => Ok(Set::Memory(arrays.part(root, part)?)),
        DataConfig::Folder(folder) => Ok(Set::Folder(open(folder, root, part)?)),
        _ => Err(LabError::config("data.set", "must be \"images\", \"arrays\" or \"folder\"")),
    }
}

fn open(config: &FolderConfig, root: &Path, part: Part) -> Result<ImageFolder> {
    let path = root.join(&config.path);
    let folder = match config.test_fraction {
        Some(fraction) => held_out(&ImageFolder::open(&path)?, fraction, part)?,
        None => ImageFolder::open(&path.join(if part == Part::Train { "train" } else { "val" }))?,
    };
    let found = folder.class_names().len();
    match config.classes {
        Some(classes) if classes != found => {
            let why = format!("= {classes}, but {} holds {found} class folders", folder.root().display());
            Err(LabError::config("data.classes", why))
        }
        _ => Ok(folder),
    }
}

/// The pictures that are trained on, or those that are held out for testing: the same ones whatever the run's seed.
fn held_out(all: &ImageFolder, fraction: f64, part: Part) -> Result<ImageFolder> {
    let holdout = split::stratified(all.labels(), fraction, TEST_SEED)?;
    if holdout.validation.is_empty() {
        let why = format!("= {fraction} holds out none of {} pictures", all.rows());
        return Err(LabError::config("data.test_fraction", why));
    }
    Ok(all.select(if part == Part::Train { &holdout.train } else { &holdout.validation })?)
}

fn same_classes(train: &Set, test: &Set) -> Result<()> {
    let (train, test) = (train.classes(), test.classes());
    if train == test {
        return Ok(());
    }
    let only = |these: &[String], those: &[String], part: &str| {
        let first = these.iter().find(|class| !those.contains(class));
        first.map_or(String::new(), |class| format!("; only {part} has `{class}`"))
    };
    let (first, second) = (only(train, test, "train/"), only(test, train, "val/"));
    let why = format!(
        "has {} classes in train/ and {} in val/ that must be the same{first}{second}",
        train.len(),
        test.len()
    );
    Err(LabError::config("data.path", why))
}
