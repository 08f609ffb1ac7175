//! How a picture of any size becomes what a network sees.

use fidgp::Key;
use fidgp_data::{CropBox, Picture};

use crate::config::DataConfig;
use crate::error::Result;

/// Channels and sizes of a network's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// 3 for red, green and blue, 1 for brightness.
    pub channels: usize,
    /// The shorter side is brought to this many pixels.
    pub resize: u32,
    /// Then the middle square of this side is taken.
    pub crop: u32,
}

impl View {
    /// How pictures become images of the given size (`[channels, height, width]`) of a data set.
    pub fn of(data: &DataConfig, image: [i64; 3]) -> Self {
        let crop = image[2] as u32;
        let resize = if let DataConfig::Folder(folder) = data { folder.resize } else { crop };
        Self { channels: image[0] as usize, resize, crop }
    }

    /// Resized, then the middle: as at evaluation. `[channels, crop, crop]`
    ///
    /// # Errors
    /// When the picture cannot be brought to that size.
    pub fn centre(&self, picture: &Picture) -> Result<Vec<u8>> {
        Ok(self.bytes(&picture.resize_shorter(self.resize)?.centre_crop(self.crop)?))
    }

    /// A random rectangle, mirrored half of the time: as in training. All of it follows from the key.
    ///
    /// # Errors
    /// When the picture cannot be brought to that size.
    pub fn random(&self, picture: &Picture, key: Key) -> Result<Vec<u8>> {
        let mut count = 0;
        let mut unit = || {
            count += 1;
            (key.at(count).seed() >> 11) as f64 / (1_u64 << 53) as f64 // 53 bits, in [0, 1)
        };
        let mirrored = unit() < 0.5;
        let region = CropBox::random(picture.size(), unit);
        let cropped = picture.crop_resize(region, self.crop)?;
        Ok(self.bytes(&if mirrored { cropped.mirrored() } else { cropped }))
    }

    fn bytes(&self, picture: &Picture) -> Vec<u8> {
        if self.channels == 1 { picture.grey() } else { picture.planar() }
    }
}
