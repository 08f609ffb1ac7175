//! Arrays that people bring along: `.npy` and `.safetensors`.

use std::path::Path;

use safetensors::{
    Dtype, SafeTensorError, SafeTensors,
    tensor::{Metadata, TensorView},
};

pub use super::array::{Array, Values};
use super::{
    bytes::{self, FETCH_AGAIN},
    npy,
};
use crate::{Error, Result, listing};

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
