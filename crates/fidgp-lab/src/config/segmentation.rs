//! Pictures with a mask each.

use std::path::{Path, PathBuf};

use fidgp_data::segmentation::{self, PORTION, Portion};
use fidgp_data::{PairSet, split};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};

/// How files are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// CamVid as SegNet keeps it: `train/`, `trainannot/`, …
    Segnet,
    /// CamVid as its authors distribute it, with colours for labels.
    Camvid,
    /// Cityscapes: `leftImg8bit/`, `gtFine/`; tested on its `val`.
    Cityscapes,
    /// Pictures in one folder, index masks of the same names in another.
    Masks,
}

/// Pictures with masks, and what is done to them in training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentationConfig {
    /// How files are laid out.
    pub layout: Layout,
    /// The folder; a relative one is looked for under the data root.
    pub path: PathBuf,
    /// Height and width of what training sees of a picture.
    pub crop: [i64; 2],
    /// Least and largest factor a picture is enlarged by before the crop.
    #[serde(default = "scale")]
    pub scale: [f64; 2],
    /// Whether half of the pictures are mirrored.
    #[serde(default = "yes")]
    pub flip: bool,
    /// Largest relative change of brightness, contrast and saturation.
    #[serde(default)]
    pub jitter: f64,
    /// The part of the training pictures that is held out for validation; 0 takes the layout's own `val`, where it has one.
    #[serde(default)]
    pub validation_fraction: f64,
    /// Use only so many training pictures, evenly spread, for quick trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// `masks`: folder of the pictures, `{part}` standing for train, val and test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<String>,
    /// `masks`: folder of the masks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masks: Option<String>,
    /// `masks`: names of the classes, from index 0 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<String>>,
    /// `masks`: indices of pixels that have no class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<Vec<u8>>,
}

fn scale() -> [f64; 2] {
    [1.0, 1.0]
}

fn yes() -> bool {
    true
}

/// Training, validation and test pairs.
pub struct PairSets {
    /// For fitting.
    pub train: PairSet,
    /// For choosing.
    pub validation: Option<PairSet>,
    /// For reporting.
    pub test: PairSet,
}

impl SegmentationConfig {
    /// Checks the numbers.
    pub(super) fn check(&self) -> Result<()> {
        if self.crop.iter().any(|side| *side < 1) {
            return Err(LabError::config("data.crop", format!("{:?} must be at least [1, 1]", self.crop)));
        }
        let [least, most] = self.scale;
        if !(least > 0.0 && most >= least && most.is_finite()) {
            let why = format!("{:?} must be two numbers above 0, the lesser first; [0.5, 2.0] is usual", self.scale);
            return Err(LabError::config("data.scale", why));
        }
        if !(0.0..1.0).contains(&self.jitter) {
            return Err(LabError::config("data.jitter", format!("{} must lie in [0, 1)", self.jitter)));
        }
        if self.limit == Some(0) {
            return Err(LabError::config("data.limit", "0 must be at least 1"));
        }
        let own = [("images", self.images.is_some()), ("masks", self.masks.is_some()), ("void", self.void.is_some())];
        let own = own.into_iter().chain([("classes", self.classes.is_some())]);
        match (self.layout, own.into_iter().find(|(_, given)| *given)) {
            (Layout::Masks, _) if self.classes.as_ref().is_none_or(Vec::is_empty) => {
                Err(LabError::config("data.classes", "is missing: name the classes of the masks, from index 0 on"))
            }
            (Layout::Masks, _) | (_, None) => Ok(()),
            (_, Some((key, _))) => Err(LabError::config(
                format!("data.{key}"),
                "is for layout = \"masks\"; the other layouts know their own",
            )),
        }
    }

    /// Number of classes, known without reading anything.
    pub fn class_count(&self) -> usize {
        match self.layout {
            Layout::Segnet | Layout::Camvid => 11,
            Layout::Cityscapes => 19,
            Layout::Masks => self.classes.as_ref().map_or(0, Vec::len),
        }
    }

    /// Whether there is something to choose on.
    pub(super) fn has_validation(&self) -> bool {
        self.layout != Layout::Cityscapes || self.validation_fraction > 0.0
    }

    /// Lists the pairs of all parts.
    ///
    /// # Errors
    /// When a folder or one of a pair is missing; the message names it.
    pub fn open(&self, root: &Path) -> Result<PairSets> {
        let all = self.part(root, Portion::Train)?;
        let test =
            self.part(root, if self.layout == Layout::Cityscapes { Portion::Validation } else { Portion::Test })?;
        let (kept, validation) = if self.validation_fraction > 0.0 {
            // The same pictures for every run, whatever its seed.
            let holdout = split::stratified(&vec![0; all.rows()], self.validation_fraction, 0)?;
            (holdout.train, Some(all.select(&holdout.validation)?))
        } else if self.layout == Layout::Cityscapes {
            ((0..all.rows()).collect(), None)
        } else {
            ((0..all.rows()).collect(), Some(self.part(root, Portion::Validation)?))
        };
        let validation = validation.filter(|set| set.rows() > 0); // a small fraction of few pictures is none
        let count = self.limit.unwrap_or(kept.len()).min(kept.len());
        let spread: Vec<_> = (0..count).map(|index| kept[index * kept.len() / count]).collect();
        Ok(PairSets { train: all.select(&spread)?, validation, test })
    }

    /// The folder whose `train/` and `val/` (for SegNet's layout `test/`) hold the pictures; none where parts are not folders.
    pub fn picture_folder(&self) -> Option<PathBuf> {
        match self.layout {
            Layout::Segnet => Some(self.path.clone()),
            Layout::Camvid => None,
            Layout::Cityscapes => Some(self.path.join("leftImg8bit")),
            Layout::Masks => {
                let folder = self.images.clone().unwrap_or_else(|| format!("images/{PORTION}"));
                folder.strip_suffix(PORTION).map(|folder| self.path.join(folder))
            }
        }
    }

    fn part(&self, root: &Path, portion: Portion) -> Result<PairSet> {
        let root = root.join(&self.path);
        Ok(match self.layout {
            Layout::Segnet => segmentation::segnet(&root, portion)?,
            Layout::Camvid => segmentation::camvid(&root, portion)?,
            Layout::Cityscapes => segmentation::cityscapes(&root, portion)?,
            Layout::Masks => {
                let folder =
                    |given: &Option<String>, usual: &str| given.clone().unwrap_or_else(|| format!("{usual}/{PORTION}"));
                let (pictures, masks) = (folder(&self.images, "images"), folder(&self.masks, "masks"));
                let void = self.void.clone().unwrap_or_else(|| vec![fidgp_data::VOID]);
                let classes = self.classes.clone().unwrap_or_default();
                segmentation::masks(&root, [&pictures, &masks], portion, classes, &void)?
            }
        })
    }
}
