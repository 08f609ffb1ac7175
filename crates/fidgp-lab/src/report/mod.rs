//! From finished runs to one HTML file that needs nothing else: no network, no fonts, no scripts.
//!
//! Text and numbers come from [`record`](crate::record); figures are drawn as SVG, inside the page (they follow the
//! reader's light or dark setting) and as files of their own beside it (always on white, for papers and READMEs).
//! Whatever cannot be drawn (NaN, an empty series) is left out and counted in the caption.

/// Bars for a number per run.
pub mod bars;
/// Line charts, histograms, scatter plots: layers on one pair of axes.
pub mod chart;
/// Figures of a classification: reliability, confidence, risk against coverage.
pub mod classification;
/// A finished picture, for the page or for a file.
pub mod figure;
/// Figures of a table: predicted against true numbers, coverage.
pub mod forecasts;
/// Numbers as text.
pub mod format;
/// The page of an out-of-distribution benchmark.
pub mod ood;
mod ood_beside;
/// One-dimensional regression with its bands.
pub mod regression;
/// Data to pixels, and round ticks.
pub mod scale;
/// What each metric means.
pub mod words;

mod axes;
mod axis;
mod columns;
mod comparison;
mod draw;
pub(crate) mod html;
mod layer;
mod legend;
mod naming;
mod page;
mod palette;
mod segmentation;
pub(crate) mod svg;
mod tables;
mod training;
mod verdict;
mod write;

pub use axis::Axis;
pub use chart::Chart;
pub use figure::Drawing;
pub use layer::{Bar, Layer, Marker, Shape};
pub use scale::{Extent, Scale, Tick};
pub use write::{Map, REPORT_FILE, Report, ReportError, Run, Section, files, write_report, write_sections};
