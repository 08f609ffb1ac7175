use std::path::Path;

use crate::error::{LabError, Result};
use crate::files::VIEW_FILE;
use crate::json;
use crate::source::TableView;

/// How rows become inputs of a run's network.
///
/// # Errors
/// When the file is missing or broken.
pub fn read_view(run: &Path) -> Result<TableView> {
    let path = run.join(VIEW_FILE);
    let view: TableView = json::read(&path)?;
    view.check().map_err(|why| LabError::File { path, why })?;
    Ok(view)
}
