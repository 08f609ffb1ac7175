//! The methods, one file for each: FiD-GP and FFG-U, and those they are compared with.

pub mod batch_ensemble;
pub mod ddu;
pub mod deterministic;
pub mod due;
pub mod ensemble;
pub mod f_sgvb_lrt;
pub mod ffgu;
pub mod fidgp;
pub mod laplace;
pub mod mc_dropout;
pub mod mean_field;
mod method;
pub mod sngp;
pub mod svgp;

pub use mean_field::mean_field_from_bayesianize;
pub use method::{About, BuildOne, Extra, FromBayesianize, Group, Method, Passes, Section, Settings, Usual};

use std::sync::{PoisonError, RwLock};

use crate::{Error, Result};

/// The registry: one line for each method.
pub static METHODS: &[&dyn Method] = &[
    &deterministic::Deterministic,
    &mc_dropout::McDropout,
    &mean_field::MeanField,
    &f_sgvb_lrt::FSgvbLrt,
    &batch_ensemble::BatchEnsemble,
    &ensemble::DeepEnsemble,
    &sngp::Sngp,
    &ddu::Ddu,
    &svgp::Svgp,
    &due::Due,
    &laplace::Laplace,
    &ffgu::Ffgu,
    &fidgp::Fidgp,
];

/// Methods of other crates.
static REGISTERED: RwLock<Vec<&'static dyn Method>> = RwLock::new(Vec::new());

/// Adds a method of one's own to those that a config can name, for this process.
///
/// # Errors
/// When there is one of this name.
pub fn register(method: &'static dyn Method) -> Result<()> {
    if named(method.name()).is_some() {
        return Err(Error::setting("method", method.name(), "is there already; give it another name"));
    }
    REGISTERED.write().unwrap_or_else(PoisonError::into_inner).push(method);
    Ok(())
}

/// Every method.
pub fn all() -> Vec<&'static dyn Method> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    METHODS.iter().chain(registered.iter()).copied().collect()
}

/// The method of this name.
pub fn named(name: &str) -> Option<&'static dyn Method> {
    all().into_iter().find(|method| method.name() == name)
}

/// The section of this kind.
pub fn section(kind: &str) -> Option<Section> {
    all().into_iter().filter_map(|method| method.about().section).find(|section| section.kind == kind)
}
