//! NumPy's `.npy`, versions 1 and 2, in C order.
//!
//! ```text
//! "\x93NUMPY", major u8, minor u8, header length (u16 in version 1, u32 in 2), header, values
//! header = {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//! ```

use std::path::Path;

use crate::{
    Result,
    arrays::{Array, Values},
    bytes::{self, Cursor, FETCH_AGAIN, product},
    listing,
};

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
    let data_start = cursor.at();
    let data = cursor.clone().rest();
    let advice = "save it as uint8, int64, float32 or float64, little-endian: array.astype('<f4')";
    let values = values(kind, data).ok_or_else(|| bad(format!("the type is `{kind}`"), advice))?;
    if product(&shape) != Some(values.len()) || !data.len().is_multiple_of(values.item_bytes()) {
        let problem = format!("{} bytes follow the header, the shape is {shape:?} of `{kind}`", data.len());
        return Err(cursor.fault(data_start, problem, FETCH_AGAIN));
    }
    let name = listing::name(&file.with_extension(""));
    Ok(Array { name, shape, values })
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

fn values(kind: &str, data: &[u8]) -> Option<Values> {
    match kind {
        "|u1" => Some(Values::U8(data.to_vec())),
        "<f4" => Some(Values::f32_from(data)),
        "<f8" => Some(Values::f64_from(data)),
        "<i8" => Some(Values::i64_from(data)),
        _ => None,
    }
}
