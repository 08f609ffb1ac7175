//! Metrics and conformal prediction of plain arrays. Nothing here needs libtorch. What users see is the Python around it
//! (`fidgp/metrics.py`, `fidgp/conformal.py`).

mod conformal;
mod scores;

use fidgp_metrics::MetricError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

#[pymodule]
fn _metrics(module: &Bound<'_, PyModule>) -> PyResult<()> {
    scores::add_to(module)?;
    conformal::add_to(module)
}

/// Metrics refuse their arguments, nothing else.
fn of_metric(error: &MetricError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
