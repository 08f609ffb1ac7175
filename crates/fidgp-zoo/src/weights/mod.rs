//! Weight files of other programs: safetensors, and what PyTorch's `torch.save` writes.
//!
//! PyTorch files are read by a small interpreter of the pickle format that knows dictionaries, numbers and tensors and
//! nothing else: no code of a file is ever run. Both layouts are read, the zip archive of PyTorch 1.6 and later and the
//! older plain stream.

mod archive;
mod checkpoint;
mod pickle;

use std::path::Path;

use tch::Tensor;

use crate::{Error, Result};

/// All tensors of a weight file by name, in the order of the file.
///
/// Of a training checkpoint that nests the weights under `state_dict`, `model_state_dict` or `model`, only these.
///
/// # Errors
/// When the file cannot be read or is of another format; the message names the file and what was found.
pub fn read(path: &Path) -> Result<Vec<(String, Tensor)>> {
    let bytes = std::fs::read(path).map_err(|error| file_error(path, error))?;
    if is_safetensors(&bytes) {
        return Tensor::read_safetensors(path).map_err(|error| file_error(path, error));
    }
    checkpoint::read(&bytes).map_err(|problem| file_error(path, problem))
}

/// Eight bytes of header length, then JSON.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return false };
    u64::from_le_bytes(*length) <= rest.len() as u64 && rest.first() == Some(&b'{')
}

fn file_error(path: &Path, problem: impl std::fmt::Display) -> Error {
    Error::File { path: path.to_owned(), problem: format!("{problem}") }
}
