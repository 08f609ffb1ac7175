//! Weight files of other programs: safetensors, and what PyTorch's `torch.save` writes.
//!
//! PyTorch files are read by a small interpreter of the pickle format that knows dictionaries, numbers and tensors and
//! nothing else: no code of a file is ever run. Both layouts are read, the zip archive of PyTorch 1.6 and later and the
//! older plain stream.

mod archive;
mod checkpoint;
mod pickle;
mod stored;

use std::path::Path;

use fidgp_files::guarded;
use tch::Tensor;

use crate::{Error, Result};

/// All tensors of a weight file by name, in the order of the file.
///
/// Of a training checkpoint that nests the weights under `state_dict`, `model_state_dict` or `model`, only these.
///
/// # Errors
/// When the file cannot be read or is of another format; the message names the file and what was found.
pub fn read(path: &Path) -> Result<Vec<(String, Tensor)>> {
    let bytes = fidgp_files::bytes(path).map_err(|error| file_error(path, error))?;
    if is_safetensors(&bytes) {
        if let Some(problem) = wrong_length(&bytes) {
            return Err(file_error(path, problem));
        }
        return stored::read(&bytes).map_err(|problem| file_error(path, problem));
    }
    let tensors = guarded(|| checkpoint::read(&bytes)).unwrap_or_else(Err); // no code of ours panics there, the zip crate may
    tensors.map_err(|problem| file_error(path, format!("{problem} (it has {} bytes)", bytes.len())))
}

/// The longest header the format allows.
const LONGEST_HEADER: u64 = 100_000_000;

/// Eight bytes of header length, then JSON.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return false };
    u64::from_le_bytes(*length) <= LONGEST_HEADER && rest.first() == Some(&b'{')
}

/// Where a safetensors file has another length than its header says; nothing where the header cannot be read.
pub fn wrong_length(bytes: &[u8]) -> Option<String> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let header_length = u64::from_le_bytes(*length);
    let (least, data) = match rest.get(..header_length as usize) {
        None => ("at least ", 0), // the header itself is cut
        Some(header) => {
            let header: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(header).ok()?;
            ("", header.values().filter_map(|tensor| tensor["data_offsets"][1].as_u64()).max().unwrap_or(0))
        }
    };
    let (there, promised) = (bytes.len() as u64, data.checked_add(header_length.checked_add(8)?)?);
    let advice = "the file is damaged or incomplete: fetch it again";
    (there != promised).then(|| format!("it has {there} bytes, its header promises {least}{promised}; {advice}"))
}

fn file_error(path: &Path, problem: impl std::fmt::Display) -> Error {
    Error::File { path: path.to_owned(), problem: format!("{problem}") }
}
