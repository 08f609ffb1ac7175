//! Arrays that people bring along: `.npy` and `.safetensors`, turned into [`Images`] or a [`Table`].
//!
//! ```text
//! images.npy or `images`      uint8 [N, C, H, W] or [N, H, W]     labels    uint8 or int64 [N]
//! features.npy or `features`  float [N, columns]                  targets   float [N] or [N, 1]
//! ```

use std::path::Path;

use safetensors::{
    Dtype, SafeTensorError, SafeTensors,
    tensor::{Metadata, TensorView},
};

pub use crate::array::{Array, Values};
use crate::{
    Error, Images, Result, Table,
    bytes::{self, FETCH_AGAIN},
    images::numbered,
    listing, npy,
};

/// Reads a `.npy` (one array) or a `.safetensors` (all arrays, sorted by name).
pub fn read(file: &Path) -> Result<Vec<Array>> {
    match listing::extension(file).as_str() {
        "npy" => Ok(vec![npy::read(file)?]),
        "safetensors" => read_safetensors(file),
        other => Err(Error::file(file, format!("`.{other}` is not known"), "give a .npy or a .safetensors file")),
    }
}

/// Reads every array of a `.safetensors` file, sorted by name.
pub fn read_safetensors(file: &Path) -> Result<Vec<Array>> {
    let content = bytes::read(file)?;
    let tensors = SafeTensors::deserialize(&content).map_err(|e| unsound_safetensors(file, &content, &e))?;
    let mut arrays: Vec<Array> =
        tensors.iter().map(|(name, view)| array(file, &content, name, &view)).collect::<Result<_>>()?;
    arrays.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(arrays)
}

/// Where a safetensors file ends against what its header promises; where that cannot be told, the parser's own words.
fn unsound_safetensors(file: &Path, content: &[u8], said: &SafeTensorError) -> Error {
    let there = content.len();
    let Some((length, rest)) = content.split_first_chunk::<8>() else {
        return bytes::wrong_length(file, there, 8, "the safetensors format, a header's length first,");
    };
    let header_length = u64::from_le_bytes(*length) as usize;
    let unsound = || Error::byte(file, 8, format!("not a sound safetensors file: {said}"), FETCH_AGAIN);
    if !rest.starts_with(b"{") {
        return unsound();
    }
    let data_start = header_length.saturating_add(8);
    let Some(header) = rest.get(..header_length) else {
        return bytes::wrong_length(file, there, data_start, "its first eight bytes, the header's length,");
    };
    let header = serde_json::from_slice::<Metadata>(header).ok();
    let promised = header.and_then(|header| data_start.checked_add(header.data_len()));
    match promised {
        Some(promised) if promised != there => bytes::wrong_length(file, there, promised, "the tensors of its header"),
        _ => unsound(),
    }
}

fn array(file: &Path, content: &[u8], name: &str, view: &TensorView) -> Result<Array> {
    let values = match view.dtype() {
        Dtype::U8 => Values::U8(view.data().to_vec()),
        Dtype::F32 => Values::f32_from(view.data()),
        Dtype::F64 => Values::f64_from(view.data()),
        Dtype::I64 => Values::i64_from(view.data()),
        other => {
            return Err(Error::file(file, format!("`{name}` is {other:?}"), "store it as U8, I64, F32 or F64"));
        }
    };
    let start = view.data().as_ptr().addr() - content.as_ptr().addr();
    Ok(Array { file: file.into(), start, name: name.into(), shape: view.shape().to_vec(), values })
}

/// Pairs pixels with labels; classes are numbered up to the highest label.
pub fn images(name: &str, pixels: &Array, labels: &Array) -> Result<Images> {
    let Values::U8(bytes) = &pixels.values else {
        let problem = format!("`{}` is {}", pixels.name, pixels.values.kind());
        return Err(Error::value(name, problem, "store pixels as uint8, 0 to 255"));
    };
    let Some(size) = image_size(&pixels.shape) else {
        let problem = format!("`{}` has shape {:?}", pixels.name, pixels.shape);
        return Err(Error::value(name, problem, "give images as [N, C, H, W] or [N, H, W]"));
    };
    if pixels.shape[0] == 0 {
        return Err(Error::value(name, format!("`{}` has no rows", pixels.name), "give at least one image"));
    }
    let (rows, labels_name) = (pixels.shape[0], &labels.name);
    let labels = labels.to_labels()?;
    if labels.len() != rows {
        let problem = format!("`{labels_name}` has {} rows, `{}` has {rows}", labels.len(), pixels.name);
        return Err(Error::value(name, problem, "give one label per image"));
    }
    let classes = labels.iter().max().map_or(0, |&top| top as usize + 1);
    Images::new(name, bytes.clone(), size, labels, numbered(classes))
}

/// Pairs features with targets.
pub fn table(name: &str, features: &Array, targets: &Array) -> Result<Table> {
    let &[rows, columns] = &features.shape[..] else {
        let problem = format!("`{}` has shape {:?}", features.name, features.shape);
        return Err(Error::value(name, problem, "give features as [N, columns]"));
    };
    if targets.shape != [rows] && targets.shape != [rows, 1] {
        let problem = format!("`{}` has shape {:?} for {rows} rows", targets.name, targets.shape);
        return Err(Error::value(name, problem, "give one target per row"));
    }
    Table::new(name, features.values.to_f64(), columns, targets.values.to_f64())
}

fn image_size(shape: &[usize]) -> Option<[usize; 3]> {
    match *shape {
        [_, channels, height, width] => Some([channels, height, width]),
        [_, height, width] => Some([1, height, width]),
        _ => None,
    }
}
