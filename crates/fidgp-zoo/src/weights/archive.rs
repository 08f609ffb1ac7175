//! The zip archives of `torch.save`: entries stored without compression.

use std::collections::HashMap;

/// Byte ranges of the entries, by name.
pub(super) struct Archive<'a> {
    entries: HashMap<String, &'a [u8]>,
}

const END: &[u8] = b"PK\x05\x06";
const CENTRAL: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";

impl<'a> Archive<'a> {
    /// Whether the file starts like a zip archive.
    pub(super) fn is(bytes: &[u8]) -> bool {
        bytes.starts_with(LOCAL)
    }

    /// Reads the directory at the end of the file.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, String> {
        let end = bytes.windows(4).rposition(|window| window == END);
        let end = end.ok_or("a zip archive without its directory: the file is cut short")?;
        let (count, mut at) = (number(bytes, end + 10, 2)?, number(bytes, end + 16, 4)?);
        let mut entries = HashMap::new();
        for _ in 0..count {
            if bytes.get(at..at + 4) != Some(CENTRAL) {
                return Err(format!("the zip directory is damaged at byte {at}"));
            }
            let [name, extra, comment] = [28, 30, 32].map(|offset| number(bytes, at + offset, 2));
            let (name, extra, comment) = (name?, extra?, comment?);
            let text = String::from_utf8_lossy(slice(bytes, at + 46, name)?).into_owned();
            entries.insert(text.clone(), entry(bytes, at, &text)?);
            at += 46 + name + extra + comment;
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

/// The bytes of the entry whose directory record stands at `at`.
fn entry<'a>(bytes: &'a [u8], at: usize, name: &str) -> Result<&'a [u8], String> {
    if number(bytes, at + 10, 2)? != 0 {
        return Err(format!(
            "`{name}` in the zip archive is compressed; `torch.save` stores plainly, re-save the file"
        ));
    }
    let (size, local) = (number(bytes, at + 24, 4)?, number(bytes, at + 42, 4)?);
    if size == u32::MAX as usize || local == u32::MAX as usize {
        return Err("an archive beyond 4 GB: convert it to safetensors".to_owned());
    }
    let (name_length, extra) = (number(bytes, local + 26, 2)?, number(bytes, local + 28, 2)?);
    slice(bytes, local + 30 + name_length + extra, size)
}

/// A little-endian number.
fn number(bytes: &[u8], at: usize, length: usize) -> Result<usize, String> {
    Ok(slice(bytes, at, length)?.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte)))
}

fn slice(bytes: &[u8], at: usize, length: usize) -> Result<&[u8], String> {
    bytes.get(at..at + length).ok_or_else(|| format!("the zip archive ends before byte {}", at + length))
}
