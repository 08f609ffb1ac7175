//! A finished run, and what else may stand on its page.

use std::path::Path;

use maud::Markup;

use crate::charts::Drawing;
use crate::record::{self, EPOCHS_FILE, EpochRecord, Figure, RESULTS_FILE, RecordError, Results, read_epochs};

/// A finished run, as a report sees it.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its results.
    pub results: Results,
    /// Its epochs; empty where no log was kept.
    pub epochs: Vec<EpochRecord>,
    /// Its maps; empty where it has none, or only its results are at hand.
    pub maps: Vec<Map>,
}

/// A map of a segmentation.
#[derive(Debug, Clone)]
pub struct Map {
    /// Its file.
    pub name: String,
    /// What is in it.
    pub png: Vec<u8>,
}

impl Run {
    /// Reads a run folder, or a results file on its own (then there are no epochs).
    pub fn read(path: &Path) -> record::Result<Self> {
        if path.is_dir() {
            let results = Results::read(&path.join(RESULTS_FILE))?;
            let (epochs, maps) = (read_epochs(&path.join(EPOCHS_FILE))?, read_maps(path, &results)?);
            return Ok(Self { results, epochs, maps });
        }
        Ok(Self { results: Results::read(path)?, epochs: Vec::new(), maps: Vec::new() })
    }
}

/// The maps that a run's results name, where they still lie in its folder.
fn read_maps(run: &Path, results: &Results) -> record::Result<Vec<Map>> {
    let named = results.figures.iter().filter_map(|figure| match figure {
        Figure::Segmentation(data) => Some(&data.maps),
        _ => None,
    });
    let maps = named.flatten().map(|name| read_map(run, name));
    maps.filter_map(Result::transpose).collect()
}

/// One map. Results may be a stranger's: a name that leads out of the folder, by itself or through a link, is refused.
fn read_map(run: &Path, name: &str) -> record::Result<Option<Map>> {
    let folder = run.join(record::MAPS_FOLDER);
    let path = folder.join(name);
    let is_plain = Path::new(name).file_name().is_some_and(|file| file == name);
    if !is_plain || path.is_symlink() || folder.is_symlink() {
        return Err(RecordError::Elsewhere { path: run.join(RESULTS_FILE), name: name.to_owned() });
    }
    if !path.is_file() {
        return Ok(None);
    }
    let png = fidgp_files::bytes(&path).map_err(RecordError::read(&path))?;
    Ok(Some(Map { name: name.to_owned(), png }))
}

/// A part of a page that somebody else has written.
#[derive(Debug, Clone)]
pub struct Section {
    /// Its anchor.
    pub id: String,
    /// Its heading.
    pub heading: String,
    /// A sentence on what to look at.
    pub lead: String,
    /// Markup.
    pub body: Markup,
    /// Figures below it.
    pub figures: Vec<Drawing>,
}
