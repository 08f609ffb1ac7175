//! One mask: a class for every pixel of a picture, from index pictures or from colours.

use std::collections::HashMap;
use std::io::Cursor;
use std::path::Path;

use fidgp_files::guarded;
use fidgp_files::limits::check_pixels;

use crate::{Error, Picture, Result, formats::bytes};

/// The class id of pixels that have no class.
pub const VOID: u8 = 255;

/// Class ids, `[height, width]`; [`VOID`] where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    /// `[width, height]`
    pub size: [u32; 2],
    /// Row by row.
    pub ids: Vec<u8>,
}

impl Mask {
    /// Reads a PNG of indices (greyscale or palette, up to 8 bits) and translates each by a table: `None` is a class id
    /// that may not occur.
    pub fn from_indices(file: &Path, table: &[Option<u8>; 256]) -> Result<Self> {
        let mut mask = indices(file)?;
        for (place, id) in mask.ids.iter_mut().enumerate() {
            let index = *id;
            *id = table[usize::from(index)].ok_or_else(|| out_of_range(file, mask.size, place, index, table))?;
        }
        Ok(mask)
    }

    /// Reads a picture of colours and translates each by a table.
    pub fn from_colours(file: &Path, table: &HashMap<[u8; 3], u8>) -> Result<Self> {
        let picture = Picture::open(file)?;
        let size = picture.size();
        let class = |(place, pixel): (usize, &[u8])| {
            table.get(pixel).copied().ok_or_else(|| {
                let (x, y) = place_of(size, place);
                let problem = format!("the pixel at x = {x}, y = {y} has the colour {pixel:?}, which is no class");
                Error::file(file, problem, "colour labels must be the data set's own, and not JPEG")
            })
        };
        let ids = picture.rgb().chunks_exact(3).enumerate().map(class).collect::<Result<_>>()?;
        Ok(Self { size, ids })
    }
}

fn place_of([width, _]: [u32; 2], place: usize) -> (usize, usize) {
    (place % width.max(1) as usize, place / width.max(1) as usize)
}

fn out_of_range(file: &Path, size: [u32; 2], place: usize, index: u8, table: &[Option<u8>; 256]) -> Error {
    let (x, y) = place_of(size, place);
    let known: Vec<_> = (0..=VOID).filter(|&index| table[usize::from(index)].is_some()).collect();
    let (least, most) = (known.first().copied().unwrap_or(0), known.last().copied().unwrap_or(0));
    let problem = format!(
        "the pixel at x = {x}, y = {y} has class id {index}; there are {} ids between {least} and {most}",
        known.len()
    );
    Error::file(file, problem, "check the number of classes and the ids of void pixels")
}

/// The raw indices of a PNG.
fn indices(file: &Path) -> Result<Mask> {
    let content = bytes::read(file)?;
    let panicked = |panic| {
        let problem = format!("cannot be decoded as PNG: the decoder failed on it: {panic}");
        Error::file(file, problem, "the mask is damaged: fetch it again or remove it")
    };
    guarded(|| decoded(file, &content)).map_err(panicked)?
}

fn decoded(file: &Path, content: &[u8]) -> Result<Mask> {
    let damaged = |error: png::DecodingError| {
        Error::file(file, format!("cannot be decoded as PNG: {error}"), "masks are PNG files of indices")
    };
    let mut decoder = png::Decoder::new(Cursor::new(content));
    decoder.set_transformations(png::Transformations::IDENTITY);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let (colour, depth) = reader.output_color_type();
    let bits = depth as usize;
    if !matches!(colour, png::ColorType::Grayscale | png::ColorType::Indexed) || bits > 8 {
        let problem = format!("is a PNG of {colour:?} with {bits} bits, not of indices");
        return Err(Error::file(file, problem, "save masks as greyscale or palette PNG with 8 bits"));
    }
    let (width, height) = (reader.info().width, reader.info().height);
    check_pixels(width, height, content.len()).map_err(|exceeded| {
        Error::file(file, format!("is {width}×{height}: {}", exceeded.problem()), exceeded.limit.advice)
    })?;
    let size = reader.output_buffer_size();
    let mut packed = vec![0; size.ok_or_else(|| Error::file(file, "is too large", "cut it into pieces"))?];
    let frame = reader.next_frame(&mut packed).map_err(damaged)?;
    let (width, height) = (frame.width as usize, frame.height as usize);
    let pick = |row: &[u8], x: usize| {
        let byte = row[x * bits / 8];
        let shift = 8 - bits - x * bits % 8;
        (byte >> shift) & (255 >> (8 - bits))
    };
    let rows = packed.chunks_exact(frame.line_size).take(height);
    let ids = rows.flat_map(|row| (0..width).map(move |x| pick(row, x))).collect();
    Ok(Mask { size: [frame.width, frame.height], ids })
}
