//! The names of a run's classes, for those who use the network without the data.

use std::path::Path;

use crate::error::{LabError, Result};
use crate::files::CLASSES_FILE;
use crate::json;

/// Writes the names of the classes into a run folder, for those who use the network without the data.
pub fn write_classes(run: &Path, classes: &[String]) -> Result<()> {
    json::write(&run.join(CLASSES_FILE), classes)
}

/// The names of the classes that a run folder has, if it has them.
///
/// # Errors
/// When the file cannot be read.
pub fn read_classes(run: &Path) -> Result<Option<Vec<String>>> {
    let path = run.join(CLASSES_FILE);
    if !path.exists() {
        return Ok(None);
    }
    json::read(&path).map(Some)
}

/// Refuses to go on with (or measure) a run on data whose classes are others: a label would mean something else.
pub fn same_classes(run: &Path, classes: &[String]) -> Result<()> {
    let Some(before) = read_classes(run)? else { return Ok(()) };
    if before == classes {
        return Ok(());
    }
    let other = before.iter().zip(classes).find(|(before, now)| before != now);
    let example = other.map_or(String::new(), |(before, now)| format!(", such as `{before}`, now `{now}`"));
    let (before, now) = (before.len(), classes.len());
    let why =
        format!("has other classes ({now}) than the run was trained with ({before}){example}; give it its own data");
    Err(LabError::config("data", why))
}
