//! Tables of numbers with one target: from files, from formulas, encoded, standardised.

mod cells;
mod encoding;
mod of_arrays;
mod sheet;
mod standardise;
mod survey;
pub mod synthetic;
mod table;
pub mod targets;
pub mod uci;

pub use cells::Cells;
pub use encoding::{ColumnEncoding, Encoded, Encoding, Given};
pub use of_arrays::table;
pub use sheet::Sheet;
pub use standardise::Standardiser;
pub use survey::{Holds, Survey};
pub use table::Table;
pub(crate) use table::moments;
