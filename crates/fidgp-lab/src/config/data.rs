//! What a run is trained on, and how images become numbers.

use std::path::{Path, PathBuf};

use fidgp_data::{ChannelStatistics, Standardiser, catalogue, uci};
use serde::{Deserialize, Serialize};

use super::{ArraysConfig, Augment, SegmentationConfig, TableConfig};
use crate::error::{LabError, Result};

/// The data sets there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "set", deny_unknown_fields)]
pub enum DataConfig {
    /// `x ~ U[.5,.8] ∪ U[1.2,1.6]`, `y ~ N(cos(4x+.8), .01)`, drawn with the run's seed.
    #[serde(rename = "synthetic-1d")]
    Synthetic1d {
        /// Training points.
        train: usize,
        /// Validation points.
        validation: usize,
        /// Test points.
        test: usize,
    },
    /// A UCI regression set with its standard splits, under `<data root>/uci/<name>`.
    Uci {
        /// boston, concrete, energy, kin8nm, naval, power, protein, wine or yacht.
        name: String,
        /// The standard splits, or one for each feature.
        #[serde(default, skip_serializing_if = "UciSplits::are_standard")]
        splits: UciSplits,
        /// The part of the training split that is held out for validation; 0 trains on all of it.
        #[serde(default)]
        validation_fraction: f64,
    },
    /// A table of numbers of one's own, with a number to predict.
    Table(TableConfig),
    /// A labelled image set that fits into memory, from the data root.
    Images {
        /// cifar10, cifar100, svhn, mnist, fashion-mnist or notmnist.
        name: String,
        /// The part of the training set that is held out for validation, the same share of every class.
        #[serde(default)]
        validation_fraction: f64,
        /// What is done to training images.
        #[serde(default)]
        augment: Augment,
        /// Use only so many training images, the first in the order of the file, for quick trials.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<usize>,
    },
    /// Labelled images of one's own as `.safetensors` or `.npy`, held in memory too.
    Arrays(ArraysConfig),
    /// Pictures of any size in `train/<class>/` and `val/<class>/`, decoded while the network computes.
    Folder(FolderConfig),
    /// Pictures with a class for every pixel.
    Segmentation(SegmentationConfig),
}

/// How the rows of a UCI set are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UciSplits {
    /// At random, as published.
    #[default]
    Standard,
    /// For each feature: trained on the outer thirds of the rows sorted by it, tested on the middle third.
    Gap,
}

impl UciSplits {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    fn are_standard(&self) -> bool {
        *self == Self::Standard
    }

    /// How many there are of a set.
    pub fn count(self, set: &uci::Known) -> usize {
        match self {
            Self::Standard => set.splits,
            Self::Gap => set.columns,
        }
    }

    /// Test rows for each training row.
    pub fn test_per_train(self) -> f64 {
        match self {
            Self::Standard => 1.0 / 9.0,
            Self::Gap => 1.0 / 2.0,
        }
    }
}

/// An image folder and the size its pictures get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderConfig {
    /// The folder that holds `train` and `val`, or the classes themselves; a relative one is looked for under the data root.
    pub path: PathBuf,
    /// The path holds the classes themselves, and this share of each is held out for testing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_fraction: Option<f64>,
    /// How many classes there must be; counting a config's cost needs it, as no data is read for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<usize>,
    /// Evaluation: the shorter side is brought to this many pixels.
    #[serde(default = "resize")]
    pub resize: u32,
    /// Side of the square the network sees: a random crop in training, the middle at evaluation.
    #[serde(default = "crop")]
    pub crop: u32,
    /// The part of `train` that is held out for validation, the same share of every class.
    #[serde(default)]
    pub validation_fraction: f64,
    /// Uses only so many training pictures, evenly spaced over the classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

fn resize() -> u32 {
    256
}

fn crop() -> u32 {
    224
}

