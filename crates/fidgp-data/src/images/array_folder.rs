//! Labelled images that people bring along as arrays, in a training and a test part:
//!
//! ```text
//! train.safetensors, test.safetensors     each with `images` and `labels`
//! train/, test/                           each with images.npy and labels.npy
//! ```

use std::path::{Path, PathBuf};

use super::{Images, Part, images, numbered};
use crate::{
    Error, Result,
    formats::arrays::{self, Array},
    listing,
};

/// What a part must have; `.npy` files have the same names.
const NAMES: [&str; 2] = ["images", "labels"];
const WANTED: &str = "give train.safetensors and test.safetensors, each with `images` (uint8 [N, C, H, W] or [N, H, W]) and \
    `labels` (uint8 or int64 [N]), or train/ and test/ with images.npy and labels.npy; for a table of numbers use data.set = \"table\"";

/// Whether a folder has a part in either layout.
pub fn is_there(folder: &Path) -> bool {
    [Part::Train, Part::Test].iter().any(|&part| !part_files(folder, part).is_ok_and(|files| files.is_empty()))
}

/// Reads both parts, which must fit each other. Classes are numbered up to the highest label; there are at least `classes`.
///
/// # Errors
/// When a file is missing or broken, the parts have images of other sizes, or a test label is not among those of training.
pub fn both(folder: &Path, classes: usize) -> Result<[Images; 2]> {
    let [train, test] = [part(folder, Part::Train, classes)?, part(folder, Part::Test, classes)?];
    if train.size() != test.size() {
        let ([c, h, w], [other_c, other_h, other_w]) = (train.size(), test.size());
        let problem = format!("images are {other_c}×{other_h}×{other_w}, those of training {c}×{h}×{w}");
        return Err(Error::value(test.name(), problem, "bring both parts to one size"));
    }
    let seen = train.class_counts();
    let unseen = |&label: &u32| seen.get(label as usize).is_none_or(|&count| count == 0);
    if let Some(row) = test.labels().iter().position(unseen) {
        let problem = format!("row {row} has label {}, which no training image has", test.labels()[row]);
        return Err(Error::value(
            test.name(),
            problem,
            "leave such images out, or number the labels of both parts alike",
        ));
    }
    let classes = train.class_names().to_vec();
    Ok([train, test.with_class_names(classes)?])
}

/// Reads one part; classes are numbered up to its highest label, and there are at least `classes`.
///
/// # Errors
/// When the part is not there or there twice, or its arrays are no labelled images.
pub fn part(folder: &Path, part: Part, classes: usize) -> Result<Images> {
    let (files, name) = (part_files(folder, part)?, part.name());
    let place = match &files[..] {
        [] => {
            let problem = format!("no `{name}.safetensors` and no `{name}/images.npy`: {}", listing::contents(folder)?);
            return Err(Error::file(folder, problem, WANTED));
        }
        [file] if listing::extension(file) == "safetensors" => file.clone(),
        _ => folder.join(name),
    };
    let arrays = files.iter().map(|file| arrays::read(file)).collect::<Result<Vec<_>>>()?;
    let get = |name: &str| -> Result<&Array> {
        let found = arrays.iter().flatten().find(|array| array.name == name);
        found.ok_or_else(|| Error::file(&place, format!("has no `{name}`"), WANTED))
    };
    let images = images(&place.display().to_string(), get(NAMES[0])?, get(NAMES[1])?)?;
    let classes = classes.max(images.class_names().len());
    images.with_class_names(numbered(classes))
}

/// The files of a part that are there; none where it has neither layout.
pub(crate) fn part_files(folder: &Path, part: Part) -> Result<Vec<PathBuf>> {
    let stored = folder.join(format!("{}.safetensors", part.name()));
    let npy = NAMES.map(|name| folder.join(part.name()).join(name).with_extension("npy"));
    let npy: Vec<_> = npy.into_iter().filter(|file| file.is_file()).collect();
    match (stored.is_file(), npy.is_empty()) {
        (true, true) => Ok(vec![stored]),
        (true, false) => {
            let problem = format!("stands beside {}: nobody says which of them counts", npy[0].display());
            Err(Error::file(&stored, problem, "remove one of them"))
        }
        (false, _) => Ok(npy),
    }
}
