use std::io;
use std::path::Path;

use fidgp_files::write;
use serde::Serialize;

use super::error::{RecordError, Result};

/// Writes a file so that a reader, or a power cut, sees either the old content or the new, never a part. The folder is
/// created where it is missing.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    write::replace(path, bytes).map_err(RecordError::write(path))
}

/// Writes a value as a JSON document, as [`write_atomically`] does.
pub fn write_json(path: &Path, value: &(impl Serialize + ?Sized)) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from).map_err(RecordError::write(path))?;
    write_atomically(path, (text + "\n").as_bytes())
}

/// Whether files could be written to a folder, which need not be there yet: asked before long work, and nothing is left.
///
/// # Errors
/// When they could not.
pub fn check_writable(folder: &Path) -> Result<()> {
    write::check_writable(folder).map_err(RecordError::write(folder))
}
