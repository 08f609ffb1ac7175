//! An out-of-distribution benchmark that refuses to lie: one model, one U, one normalisation and one resize for every set;
//! controls first, and no table when one of them fails.

pub mod combine;
pub mod controls;
pub mod observe;
pub mod scorer;
pub mod sets;

mod altered;
mod arrays;
mod bench;
mod table;

pub use arrays::run_arrays;
pub use bench::{Benchmark, Settings, run};
pub use combine::{Combined, Join, Layers, Pool, Recipe};
pub use controls::Control;
pub use observe::{ModelObserver, Observe, Observed, OneU};
pub use scorer::{Columns, Scorer};
pub use table::{choose, fixed_recipes};
