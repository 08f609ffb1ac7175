//! Recognises a folder of data sets, and checks each set in it.

use std::path::Path;

use super::{Summary, folder};
use crate::{Error, Result, catalogue};

/// The data sets that lie under `path` in the folders the catalogue names, each as `detect` finds it.
pub fn data_root(path: &Path, detect: impl Fn(&Path) -> Result<Summary>) -> Result<Option<Summary>> {
    let is_set = |entry: &&catalogue::Entry| {
        let folder = path.join(entry.folder);
        folder.is_dir() && !folder::has_pictures(&folder) // a class may be called `mnist` too
    };
    let sets: Vec<_> = catalogue::ENTRIES.iter().filter(is_set).collect();
    if sets.is_empty() {
        return Ok(None);
    }
    let kind = "a folder of data sets".to_owned();
    let mut all = Summary { path: path.into(), kind, parts: vec![], columns: vec![], files: vec![], notes: vec![] };
    let mut faults = vec![];
    for set in &sets {
        match detect(&path.join(set.folder)) {
            Ok(found) => add(&mut all, set.name, found),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() {
        return Ok(Some(all));
    }
    let what = format!("{} data sets", sets.len());
    Err(Error::Several { folder: path.into(), what, faults })
}

/// Adds a set's summary, its name in front of its parts and notes.
fn add(all: &mut Summary, name: &str, found: Summary) {
    all.notes.push(format!("{name}: {}", found.kind));
    all.notes.extend(found.notes.into_iter().map(|note| format!("{name}: {note}")));
    all.files.extend(found.files);
    all.parts.extend(found.parts.into_iter().map(|mut part| {
        part.name = format!("{name} {}", part.name);
        part
    }));
}
