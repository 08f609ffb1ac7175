//! Labelled images that are brought along as arrays.

use std::path::{Path, PathBuf};

use fidgp_data::{Images, Part, array_folder};
use serde::{Deserialize, Serialize};

use super::Augment;
use crate::error::{LabError, Result};

/// More classes than this are taken for a slip.
const MOST_CLASSES: usize = 1_000_000;

/// A folder of arrays, held in memory. What the data say of themselves is filled in when they are read, for those who use the
/// network without them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraysConfig {
    /// The folder that holds both parts, `train` and `test`; a relative one is looked for under the data root.
    pub path: PathBuf,
    /// How many classes there are: up to the highest label where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<usize>,
    /// Channels, height and width of the images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<[usize; 3]>,
    /// The part of the training set that is held out for validation, the same share of every class.
    #[serde(default)]
    pub validation_fraction: f64,
    /// What is done to training images.
    #[serde(default)]
    pub augment: Augment,
    /// Use only so many training images, the first in the order of the file, for quick trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl ArraysConfig {
    /// Checks the numbers.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(classes) = self.classes.filter(|classes| !(1..=MOST_CLASSES).contains(classes)) {
            let why = format!("{classes} must be at least 1 and at most {MOST_CLASSES}");
            return Err(LabError::config("data.classes", why));
        }
        self.image.map_or(Ok(()), |image| self.check_size("data.image", image))
    }

    /// Images that a picture can be brought to, and that can be cropped as the config says.
    fn check_size(&self, what: &str, image: [usize; 3]) -> Result<()> {
        let [channels, height, width] = image;
        if !matches!(channels, 1 | 3) || height != width || height == 0 {
            let why = "only squares of 1 or 3 channels can be used; put channels first, crop or pad";
            return Err(LabError::config(what, format!("{image:?} as [channels, height, width]: {why}")));
        }
        let least = self.augment.least_side();
        if height < least {
            let why =
                format!("= \"crop-flip\" needs sides of at least {least}, the images have {height}; use \"none\"");
            return Err(LabError::config("data.augment", why));
        }
        Ok(())
    }

    /// Reads training and test images.
    ///
    /// # Errors
    /// When a file is missing or broken, the parts do not fit each other, or not what the config says of them.
    pub fn both(&self, root: &Path) -> Result<[Images; 2]> {
        let both = array_folder::both(&root.join(&self.path), self.classes.unwrap_or(0))?;
        both.iter().try_for_each(|images| self.check_found(images))?;
        Ok(both)
    }

    /// Reads one of them alone.
    ///
    /// # Errors
    /// As [`Self::both`].
    pub fn part(&self, root: &Path, part: Part) -> Result<Images> {
        let images = array_folder::part(&root.join(&self.path), part, self.classes.unwrap_or(0))?;
        self.check_found(&images)?;
        Ok(images)
    }

    fn check_found(&self, images: &Images) -> Result<()> {
        let (size, classes) = (images.size(), images.class_names().len());
        self.check_size(images.name(), size)?;
        if let Some(said) = self.image.filter(|said| *said != size) {
            return Err(LabError::config("data.image", format!("= {said:?}, but {} has {size:?}", images.name())));
        }
        match self.classes {
            Some(said) if said != classes => {
                let why = format!("= {said}, but {} has labels up to {}", images.name(), classes - 1);
                Err(LabError::config("data.classes", why))
            }
            _ => Ok(()),
        }
    }

    /// The same with what is open taken from another.
    pub(super) fn filled_from(&self, other: &Self) -> Self {
        Self { classes: self.classes.or(other.classes), image: self.image.or(other.image), ..self.clone() }
    }
}
