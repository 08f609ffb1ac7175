//! The idx format of MNIST and its kin; plain or gzipped.
//!
//! ```text
//! 0, 0, type (8 = u8), number of dimensions, each dimension as u32 big-endian, then the bytes
//! ```

use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::bytes::{self, Cursor, FETCH_AGAIN, product, wrong_length};
use super::inflate::Budget;
use crate::Result;

/// An array of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idx {
    /// Its size, the last dimension running fastest.
    pub dims: Vec<usize>,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// Reads one file of bytes.
pub fn read(file: &Path) -> Result<Idx> {
    let (mut content, whole) = inflated(file)?;
    let mut cursor = Cursor::new(file, &content);
    let dims = sizes(&mut cursor)?;
    let (start, promise) = (cursor.at(), format!("the sizes {dims:?} of its header"));
    match product(&dims).and_then(|bytes| bytes.checked_add(start)) {
        Some(end) if end as u64 != whole => Err(wrong_length(file, whole as usize, end, &promise)),
        Some(_) => {
            content.drain(..start);
            Ok(Idx { dims, data: content })
        }
        None => Err(cursor.fault(start, format!("{promise} are more than any file holds"), FETCH_AGAIN)),
    }
}

fn sizes(cursor: &mut Cursor) -> Result<Vec<usize>> {
    let magic = cursor.take(4, "the magic number")?;
    let &[0, 0, 8, rank] = magic else {
        let problem = format!("the magic number is {magic:02x?}, not [00, 00, 08, dimensions]");
        return Err(cursor.fault(0, problem, "only idx files of unsigned bytes are read"));
    };
    (0..rank).map(|_| Ok(cursor.u32_be("the sizes")? as usize)).collect()
}

/// The content and how many bytes there are, compressed or not: of one that is compressed, what its header promises is
/// inflated, whatever is behind that is only counted.
fn inflated(file: &Path) -> Result<(Vec<u8>, u64)> {
    let content = bytes::read(file)?;
    if !content.starts_with(&[0x1f, 0x8b]) {
        let whole = content.len() as u64;
        return Ok((content, whole));
    }
    let (mut budget, mut decoder) = (Budget::new(file, content.len()), MultiGzDecoder::new(&content[..]));
    let mut out = Vec::new();
    budget.inflate(&mut decoder, 4, &mut out)?;
    let rank = out.get(3).copied().unwrap_or(0);
    budget.inflate(&mut decoder, 4 * u64::from(rank), &mut out)?;
    let promised = sizes(&mut Cursor::new(file, &out)).ok().and_then(|dims| product(&dims));
    let promised = promised.unwrap_or(0) as u64;
    budget.inflate(&mut decoder, promised, &mut out)?;
    let whole = out.len() as u64 + budget.skip(&mut decoder, out.len())?;
    Ok((out, whole))
}
