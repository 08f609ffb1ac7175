//! What is in a folder, always in the same order.

use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Everything in a folder but hidden things, sorted by name.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let listed = std::fs::read_dir(folder).and_then(|found| found.map(|e| e.map(|e| e.path())).collect());
    let mut paths: Vec<PathBuf> = listed.map_err(|e| Error::io(folder, e))?;
    paths.retain(|path| !name(path).starts_with('.'));
    paths.sort();
    Ok(paths)
}

/// The files in a folder whose name satisfies `wanted`, sorted.
pub fn files(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let all = entries(folder)?;
    Ok(all.into_iter().filter(|path| wanted(&name(path)) && path.is_file()).collect())
}

/// The folders in a folder, sorted.
pub fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    Ok(entries(folder)?.into_iter().filter(|path| path.is_dir()).collect())
}

/// The last part of a path, as text.
pub fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The extension of a path in lower case, or nothing.
pub fn extension(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// The first few names in a folder.
pub fn contents(folder: &Path) -> Result<String> {
    let names: Vec<String> = entries(folder)?.iter().map(|path| name(path)).collect();
    match names.len() {
        0 => Ok("the folder is empty".into()),
        few @ 1..=5 => Ok(format!("it holds {few}: {}", names.join(", "))),
        many => Ok(format!("it holds {many} things: {}, …", names[..5].join(", "))),
    }
}
