//! Tables of numbers with one target: from files, from formulas, standardised.

mod of_arrays;
mod sheet;
mod standardise;
pub mod synthetic;
mod table;
pub mod uci;

pub use of_arrays::table;
pub use sheet::Sheet;
pub use standardise::Standardiser;
pub use table::Table;
pub(crate) use table::moments;
