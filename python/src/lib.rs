//! The compiled part of the Python package `fidgp`: models, training, and numbers from numbers. What users see, with its
//! checks of types and its words, is the Python around it (`fidgp/`).

mod conformal;
mod errors;
mod metrics;
mod model;
mod said;
mod train;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

#[pymodule]
fn _fidgp(module: &Bound<'_, PyModule>) -> PyResult<()> {
    fidgp_files::limits::check_environment().map_err(PyImportError::new_err)?;
    module.add_class::<model::Engine>()?;
    module.add_function(wrap_pyfunction!(train::train, module)?)?;
    metrics::add_to(module)?;
    conformal::add_to(module)
}
