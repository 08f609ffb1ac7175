//! NumPy's `.npy`, versions 1 and 2, in C order.
//!
//! ```text
//! "\x93NUMPY", major u8, minor u8, header length (u16 in version 1, u32 in 2), header, values
//! header = {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//! ```

use std::path::Path;

use super::{
    array::{Array, Values},
    bytes::{self, Cursor, FETCH_AGAIN, product},
};
use crate::{Result, listing};

/// Reads one array of `u8`, `f32`, `f64` or `i64`; its name is the file's, without the extension.
pub fn read(file: &Path) -> Result<Array> {
    let content = bytes::read(file)?;
    let mut cursor = Cursor::new(file, &content);
    let length = header_length(&mut cursor)?;
    let start = cursor.at();
    let header = String::from_utf8_lossy(cursor.take(length, "the header")?);
    let bad = |problem: String, advice| cursor.fault(start, problem, advice);
    if field(&header, "fortran_order").is_none_or(|v| !v.starts_with("False")) {
        let problem = format!("not in C order: {}", header.trim_end());
        return Err(bad(problem, "save np.ascontiguousarray(array)"));
    }
    let kind = field(&header, "descr").and_then(quoted).unwrap_or("unknown");
    let shape = field(&header, "shape").and_then(sizes);
    let shape = shape.ok_or_else(|| bad(format!("no shape in the header: {}", header.trim_end()), FETCH_AGAIN))?;
    if shape.contains(&0) {
        return Err(bad(format!("the shape is {shape:?}: there is nothing in it"), "save an array that has rows"));
    }
    let advice = "save it as uint8, int64, float32 or float64, little-endian: array.astype('<f4'), labels as '<i8'";
    let (item_bytes, values) = reading(kind).ok_or_else(|| bad(format!("the type is `{kind}`"), advice))?;
    let wanted = product(&shape).and_then(|items| items.checked_mul(item_bytes));
    let start = cursor.at();
    let values = values(cursor.rest_of(wanted, &format!("{shape:?} of `{kind}` in its header"))?);
    let name = listing::name(&file.with_extension(""));
    Ok(Array { file: file.into(), start, name, shape, values })
}

fn header_length(cursor: &mut Cursor) -> Result<usize> {
    let magic = cursor.take(6, "the magic number")?;
    if magic != b"\x93NUMPY" {
        return Err(cursor.fault(0, "not a .npy file", "save it with numpy.save"));
    }
    match cursor.take(2, "the version")?[0] {
        1 => Ok(cursor.u16_le("the header length")?.into()),
        2 => Ok(cursor.u32_le("the header length")? as usize),
        other => Err(cursor.fault(6, format!("version {other}"), "save it with plain types: version 1 or 2")),
    }
}

/// The text after `'key':`.
fn field<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let (_, after) = header.split_once(&format!("'{key}':"))?;
    Some(after.trim_start())
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('\'')?.split('\'').next()
}

fn sizes(text: &str) -> Option<Vec<usize>> {
    let inside = text.strip_prefix('(')?.split(')').next()?;
    inside.split(',').map(str::trim).filter(|size| !size.is_empty()).map(|size| size.parse().ok()).collect()
}

/// From bytes to numbers of a type.
type Reader = fn(&[u8]) -> Values;

/// How many bytes an item of a type has, and how items are read.
fn reading(kind: &str) -> Option<(usize, Reader)> {
    match kind {
        "|u1" => Some((1, |data| Values::U8(data.to_vec()))),
        "<f4" => Some((4, Values::f32_from)),
        "<f8" => Some((8, Values::f64_from)),
        "<i8" => Some((8, Values::i64_from)),
        _ => None,
    }
}