impl FolderConfig {
    /// Checks the sizes.
    pub(super) fn check(&self) -> Result<()> {
        if self.crop == 0 || self.crop > self.resize {
            let why = format!("{} must be at least 1 and at most data.resize ({})", self.crop, self.resize);
            return Err(LabError::config("data.crop", why));
        }
        if let Some(fraction) = self.test_fraction.filter(|fraction| !(*fraction > 0.0 && *fraction < 1.0)) {
            let why = format!("{fraction} must lie between 0 and 1; 0.1 is usual");
            return Err(LabError::config("data.test_fraction", why));
        }
        Ok(())
    }
}

/// Whether a set of small images has this name, and where else it belongs if not.
pub(super) fn check_image_set(name: &str) -> Result<()> {
    let wrong = |why: String| Err(LabError::config("data.name", why));
    match catalogue::find(name).map(|entry| entry.name) {
        Ok("imagenet") => {
            wrong("= \"imagenet\" is not held in memory; use data.set = \"folder\" and data.path".to_owned())
        }
        Ok(pixels @ ("camvid" | "cityscapes")) => {
            wrong(format!("= \"{pixels}\" has a class for every pixel; use data.set = \"segmentation\" and data.path"))
        }
        Ok("uci") => wrong("= \"uci\" has no images; use data.set = \"uci\" and a data.name such as yacht".to_owned()),
        Ok(known) if known != name => wrong(format!("= \"{name}\" is written `{known}`")),
        Ok(_) => Ok(()),
        Err(_) => wrong(format!(
            "= \"{name}\" is not known; known are cifar10, cifar100, svhn, mnist, fashion-mnist, notmnist"
        )),
    }
}

impl DataConfig {
    /// As it stands in results.
    pub fn name(&self) -> String {
        match self {
            Self::Synthetic1d { .. } => "synthetic-1d".to_owned(),
            Self::Uci { name, splits: UciSplits::Gap, .. } => format!("uci/{name}, gap splits"),
            Self::Uci { name, .. } => format!("uci/{name}"),
            Self::Images { name, .. } => name.clone(),
            Self::Table(_) | Self::Arrays(_) | Self::Folder(_) | Self::Segmentation(_) => {
                let name = self.path().and_then(Path::file_name).unwrap_or_default();
                name.to_string_lossy().into_owned()
            }
        }
    }

    /// The folder, or the file, of one's own data.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Table(table) => Some(&table.path),
            Self::Arrays(arrays) => Some(&arrays.path),
            Self::Folder(folder) => Some(&folder.path),
            Self::Segmentation(pairs) => Some(&pairs.path),
            Self::Synthetic1d { .. } | Self::Uci { .. } | Self::Images { .. } => None,
        }
    }

    /// Whether inputs are images.
    pub fn has_images(&self) -> bool {
        self.has_classes() || self.has_masks()
    }

    /// Whether inputs are pictures with a class for every pixel.
    pub fn has_masks(&self) -> bool {
        matches!(self, Self::Segmentation(_))
    }

    /// Whether it is a table of one's own.
    pub fn is_own_table(&self) -> bool {
        matches!(self, Self::Table(_))
    }

    /// Whether it is divided into training and test data several times, each trained and measured by itself.
    pub fn has_splits(&self) -> bool {
        matches!(self, Self::Uci { .. })
    }

    /// Whether inputs are images with a class each.
    pub fn has_classes(&self) -> bool {
        matches!(self, Self::Images { .. } | Self::Arrays(_) | Self::Folder(_))
    }

    /// How many training images are used at most, where a config says so.
    pub fn limit(&self) -> Option<usize> {
        match self {
            Self::Folder(folder) => folder.limit,
            _ => self.in_memory()?.1,
        }
    }

    /// What is done to training images that are held in memory, and how many are used at most.
    pub fn in_memory(&self) -> Option<(Augment, Option<usize>)> {
        match self {
            Self::Images { augment, limit, .. } => Some((*augment, *limit)),
            Self::Arrays(arrays) => Some((arrays.augment, arrays.limit)),
            _ => None,
        }
    }

    /// The same with what is left open here taken from another.
    pub(super) fn filled_from(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Table(own), Self::Table(other)) => Self::Table(own.filled_from(other)),
            (Self::Folder(own), Self::Folder(other)) => {
                Self::Folder(FolderConfig { classes: own.classes.or(other.classes), ..own.clone() })
            }
            (Self::Arrays(own), Self::Arrays(other)) => Self::Arrays(own.filled_from(other)),
            _ => self.clone(),
        }
    }

    /// The part of the training data that is held out.
    pub fn validation_fraction(&self) -> Option<f64> {
        match self {
            Self::Synthetic1d { .. } => None,
            Self::Uci { validation_fraction, .. } | Self::Images { validation_fraction, .. } => {
                Some(*validation_fraction)
            }
            Self::Table(table) => Some(table.validation_fraction),
            Self::Arrays(arrays) => Some(arrays.validation_fraction),
            Self::Folder(folder) => Some(folder.validation_fraction),
            Self::Segmentation(pairs) => Some(pairs.validation_fraction),
        }
    }
}

