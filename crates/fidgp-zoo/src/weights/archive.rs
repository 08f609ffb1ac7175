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

    /// The entry of this name in whatever folder, and the folder in front; of several nobody could say which is meant.
    pub(super) fn find(&self, file: &str) -> Result<Option<(&str, &'a [u8])>, String> {
        let root = |name: &'_ str| name.strip_suffix(file).is_some_and(|root| root.is_empty() || root.ends_with('/'));
        let mut found = self.entries.iter().filter(|(name, _)| root(name));
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(format!("the zip archive has several files `{file}`")),
            (one, _) => Ok(one.map(|(name, bytes)| (&name[..name.len() - file.len()], *bytes))),
        }
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
