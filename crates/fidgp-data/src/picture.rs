//! One decoded picture of any size, and how it becomes a square of the size a network wants.

use std::{io::Cursor, path::Path};

use image::{
    DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, ImageResult, Limits, RgbImage,
    imageops::{self, FilterType},
    metadata::Orientation,
};

use crate::{CropBox, Error, Result, bytes};

/// What is decoded.
const SUPPORTED: [ImageFormat; 3] = [ImageFormat::Jpeg, ImageFormat::Png, ImageFormat::WebP];
/// No picture is enlarged beyond this many pixels.
const MOST_PIXELS: f64 = 1e8;
/// What the decoded bytes of a picture may take: the bound that decoders have by themselves.
const MOST_BYTES: u64 = 512 << 20;

/// A picture in red, green and blue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture(RgbImage);

impl Picture {
    /// Decodes a JPEG, PNG or WebP and turns it as its EXIF data say; what it is, is read off its content, not its name.
    pub fn open(file: &Path) -> Result<Self> {
        let content = bytes::read(file)?;
        let format = image::guess_format(&content).ok();
        if let Some(other) = format.filter(|format| !SUPPORTED.contains(format)) {
            let problem = format!("is a picture of the kind {other:?}, which is not supported");
            return Err(Error::file(file, problem, "convert it to JPEG, PNG or WebP"));
        }
        let mut bytes = Cursor::new(&content);
        let decoded = format.map(|format| decoded(&mut bytes, format));
        let said = match decoded {
            Some(Ok(_)) if is_cut_jpeg(&content) => "the JPEG ends inside its data".to_owned(),
            Some(Ok(decoded)) => return Ok(Self(decoded.into_rgb8())),
            Some(Err(ImageError::Limits(_))) => {
                let problem = format!("is larger than the {} MB that are decoded of one picture", MOST_BYTES >> 20);
                return Err(Error::file(file, problem, "make it smaller"));
            }
            Some(Err(error)) => error.to_string(),
            None => "it does not begin as a JPEG, PNG or WebP does".to_owned(),
        };
        let problem = format!("cannot be decoded: {said} (the file has {} bytes)", content.len());
        Err(Error::byte(
            file,
            bytes.position() as usize,
            problem,
            "the picture is damaged: fetch it again or remove it",
        ))
    }

    /// From bytes `[height, width, 3]`, or nothing where their number is wrong.
    pub fn from_rgb(width: u32, height: u32, rgb: Vec<u8>) -> Option<Self> {
        RgbImage::from_raw(width, height, rgb).map(Self)
    }

    /// `[width, height]`
    pub fn size(&self) -> [u32; 2] {
        [self.0.width(), self.0.height()]
    }

    /// The bytes, `[height, width, 3]`.
    pub fn rgb(&self) -> &[u8] {
        self.0.as_raw()
    }

    /// The bytes, planar: `[3, height, width]`.
    pub fn planar(&self) -> Vec<u8> {
        (0..3).flat_map(|channel| self.rgb().iter().skip(channel).step_by(3).copied()).collect()
    }

    /// The bytes as brightness, `[height, width]`: 0.299 red + 0.587 green + 0.114 blue.
    pub fn grey(&self) -> Vec<u8> {
        let luma = |p: &[u8]| (299 * u32::from(p[0]) + 587 * u32::from(p[1]) + 114 * u32::from(p[2]) + 500) / 1000;
        self.rgb().chunks_exact(3).map(|pixel| luma(pixel) as u8).collect()
    }

    /// Left and right exchanged.
    #[must_use]
    pub fn mirrored(&self) -> Self {
        Self(imageops::flip_horizontal(&self.0))
    }

    /// Resized so that the shorter side is `side`; the longer one is cut to a whole number (bilinear, antialiased).
    pub fn resize_shorter(&self, side: u32) -> Result<Self> {
        let [width, height] = self.size();
        let longer = |long: u32, short: u32| (u64::from(side) * u64::from(long) / u64::from(short.max(1))) as f64;
        if width <= height {
            self.resize(side.into(), longer(height, width))
        } else {
            self.resize(longer(width, height), side.into())
        }
    }

    /// The middle `side × side`.
    pub fn centre_crop(&self, side: u32) -> Result<Self> {
        let [width, height] = self.size();
        if width < side || height < side {
            return Err(self.fault(&format!("has no middle of {side}×{side}"), "resize it first"));
        }
        self.crop(CropBox::centre(self.size(), side, side))
    }

    /// The rectangle `region`, resized to `side × side` (bilinear, antialiased).
    pub fn crop_resize(&self, region: CropBox, side: u32) -> Result<Self> {
        self.crop(region)?.resize(side.into(), side.into())
    }

    fn crop(&self, region: CropBox) -> Result<Self> {
        let CropBox { left, top, width, height } = region;
        let ends = [u64::from(left) + u64::from(width), u64::from(top) + u64::from(height)];
        let fits = ends[0] <= self.0.width().into() && ends[1] <= self.0.height().into();
        if width == 0 || height == 0 || !fits {
            return Err(self.fault(&format!("does not contain {region:?}"), "make the rectangle for this picture"));
        }
        Ok(Self(imageops::crop_imm(&self.0, left, top, width, height).to_image()))
    }

    fn resize(&self, width: f64, height: f64) -> Result<Self> {
        if self.rgb().is_empty() || width < 1.0 || height < 1.0 || width * height > MOST_PIXELS {
            return Err(self.fault(&format!("cannot become {width}×{height}"), "choose another size"));
        }
        if [width as u32, height as u32] == self.size() {
            return Ok(self.clone());
        }
        Ok(Self(imageops::resize(&self.0, width as u32, height as u32, FilterType::Triangle)))
    }

    fn fault(&self, problem: &str, advice: &'static str) -> Error {
        let [width, height] = self.size();
        Error::value("picture", format!("a picture of {width}×{height} {problem}"), advice)
    }
}

/// The picture the right way up; on an error the cursor stands where the decoder gave up.
fn decoded(bytes: &mut Cursor<&Vec<u8>>, format: ImageFormat) -> ImageResult<DynamicImage> {
    let mut decoder = ImageReader::with_format(bytes, format).into_decoder()?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_BYTES);
    limits.reserve(decoder.total_bytes())?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut picture = DynamicImage::from_decoder(decoder)?;
    picture.apply_orientation(orientation);
    Ok(picture)
}

/// Whether a JPEG has no end marker after its last scan; the decoder would fill the missing part with grey.
fn is_cut_jpeg(content: &[u8]) -> bool {
    let (start, scan, end) = ([0xff, 0xd8], [0xff, 0xda], [0xff, 0xd9]);
    let last_scan = content.windows(2).rposition(|pair| pair == scan).unwrap_or(0);
    content.starts_with(&start) && !content[last_scan..].windows(2).any(|pair| pair == end)
}
