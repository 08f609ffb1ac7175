//! Sets, intervals and thresholds with a promise.

use fidgp_metrics::abstention;
use fidgp_metrics::conformal::{
    Bounds, ClassSets, IntervalScore, Intervals, LastLabel, SetScore, SetsByClass, coverage_law, smallest_count,
};
use fidgp_metrics::outlier::Reference;
use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::of_metric;
use crate::scores::with_predictions;

type Numbers<'py> = PyReadonlyArray1<'py, f64>;

/// Prediction sets at one level, the same for all classes or a promise for each.
#[pyclass(frozen, module = "fidgp._metrics")]
struct Sets {
    rule: Rule,
    classes: usize,
}

enum Rule {
    All(ClassSets),
    Each(SetsByClass),
}

#[pymethods]
impl Sets {
    #[new]
    fn new(
        probs: PyReadonlyArray2<f64>,
        labels: Vec<usize>,
        u: Numbers,
        asked: (f64, bool),
        score: (String, f64, usize),
    ) -> PyResult<Self> {
        let ((level, by_class), (score, penalty, free)) = (asked, score);
        let score = match score.as_str() {
            "lac" => SetScore::Lac,
            "aps" => SetScore::Aps,
            "raps" => SetScore::Raps { penalty, free },
            other => return Err(PyValueError::new_err(format!("score = '{other}' must be lac, aps or raps"))),
        };
        let u = u.as_slice()?;
        let rule = with_predictions(&probs, &labels, |given| {
            Ok(if by_class {
                Rule::Each(SetsByClass::calibrate(score, LastLabel::Keep, given, u, level)?)
            } else {
                Rule::All(ClassSets::calibrate(score, LastLabel::Keep, given, u, level)?)
            })
        })?;
        Ok(Self { rule, classes: probs.shape()[1] })
    }

    /// One threshold, or one for each class; infinite where there are too few examples.
    #[getter]
    fn thresholds(&self) -> Vec<f64> {
        match &self.rule {
            Rule::All(sets) => vec![sets.threshold.unwrap_or(f64::INFINITY)],
            Rule::Each(sets) => sets.thresholds.clone(),
        }
    }

    /// Which classes are in the sets. `[N, classes]`
    fn sets<'py>(&self, py: Python<'py>, probs: PyReadonlyArray2<f64>) -> PyResult<Bound<'py, PyArray2<bool>>> {
        let &[rows, classes] = probs.shape() else {
            return Err(PyValueError::new_err("probabilities are [N, classes]"));
        };
        if classes != self.classes {
            let why = format!("there are {classes} classes, the sets were fitted to {}", self.classes);
            return Err(PyValueError::new_err(why));
        }
        let mut held = vec![false; rows * classes];
        if classes > 0 {
            for (probs, held) in probs.as_slice()?.chunks_exact(classes).zip(held.chunks_exact_mut(classes)) {
                if probs.iter().any(|p| p.is_nan()) {
                    return Err(PyValueError::new_err("a probability is NaN"));
                }
                let set = match &self.rule {
                    Rule::All(sets) => sets.set(probs, 0.0),
                    Rule::Each(sets) => sets.set(probs, 0.0),
                };
                for class in set {
                    held[class] = true;
                }
            }
        }
        held.into_pyarray(py).reshape([rows, classes])
    }
}

/// The threshold of prediction intervals; infinite where there are too few examples.
#[pyfunction]
fn interval_threshold(score: &str, first: Numbers, second: Numbers, target: Numbers, level: f64) -> PyResult<f64> {
    let score = match score {
        "normalised" => IntervalScore::Normalised,
        "quantiles" => IntervalScore::Quantiles,
        other => return Err(PyValueError::new_err(format!("score = '{other}' must be normalised or quantiles"))),
    };
    let forecast = Bounds { first: first.as_slice()?, second: second.as_slice()? };
    let found = Intervals::calibrate(score, forecast, target.as_slice()?, level).map_err(|error| of_metric(&error))?;
    Ok(found.threshold.unwrap_or(f64::INFINITY))
}

/// p-values of scores against those of in-distribution examples.
#[pyfunction]
fn p_values<'py>(py: Python<'py>, reference: Numbers, scores: Numbers) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let scores = scores.as_slice()?;
    if scores.iter().any(|score| score.is_nan()) {
        return Err(PyValueError::new_err("a score is NaN"));
    }
    let reference = Reference::new(reference.as_slice()?).map_err(|error| of_metric(&error))?;
    Ok(scores.iter().map(|&score| reference.p_value(score)).collect::<Vec<_>>().into_pyarray(py))
}

/// Threshold (infinite: always answer), share answered, share of errors seen, its bound; none where no threshold will do.
#[pyfunction]
fn bound_risk(
    uncertainty: Numbers,
    wrong: Vec<bool>,
    risk: f64,
    confidence: f64,
) -> PyResult<Option<(f64, f64, f64, f64)>> {
    let found = abstention::bound_risk(uncertainty.as_slice()?, &wrong, risk, confidence);
    let rule = found.map_err(|error| of_metric(&error))?;
    Ok(rule.map(|rule| (rule.threshold.unwrap_or(f64::INFINITY), rule.answered, rule.seen, rule.bound)))
}

/// The fewest examples for a level.
#[pyfunction]
fn fewest(level: f64) -> PyResult<usize> {
    smallest_count(level).map_err(|error| of_metric(&error))
}

/// Mean and deviation of the coverage over choices of so many examples.
#[pyfunction]
fn coverage(examples: usize, level: f64) -> PyResult<(f64, f64)> {
    let law = coverage_law(examples, level).map_err(|error| of_metric(&error))?;
    Ok((law.mean(), law.sd()))
}

pub fn add_to(module: &Bound<PyModule>) -> PyResult<()> {
    module.add_class::<Sets>()?;
    module.add_function(wrap_pyfunction!(interval_threshold, module)?)?;
    module.add_function(wrap_pyfunction!(p_values, module)?)?;
    module.add_function(wrap_pyfunction!(bound_risk, module)?)?;
    module.add_function(wrap_pyfunction!(fewest, module)?)?;
    module.add_function(wrap_pyfunction!(coverage, module)?)
}
