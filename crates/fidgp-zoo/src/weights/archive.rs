//! The zip archives of `torch.save`: entries stored without compression.

use std::collections::HashMap;
use std::io::Cursor;

use zip::{CompressionMethod, ZipArchive};

/// The bytes of the entries, by name.
pub(super) struct Archive<'a> {
    entries: HashMap<String, &'a [u8]>,
}

impl<'a> Archive<'a> {
    /// Whether the file starts like a zip archive.
    pub(super) fn is(bytes: &[u8]) -> bool {
        bytes.starts_with(b"PK\x03\x04")
    }

    /// Reads the directory at the end of the file; nothing is copied.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, String> {
        let damaged = |error| format!("the zip archive is damaged or cut short: {error}");
        let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
        let mut entries = HashMap::new();
        for index in 0..archive.len() {
            let entry = archive.by_index_raw(index).map_err(damaged)?;
            let name = entry.name().map_err(damaged)?.into_owned();
            if entry.compression() != CompressionMethod::Stored {
                return Err(format!(
                    "`{name}` in the zip archive is compressed; `torch.save` stores plainly, re-save the file"
                ));
            }
            let data = stored(bytes, entry.header_start(), entry.size());
            let data = data.ok_or_else(|| format!("`{name}` reaches beyond the zip archive: the file is damaged"))?;
            entries.insert(name, data);
        }
        Ok(Self { entries })
    }

    /// The entry whose path ends so, and what stands in front.
    pub(super) fn find(&self, suffix: &str) -> Option<(&str, &'a [u8])> {
        self.entries.iter().find_map(|(name, bytes)| Some((name.strip_suffix(suffix)?, *bytes)))
    }

    /// The entry of this name.
    pub(super) fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.entries.get(name).copied()
    }
}

/// The bytes behind the header of an entry: 30, two of which are the length of its name and two that of its extra field.
fn stored(bytes: &[u8], header: u64, size: u64) -> Option<&[u8]> {
    let rest = bytes.get(usize::try_from(header).ok()?..)?;
    let length = |at: usize| Some(usize::from(u16::from_le_bytes([*rest.get(at)?, *rest.get(at + 1)?])));
    rest.get(30 + length(26)? + length(28)?..)?.get(..usize::try_from(size).ok()?)
}
