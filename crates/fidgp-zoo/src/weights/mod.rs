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
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
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
        Some(header) => ("", serde_json::from_slice::<LastEnd>(header).ok()?.0),
    };
    let (there, promised) = (bytes.len() as u64, data.checked_add(header_length.checked_add(8)?)?);
    let advice = "the file is damaged or incomplete: fetch it again";
    (there != promised).then(|| format!("it has {there} bytes, its header promises {least}{promised}; {advice}"))
}

/// Where the last tensor of a header ends; nothing else of it is kept, however long it is.
struct LastEnd(u64);

impl<'de> Deserialize<'de> for LastEnd {
    fn deserialize<D: Deserializer<'de>>(header: D) -> std::result::Result<Self, D::Error> {
        struct Tensors;

        impl<'de> Visitor<'de> for Tensors {
            type Value = LastEnd;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("tensors by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut tensors: A) -> std::result::Result<LastEnd, A::Error> {
                let mut last = 0;
                while let Some((_, Entry { data_offsets: [_, end] })) = tensors.next_entry::<IgnoredAny, Entry>()? {
                    last = end.max(last);
                }
                Ok(LastEnd(last))
            }
        }

        header.deserialize_map(Tensors)
    }
}

/// A tensor, or the free text beside them, which has no offsets.
#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    data_offsets: [u64; 2],
}

fn file_error(path: &Path, problem: impl std::fmt::Display) -> Error {
    Error::File { path: path.to_owned(), problem: format!("{problem}") }
}