/// What images, or the columns of a table, are normalised with. It belongs to the model and is stored with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "it is \"data\", \"imagenet\", \"none\" or { mean = [...], sd = [...] }")]
pub enum NormaliseConfig {
    /// By name.
    Named(NamedNormalisation),
    /// By number, on the scale where 255 is 1.
    Given {
        /// For each channel.
        mean: Vec<f64>,
        /// For each channel.
        sd: Vec<f64>,
    },
}

/// Normalisations that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedNormalisation {
    /// Mean and deviation of the training images.
    Data,
    /// ImageNet's, which weights from elsewhere usually expect.
    Imagenet,
    /// None: a table's numbers as they are, the target's too.
    None,
}

impl NormaliseConfig {
    /// Mean and deviation of each channel; `None` where the training images are to be measured.
    pub fn statistics(&self) -> Option<ChannelStatistics> {
        match self {
            Self::Named(NamedNormalisation::Data | NamedNormalisation::None) => None,
            Self::Named(NamedNormalisation::Imagenet) => Some(imagenet()),
            Self::Given { mean, sd } => Some(ChannelStatistics { mean: mean.clone(), sd: sd.clone() }),
        }
    }

    /// What a table is standardised with, given what its training rows say. A network that was trained elsewhere gives the
    /// target's own numbers: where a normalisation is given, the target is not scaled.
    ///
    /// # Errors
    /// When it is for another number of columns.
    pub fn of_columns(given: Option<&Self>, fitted: Standardiser) -> Result<Standardiser> {
        let columns = fitted.feature_mean.len();
        let (feature_mean, feature_sd) = match given {
            Some(Self::Named(NamedNormalisation::None)) => (vec![0.0; columns], vec![1.0; columns]),
            Some(Self::Given { mean, sd }) if mean.len() == columns => (mean.clone(), sd.clone()),
            Some(Self::Given { mean, .. }) => {
                let why = format!("has {} means, the network takes {columns} columns of the table", mean.len());
                return Err(LabError::config("normalisation", why));
            }
            _ => return Ok(fitted),
        };
        Ok(Standardiser { feature_mean, feature_sd, target_mean: 0.0, target_sd: 1.0, ..fitted })
    }

    /// Checks the numbers.
    pub(super) fn check(&self) -> Result<()> {
        let Self::Given { mean, sd } = self else { return Ok(()) };
        let sound = mean.iter().all(|m| m.is_finite()) && sd.iter().all(|s| *s > 0.0 && s.is_finite());
        if mean.is_empty() || mean.len() != sd.len() || !sound {
            let why = "needs a mean and a deviation above 0 for each channel or column, such as { mean = [0.5], sd = [0.25] }";
            return Err(LabError::config("normalisation", why));
        }
        Ok(())
    }
}

/// Mean and deviation of ImageNet's training images, as weights from elsewhere were trained with.
pub fn imagenet() -> ChannelStatistics {
    ChannelStatistics { mean: vec![0.485, 0.456, 0.406], sd: vec![0.229, 0.224, 0.225] }
}
