use std::path::{Path, PathBuf};

use maud::Markup;

use crate::record::{
    self, EPOCHS_FILE, EpochRecord, Figure, RESULTS_FILE, RecordError, Results, read_epochs, write_atomically,
};

use super::run;
use crate::charts::Drawing;

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

/// What a report consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The page.
    pub html: PathBuf,
    /// Its figures, one file each.
    pub figures: Vec<PathBuf>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Nothing to report on.
    #[error("there are no runs to report on; pass at least one run folder or results.json")]
    NoRuns,
    /// A file could not be written.
    #[error(transparent)]
    Record(#[from] RecordError),
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

/// Writes the report of the runs: `out` is the page (`….html`), or a folder that gets a `report.html`; each figure
/// stands beside it as an `.svg`.
pub fn write_report(runs: &[Run], out: &Path) -> Result<Report, ReportError> {
    write_sections(runs, &[], out)
}

/// The page in a folder.
pub const REPORT_FILE: &str = "report.html";

/// The files that a report of one run, written into a folder, consists of.
pub fn files(run: &Run, folder: &Path) -> Vec<PathBuf> {
    let (_, drawn) = run::build(std::slice::from_ref(run), &[]);
    let figures = drawn.iter().map(|figure| folder.join(svg_name(figure)));
    figures.chain([folder.join(REPORT_FILE)]).collect()
}

fn svg_name(figure: &Drawing) -> String {
    format!("{}.svg", figure.id)
}

/// The same with sections of their own before those of the runs.
pub fn write_sections(runs: &[Run], sections: &[Section], out: &Path) -> Result<Report, ReportError> {
    if runs.is_empty() {
        return Err(ReportError::NoRuns);
    }
    let is_page = out.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("html"));
    let html = if is_page { out.to_owned() } else { out.join(REPORT_FILE) };
    let (text, drawn) = run::build(runs, sections);
    let mut figures = Vec::new();
    for figure in drawn {
        let path = html.with_file_name(svg_name(&figure));
        write_atomically(&path, figure.standalone().as_bytes())?;
        figures.push(path);
    }
    write_atomically(&html, text.as_bytes())?; // last: the page only ever points at figures that exist
    Ok(Report { html, figures })
}
