//! Errors of the toolkit as Python knows them.

use fidgp_lab::LabError;
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};

/// What was asked for or brought along is a `ValueError`, a file an `OSError`, all else a `RuntimeError`.
pub fn of_lab(error: &LabError) -> PyErr {
    let words = error.to_string();
    match error {
        LabError::File { .. } | LabError::ConfigFile { .. } | LabError::Checkpoint { .. } => PyOSError::new_err(words),
        LabError::Data(_) | LabError::Decision(_) | LabError::Metric(_) => PyValueError::new_err(words),
        error if error.is_misuse() => PyValueError::new_err(words),
        _ => PyRuntimeError::new_err(words),
    }
}
