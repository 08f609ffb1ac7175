//! FiD-GP: Bayesian layers whose weights follow from a small inducing matrix with a flow posterior.
//!
//! The order of the modules is the order of the derivation, and no module refers to a later one:
//! `key, error → linalg → spectral, distribution → flow, prior → posterior, conditional → weight → layer → objective, predict`.

pub mod error;
pub mod flow;
pub mod key;
pub mod linalg;

pub use error::{Error, Result};
pub use key::Key;
