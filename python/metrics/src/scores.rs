//! Numbers from numbers.

use fidgp_metrics::{
    DrawProbs, GaussianForecast, MetricError, OodScores, Predictions, ReliabilityTable, RiskCoverage, mae, rmse,
};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::of_metric;

type Numbers<'py> = PyReadonlyArray1<'py, f64>;
type Scores<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

/// Probabilities and labels.
pub fn with_predictions<T>(
    probs: &PyReadonlyArray2<f64>,
    labels: &[usize],
    of: impl FnOnce(&Predictions) -> Result<T, MetricError>,
) -> PyResult<T> {
    let found = Predictions::new(probs.as_slice()?, probs.shape()[1], labels).and_then(|given| of(&given));
    found.map_err(|error| of_metric(&error))
}

/// A score of class probabilities: `accuracy`, `nll`, `brier`, `ece` or `adaptive_ece`.
#[pyfunction]
fn of_classes(name: &str, probs: PyReadonlyArray2<f64>, labels: Vec<usize>, bins: usize) -> PyResult<f64> {
    with_predictions(&probs, &labels, |given| match name {
        "accuracy" => Ok(given.accuracy()),
        "nll" => Ok(given.nll()),
        "brier" => Ok(given.brier()),
        "ece" => Ok(ReliabilityTable::equal_width(given, bins)?.ece().value),
        _ => Ok(ReliabilityTable::equal_mass(given, bins)?.ece().value),
    })
}

/// A score of numbers: `rmse` or `mae`.
#[pyfunction]
fn of_numbers(name: &str, mean: Numbers, target: Numbers) -> PyResult<f64> {
    let of = if name == "rmse" { rmse } else { mae };
    of(mean.as_slice()?, target.as_slice()?).map_err(|error| of_metric(&error))
}

/// A score of Gaussian forecasts: `nll`, `crps`, `coverage` or `width`.
#[pyfunction]
fn of_gaussians(name: &str, mean: Numbers, sd: Numbers, target: Numbers, level: f64) -> PyResult<f64> {
    let sd = sd.as_slice()?;
    if sd.iter().any(|sd| sd.is_nan() || *sd <= 0.0) {
        return Err(PyValueError::new_err("sd must be above 0"));
    }
    let variance: Vec<f64> = sd.iter().map(|sd| sd * sd).collect();
    let found = GaussianForecast::new(mean.as_slice()?, &variance, target.as_slice()?).and_then(|given| match name {
        "nll" => Ok(given.nll()),
        "crps" => Ok(given.crps()),
        "coverage" => given.coverage(level),
        _ => given.interval_width(level),
    });
    found.map_err(|error| of_metric(&error))
}

/// How well scores tell two sets apart: `auroc`, `aupr_out`, `aupr_in`, `fpr95` or `fpr95_caught`.
#[pyfunction]
fn of_rankings(name: &str, inside: Numbers, outside: Numbers) -> PyResult<f64> {
    let scores = OodScores::new(inside.as_slice()?, outside.as_slice()?).map_err(|error| of_metric(&error))?;
    Ok(match name {
        "auroc" => scores.auroc(),
        "aupr_out" => scores.aupr_out(),
        "aupr_in" => scores.aupr_in(),
        "fpr95" => scores.fpr95_id_kept(),
        _ => scores.fpr95_ood_caught(),
    })
}

/// Area under risk against coverage: `aurc` or `augrc`.
#[pyfunction]
fn of_risk(name: &str, confidence: Numbers, loss: Numbers) -> PyResult<f64> {
    let curve = RiskCoverage::new(confidence.as_slice()?, loss.as_slice()?).map_err(|error| of_metric(&error))?;
    Ok(if name == "aurc" { curve.aurc() } else { curve.augrc() })
}

/// Entropies of draws, total = aleatoric + epistemic. `[K, N, classes]`
#[pyfunction]
fn entropies<'py>(py: Python<'py>, probs: PyReadonlyArray3<f64>) -> PyResult<Scores<'py>> {
    let &[draws, points, classes] = probs.shape() else {
        return Err(PyValueError::new_err("draws are [K, N, classes]"));
    };
    let given = DrawProbs::new(probs.as_slice()?, draws, points, classes).map_err(|error| of_metric(&error))?;
    let split = given.entropy_split();
    Ok((split.total.into_pyarray(py), split.aleatoric.into_pyarray(py), split.epistemic.into_pyarray(py)))
}

pub fn add_to(module: &Bound<PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(of_classes, module)?)?;
    module.add_function(wrap_pyfunction!(of_numbers, module)?)?;
    module.add_function(wrap_pyfunction!(of_gaussians, module)?)?;
    module.add_function(wrap_pyfunction!(of_rankings, module)?)?;
    module.add_function(wrap_pyfunction!(of_risk, module)?)?;
    module.add_function(wrap_pyfunction!(entropies, module)?)
}
