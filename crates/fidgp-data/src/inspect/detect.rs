//! Says what a path holds.

use std::path::Path;

use super::{Summary, folder, pairs, root, sets};
use crate::{Error, Result, Watch, listing};

/// Looks at a path, or says nothing where it is something else.
type Recogniser = fn(&Path) -> Result<Option<Summary>>;

/// Asked in this order; the first that knows the path describes it.
const RECOGNISERS: [Recogniser; 8] =
    [sets::cifar10, sets::cifar100, sets::svhn, sets::idx, sets::uci, sets::arrays, sets::sheet, pairs::pairs];

/// Finds out what `path` (a folder, or one of its files) holds, reads and checks it, and describes it.
///
/// # Errors
/// When it is not known, or anything in it is damaged; every damaged picture is named.
pub fn detect(path: &Path) -> Result<Summary> {
    detect_watched(path, &|_, _| ())
}

/// [`detect`], which tells how many pictures of a folder are decoded.
pub fn detect_watched(path: &Path, watch: Watch) -> Result<Summary> {
    if !path.exists() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(Error::io(path, missing));
    }
    if !path.is_dir() && !path.is_file() {
        return Err(Error::file(
            path,
            "is a pipe or a device",
            "name a file or a folder; write what comes out of it to a file first",
        ));
    }
    if let Some(summary) = root::data_root(path, |set| detect_watched(set, watch))? {
        return Ok(summary);
    }
    for recognise in RECOGNISERS {
        if let Some(summary) = recognise(path)? {
            return Ok(summary);
        }
    }
    if let Some(summary) = folder::image_folder(path, watch)? {
        return Ok(summary);
    }
    let held = if path.is_dir() { listing::contents(path)? } else { "a file of an unknown kind".into() };
    let advice = "known are CIFAR binary, SVHN .mat, idx, UCI, .npy, .safetensors, .csv, CamVid, Cityscapes, and pictures in one folder per class";
    Err(Error::file(path, format!("not a known data set: {held}"), advice))
}
