//! Pictures written as PNG.

use super::Picture;
use crate::{Error, Result};

impl Picture {
    /// The picture as the bytes of a PNG file.
    ///
    /// # Errors
    /// When the picture has no pixels.
    pub fn to_png(&self) -> Result<Vec<u8>> {
        let [width, height] = self.size();
        let fail = |error: png::EncodingError| {
            Error::value("picture", format!("cannot be written as PNG: {error}"), "give it at least one pixel")
        };
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(fail)?;
        writer.write_image_data(self.rgb()).map_err(fail)?;
        writer.finish().map_err(fail)?;
        Ok(bytes)
    }
}
