//! One decoded picture of any size, and how it becomes a square of the size a network wants.

use std::{io::Cursor, path::Path};

use image::{
    DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, ImageResult, Limits, RgbImage,
    imageops::{self, FilterType},
    metadata::Orientation,
};

use fidgp_files::guarded;
use fidgp_files::limits::{PIXELS, check_pixels};

use super::CropBox;
use crate::{Error, Result, formats::bytes};

/// What is decoded.
const SUPPORTED: [ImageFormat; 3] = [ImageFormat::Jpeg, ImageFormat::Png, ImageFormat::WebP];
/// No picture is enlarged beyond this many pixels.
const MOST_PIXELS: f64 = 1e8;
/// Scans of a JPEG that are as good as one: more, over many pixels, take long.
const FEW_SCANS: usize = 8;

/// A picture in red, green and blue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture(RgbImage);

impl Picture {
    /// Decodes a JPEG, PNG or WebP and turns it as its EXIF data say; what it is, is read off its content, not its name.
    pub fn open(file: &Path) -> Result<Self> {
        Self::decode(file, &bytes::read(file)?)
    }

    /// The same from the bytes of such a file; `file` is what errors call it.
    pub fn decode(file: &Path, content: &[u8]) -> Result<Self> {
        let format = image::guess_format(content).ok();
        if let Some(other) = format.filter(|format| !SUPPORTED.contains(format)) {
            let problem = format!("is a picture of the kind {other:?}, which is not supported");
            return Err(Error::file(file, problem, "convert it to JPEG, PNG or WebP"));
        }
        let mut bytes = Cursor::new(content);
        let decoded = format.map(|format| guarded(|| decoded(file, &mut bytes, format)));
        let decoded = decoded.map(|outcome| outcome.unwrap_or_else(|panic| Ok(Err(broken_decoder(&panic)))));
        let said = match decoded.transpose()? {
            Some(Ok(_)) if is_cut_jpeg(content) => "the JPEG ends inside its data".to_owned(),
            Some(Ok(decoded)) => return Ok(Self(decoded.into_rgb8())),
            Some(Err(ImageError::Limits(_))) => {
                let problem = format!("is larger than the {} MB that are decoded of one picture", most_bytes() >> 20);
                return Err(Error::file(file, problem, PIXELS.advice));
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

    /// The pixels that such a file declares, read off its header; none where that cannot be read.
    pub fn declared_pixels(content: &[u8]) -> Option<u64> {
        let format = image::guess_format(content).ok()?;
        let reader = ImageReader::with_format(Cursor::new(content), format);
        let (width, height) = guarded(|| reader.into_dimensions()).ok()?.ok()?;
        Some(u64::from(width) * u64::from(height))
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

/// What the decoded bytes of a picture may take: three for each pixel.
fn most_bytes() -> u64 {
    PIXELS.most().saturating_mul(3)
}

/// The picture the right way up; on an error the cursor stands where the decoder gave up. What is too large is refused before
/// it is decoded.
fn decoded(file: &Path, bytes: &mut Cursor<&[u8]>, format: ImageFormat) -> Result<ImageResult<DynamicImage>> {
    let scans = if format == ImageFormat::Jpeg { scans(bytes.get_ref()) } else { 1 };
    let length = bytes.get_ref().len();
    let mut limits = Limits::default();
    limits.max_alloc = Some(most_bytes());
    let mut reader = ImageReader::with_format(bytes, format);
    reader.limits(limits.clone());
    let mut decoder = match reader.into_decoder() {
        Ok(decoder) => decoder,
        Err(error) => return Ok(Err(error)),
    };
    let (width, height) = decoder.dimensions();
    let work = [width.into(), height.into(), scans.div_ceil(FEW_SCANS) as u64];
    let checked = check_pixels(width, height, length).and_then(|()| PIXELS.check_product(&work));
    checked.map_err(|exceeded| {
        Error::file(file, format!("is {width}×{height}: {}", exceeded.problem()), exceeded.limit.advice)
    })?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    Ok(limits.reserve(decoder.total_bytes()).and_then(|()| DynamicImage::from_decoder(decoder)).map(|mut picture| {
        picture.apply_orientation(orientation);
        picture
    }))
}

/// What stands for a decoder's panic.
fn broken_decoder(panic: &str) -> ImageError {
    ImageError::IoError(std::io::Error::other(format!("the decoder failed on it: {panic}")))
}

/// How often the data of a JPEG go over its pixels.
fn scans(content: &[u8]) -> usize {
    content.windows(2).filter(|pair| *pair == [0xff, 0xda]).count()
}

/// Whether a JPEG has no end marker after its last scan; the decoder would fill the missing part with grey.
fn is_cut_jpeg(content: &[u8]) -> bool {
    let (start, scan, end) = ([0xff, 0xd8], [0xff, 0xda], [0xff, 0xd9]);
    let last_scan = content.windows(2).rposition(|pair| pair == scan).unwrap_or(0);
    content.starts_with(&start) && !content[last_scan..].windows(2).any(|pair| pair == end)
}
