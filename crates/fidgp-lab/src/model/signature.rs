//! What a network is for: its inputs and outputs.

use fidgp_data::ChannelStatistics;
use fidgp_files::{Exceeded, limits};

use crate::config::{DataConfig, NormaliseConfig, RunConfig, SegmentationConfig, imagenet};
use crate::error::{LabError, Result};

/// What a network is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Signature {
    /// Features in, a number out.
    Regression {
        /// Columns of the input.
        features: i64,
    },
    /// Features in, a class out.
    Rows {
        /// Columns of the input.
        features: i64,
        /// Number of classes.
        classes: i64,
    },
    /// Images in, a class out.
    Classification {
        /// Channels, height, width.
        image: [i64; 3],
        /// Number of classes.
        classes: i64,
        /// What images are normalised with.
        statistics: ChannelStatistics,
    },
    /// Colour pictures of any size in, a class for every pixel out.
    Segmentation {
        /// Height and width of what training sees.
        crop: [i64; 2],
        /// Number of classes.
        classes: i64,
        /// What pictures are normalised with.
        statistics: ChannelStatistics,
    },
}

impl Signature {
    /// What the data set of a config has, known without reading it; somebody must say what one's own images are like.
    ///
    /// # Errors
    /// When the data set is not known, or nobody says how many classes there are, or how large arrays are.
    pub fn expected(config: &RunConfig, classes: Option<usize>) -> Result<Self> {
        let images = |image: [i64; 3], classes: i64| {
            let unknown = vec![0.0; image[0] as usize];
            let statistics = ChannelStatistics { mean: unknown.clone(), sd: unknown };
            Self::Classification { image, classes, statistics }
        };
        let unread =
            |key: &str, way: &str| LabError::config(key, format!("is missing: the folder is not read here, so {way}"));
        let count = |said: Option<usize>| {
            let count = classes.or(said).ok_or_else(|| unread("data.classes", "say how many it holds"))?;
            Ok::<_, LabError>(count as i64)
        };
        match &config.data {
            DataConfig::Synthetic1d { .. } => Ok(Self::Regression { features: 1 }),
            DataConfig::Uci { name, .. } => {
                Ok(Self::Regression { features: fidgp_data::uci::find(name)?.columns as i64 })
            }
            DataConfig::Table(table) => {
                let features = table.inputs.or(table.features.as_ref().map(Vec::len)).ok_or_else(|| {
                    let why = "is missing: the table is not read here, so name the columns that the network takes";
                    LabError::config("data.features", why)
                })? as i64;
                if !config.predicts_classes() {
                    return Ok(Self::Regression { features });
                }
                let classes = classes.or(table.classes).ok_or_else(|| {
                    LabError::config(
                        "data.classes",
                        "is missing: the table is not read here, so say how many there are",
                    )
                })? as i64;
                Ok(Self::Rows { features, classes })
            }
            DataConfig::Images { name, .. } => match name.as_str() {
                "cifar100" => Ok(images([3, 32, 32], 100)),
                "cifar10" | "svhn" => Ok(images([3, 32, 32], 10)),
                "mnist" | "fashion-mnist" | "notmnist" => Ok(images([1, 28, 28], 10)),
                other => {
                    Err(LabError::config("data.name", format!("`{other}` is not known; `fidgp data` lists the sets")))
                }
            },
            DataConfig::Folder(folder) => {
                let side = i64::from(folder.crop);
                Ok(images([3, side, side], count(folder.classes)?))
            }
            DataConfig::Arrays(arrays) => {
                let image = arrays.image.ok_or_else(|| {
                    unread("data.image", "say [channels, height, width], such as image = [3, 32, 32]")
                })?;
                Ok(images(image.map(|size| size as i64), count(arrays.classes)?))
            }
            DataConfig::Segmentation(pairs) => Ok(Self::of_pairs(config, pairs)),
        }
    }

    /// The signature of a network for pictures with masks.
    pub fn of_pairs(config: &RunConfig, pairs: &SegmentationConfig) -> Self {
        let given = config.normalisation.as_ref().and_then(NormaliseConfig::statistics);
        Self::Segmentation {
            crop: pairs.crop,
            classes: pairs.class_count() as i64,
            statistics: given.unwrap_or_else(imagenet),
        }
    }

    /// Refuses inputs and outputs that no network has, whoever says that there are as many.
    ///
    /// # Errors
    /// Names the limit.
    pub fn check_size(&self) -> std::result::Result<(), Exceeded> {
        let size = |number: i64| u64::try_from(number).unwrap_or(0);
        match self {
            Self::Regression { features } => limits::COLUMNS.check(size(*features)),
            Self::Rows { features, classes } => {
                limits::COLUMNS.check(size(*features))?;
                limits::CLASSES.check(size(*classes))
            }
            Self::Classification { image, classes, .. } => {
                limits::PIXELS.check_product(&image.map(size))?;
                limits::CLASSES.check(size(*classes))
            }
            Self::Segmentation { classes, .. } => limits::CLASSES.check(size(*classes)),
        }
    }

    /// The shape of an input, without the batch.
    pub(super) fn input(&self) -> Vec<i64> {
        match self {
            Self::Regression { features } | Self::Rows { features, .. } => vec![*features],
            Self::Classification { image, .. } => image.to_vec(),
            Self::Segmentation { crop, .. } => vec![3, crop[0], crop[1]],
        }
    }
}
