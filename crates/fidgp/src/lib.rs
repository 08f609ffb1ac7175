//! FiD-GP: Bayesian layers whose weights follow from a small inducing matrix with a flow posterior.
//!
//! | to | use |
//! |---|---|
//! | make layers Bayesian | [`weight::InducingConfig`], in a plan of the crate `fidgp-zoo`, for layers of [`layer`] |
//! | train | [`layer::Factors`], [`layer::Pass::draw`], [`objective::negative_elbo`] |
//! | predict with uncertainty | [`predict::Draws`] and [`predict::classify`] or [`predict::regress`] |
//! | fit a posterior that grows off the data | [`linearised`] |
//! | run the whole laboratory by config | the crate `fidgp-lab` |
//!
//! `fidgp-lab/examples/own_network.rs` does all of it for a network of its own, in one file.
//!
//! The order of the modules is the order of the derivation, and no module refers to a later one:
//! `normal, key, error, role → linalg → spectral, distribution → flow, prior → posterior, conditional → weight → layer → objective, predict → linearised → ood`.

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
mod role;
pub mod spectral;
pub mod weight;

pub use error::{Error, Result};
pub use key::Key;
