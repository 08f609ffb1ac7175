//! The compiled part of the Python package `fidgp` that needs libtorch: models, training and wrapping. What users see, with its
//! checks of types and its words, is the Python around it (`fidgp/`); numbers from numbers are in `metrics/`.

mod errors;
mod model;
mod pixels;
mod rows;
mod rules;
mod said;
mod train;
mod wrap;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

#[pymodule]
fn _fidgp(module: &Bound<'_, PyModule>) -> PyResult<()> {
    fidgp_files::limits::check_environment().map_err(PyImportError::new_err)?;
    module.add_class::<model::Engine>()?;
    module.add_function(wrap_pyfunction!(train::train, module)?)?;
    module.add_function(wrap_pyfunction!(wrap::wrap, module)?)
}
