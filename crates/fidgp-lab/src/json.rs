//! Values as JSON files.

use std::path::Path;

use serde::{Serialize, de::DeserializeOwned};

use crate::error::{LabError, Result};
use crate::record::write_atomically;

/// Writes a value, atomically.
pub(crate) fn write(path: &Path, value: &(impl Serialize + ?Sized)) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|error| LabError::file(path, &error))?;
    Ok(write_atomically(path, (text + "\n").as_bytes())?)
}

/// Reads a value; what is wrong with the file is said with its name.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fidgp_files::text(path).map_err(|error| LabError::file(path, &error))?;
    serde_json::from_str(&text).map_err(|error| LabError::file(path, &error))
}
