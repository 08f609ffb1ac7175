use std::path::{Path, PathBuf};

use super::run;
use crate::charts::Drawing;
use crate::record::{RecordError, write_atomically};

pub use super::finished::{Map, Run, Section};

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
