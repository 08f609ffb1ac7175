//! MATLAB's MAT-file, version 5: numeric arrays, plain or zlib-compressed.
//!
//! ```text
//! header   116 bytes of text, 8 reserved, version u16 = 0x0100, "IM" (little-endian)
//! element  type u32, bytes u32, data, padding to 8;  or, when small: type u16, bytes u16, 4 bytes of data
//! matrix   (type 14) flags, dimensions, name, values, each an element;  type 15 is a zlib stream of a matrix
//! ```
//! Cells, structs, text and sparse arrays are passed over.

use std::path::Path;

use flate2::read::ZlibDecoder;

use super::bytes::{self, Cursor, FETCH_AGAIN, product};
use super::inflate::Budget;
use crate::{Error, Result};

const HEADER: usize = 128;
/// Type and size in front of an element that is not small.
const TAG: usize = 8;
const MATRIX: u32 = 14;
const COMPRESSED: u32 = 15;

/// A numeric variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Its name in MATLAB.
    pub name: String,
    /// Its size; the first dimension runs fastest in `values`.
    pub dims: Vec<usize>,
    /// Its numbers, column-major.
    pub values: Values,
    /// The byte of the file where its numbers begin; of one that is compressed, where its element does.
    pub start: usize,
    /// Bytes of a number there; 0 of one that is compressed, whose numbers have no bytes of their own.
    pub item: usize,
}

/// The numbers of a variable: bytes stay bytes, everything else becomes `f64`.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Stored as unsigned bytes.
    U8(Vec<u8>),
    /// Stored in any other numeric type.
    F64(Vec<f64>),
}

/// Reads every numeric variable of a file.
pub fn read(file: &Path) -> Result<Vec<Variable>> {
    let content = bytes::read(file)?;
    let mut cursor = Cursor::new(file, &content);
    check_header(&mut cursor)?;
    let mut variables = Vec::new();
    let mut budget = Budget::new(file, content.len());
    while !cursor.is_at_end() {
        variables.extend(top_element(file, &mut cursor, &mut budget)?);
    }
    Ok(variables)
}

fn check_header(cursor: &mut Cursor) -> Result<()> {
    let header = cursor.take(HEADER, "the header")?;
    if header[124..128] == *b"\x00\x01IM" {
        return Ok(());
    }
    let problem = format!("version and byte order are {:02x?}, not those of a version 5 file", &header[124..128]);
    Err(cursor.fault(124, problem, "save it in MATLAB with -v7 (7.3 files are HDF5), on a little-endian machine"))
}

fn top_element(file: &Path, cursor: &mut Cursor, budget: &mut Budget) -> Result<Option<Variable>> {
    let start = cursor.at();
    let (kind, data) = element(cursor)?;
    match kind {
        MATRIX => matrix(&mut Cursor::within(file, data, start + TAG), budget),
        COMPRESSED => {
            let inflated = inflate(file, start, data, budget)?;
            let mut inner = Cursor::new(file, &inflated);
            match element(&mut inner)? {
                (MATRIX, data) => {
                    let variable = matrix(&mut Cursor::new(file, data), budget)?;
                    Ok(variable.map(|variable| Variable { start, item: 0, ..variable }))
                }
                _ => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// Inflates one element: its tag first, so that no more is inflated than it announces.
fn inflate(file: &Path, start: usize, data: &[u8], budget: &mut Budget) -> Result<Vec<u8>> {
    let (mut decoder, mut out) = (ZlibDecoder::new(data), Vec::new());
    let mut inflate = |count: u32, out: &mut Vec<u8>| match budget.inflate(&mut decoder, count.into(), out) {
        Err(Error::Byte { problem, advice, .. }) => Err(Error::byte(file, start, problem, advice)),
        other => other,
    };
    inflate(TAG as u32, &mut out)?;
    let announced = out.get(4..TAG).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    inflate(announced, &mut out)?;
    Ok(out)
}

/// One element: its type and its data. Only compressed ones are not padded.
fn element<'a>(cursor: &mut Cursor<'a>) -> Result<(u32, &'a [u8])> {
    let word = cursor.u32_le("the tag of an element")?;
    if word >> 16 != 0 {
        let (kind, count) = (word & 0xffff, (word >> 16) as usize);
        let data = cursor.take(4, "a small element")?;
        let fault = || cursor.fault(cursor.at() - 6, format!("a small element of {count} bytes"), FETCH_AGAIN);
        return Ok((kind, data.get(..count).ok_or_else(fault)?));
    }
    let count = cursor.u32_le("the tag of an element")? as usize;
    let data = cursor.take(count, "the data of an element")?;
    if word != COMPRESSED {
        cursor.align(8);
    }
    Ok((word, data))
}

/// A matrix, or nothing where it is not numeric.
fn matrix(cursor: &mut Cursor, budget: &mut Budget) -> Result<Option<Variable>> {
    let class = *element(cursor)?.1.first().unwrap_or(&0);
    if !(6..=15).contains(&class) {
        return Ok(None); // 6..=15 are double to uint64
    }
    let dims = dimensions(cursor)?;
    let name = String::from_utf8_lossy(element(cursor)?.1).into_owned();
    let start = cursor.at();
    let (kind, data) = element(cursor)?;
    budget.take(8 * data.len() as u64)?; // a byte may become eight
    let values = numbers(kind, data)
        .ok_or_else(|| cursor.fault(start, format!("`{name}` has values of unknown type {kind}"), FETCH_AGAIN))?;
    if product(&dims) != Some(values.len()) {
        let problem = format!("`{name}` has {} values for the size {dims:?}", values.len());
        return Err(cursor.fault(start, problem, FETCH_AGAIN));
    }
    let item = data.len() / values.len().max(1);
    let small = cursor.at() - start == TAG && data.len() <= TAG / 2; // its numbers are in the tag
    let start = cursor.place(start + if small { TAG / 2 } else { TAG });
    Ok(Some(Variable { name, dims, values, start, item }))
}

fn dimensions(cursor: &mut Cursor) -> Result<Vec<usize>> {
    let start = cursor.at();
    let (_, data) = element(cursor)?;
    let sizes = data.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let sizes: Option<Vec<usize>> = sizes.map(|size| usize::try_from(size).ok()).collect();
    sizes.ok_or_else(|| cursor.fault(start, "a dimension is negative", FETCH_AGAIN))
}

impl Values {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

macro_rules! widen {
    ($data:ident as $type:ty) => {
        $data
            .as_chunks::<{ size_of::<$type>() }>()
            .0
            .iter()
            .map(|&bytes| <$type>::from_le_bytes(bytes) as f64)
            .collect()
    };
}

/// The numbers of an element of type `kind`, or nothing where that is not a numeric type.
#[expect(clippy::cast_lossless, reason = "one macro for all numeric types")]
fn numbers(kind: u32, data: &[u8]) -> Option<Values> {
    Some(Values::F64(match kind {
        1 => widen!(data as i8),
        2 => return Some(Values::U8(data.to_vec())),
        3 => widen!(data as i16),
        4 => widen!(data as u16),
        5 => widen!(data as i32),
        6 => widen!(data as u32),
        7 => widen!(data as f32),
        9 => widen!(data as f64),
        12 => widen!(data as i64),
        13 => widen!(data as u64),
        _ => return None,
    }))
}
