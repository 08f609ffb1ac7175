//! An out-of-distribution benchmark that refuses to lie: one model, one U, one normalisation and one resize for every set;
//! controls first, and no table when one of them fails.

pub mod combine;
pub mod controls;
pub mod cost;
pub mod heldout;
pub mod observe;
pub mod protocol;
pub mod scorer;
pub mod scores;
pub mod sets;
pub mod spectral;
pub mod statistics;

mod altered;
mod arrays;
mod asked;
mod bench;
mod images;
mod inducing;
mod linearised;
mod members;
mod observed;
mod pipeline;
mod settings;
mod table;

pub use arrays::run_arrays;
pub use asked::score_pictures;
pub use bench::{Benchmark, run};
pub use combine::Combined;
pub(crate) use images::{checked_id, own_set};
pub use inducing::Inducing;
pub use observe::{ModelObserver, Observe, WeightChoice};
pub use observed::Observed;
pub use scorer::{Columns, Scorer};
pub use scores::{Given, OodScore};
pub use settings::{More, Settings};
pub use statistics::{STATISTICS_FILE, Statistics};
pub use table::{Choice, choose};
