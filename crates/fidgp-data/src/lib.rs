//! Data sets as plain numbers: regression tables and images of bytes, no tensors.
//!
//! Every reader takes the layout that a data set's own site distributes, checks it, and either hands back a checked
//! value ([`Table`], [`Images`]) or an [`Error`] that names the file, the place inside it and the way out.
//! Randomness comes in as a seed; the same seed gives the same rows on every machine.

mod error;
mod random;
pub mod split;
mod standardise;
pub mod synthetic;
mod table;
mod text;
pub mod uci;

pub use error::{Error, Result};
pub use split::{Holdout, Parts, Split, epoch_order};
pub use standardise::Standardiser;
pub use table::Table;
