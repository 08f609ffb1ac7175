//! FiD-GP: Bayesian layers whose weights follow from a small inducing matrix with a flow posterior.
//!
//! The order of the modules is the order of the derivation, and no module refers to a later one:
//! `normal, key, error → linalg → spectral, distribution → flow, prior → posterior, conditional → weight → layer → objective, predict → linearised → ood`.

pub mod conditional;
pub mod distribution;
pub mod error;
pub mod flow;
pub mod key;
pub mod layer;
pub mod linalg;
pub mod linearised;
mod normal;
pub mod objective;
pub mod ood;
pub mod posterior;
pub mod predict;
pub mod prior;
pub mod spectral;
pub mod weight;

pub use error::{Error, Result};
pub use key::Key;
