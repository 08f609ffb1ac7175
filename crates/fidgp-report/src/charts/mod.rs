//! Charts as SVG, inside a page (they follow the reader's light or dark setting) and as files of their own (always on white,
//! for papers and READMEs). Whatever cannot be drawn (NaN, an empty series) is left out and counted.

/// Bars for a number per run.
pub mod bars;
/// Data to pixels, and round ticks.
pub mod scale;

mod axes;
mod axis;
mod chart;
mod figure;
mod layer;
mod legend;
mod marks;
mod palette;
pub(crate) mod svg;

pub use axis::Axis;
pub use chart::{Chart, series_class, stacked};
pub use figure::Drawing;
pub(crate) use figure::HATCH;
pub use layer::{Bar, Layer, Marker, Shape};
pub(crate) use palette::page_css;
pub use scale::{Extent, Scale, Tick};
