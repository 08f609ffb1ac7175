use serde::{Deserialize, Serialize};

/// What is done to training images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Augment {
    /// Nothing.
    None,
    /// A random crop after reflect padding by 4, and a horizontal flip half of the time.
    #[default]
    CropFlip,
}

/// Pixels that images are padded by on every side before a crop.
pub(crate) const PADDING: i64 = 4;

impl Augment {
    /// The least side of images it can be done to: what is reflected must be there.
    pub fn least_side(self) -> usize {
        match self {
            Self::None => 1,
            Self::CropFlip => PADDING as usize + 1,
        }
    }
}
