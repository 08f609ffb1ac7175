//! What a model says, as columns for NumPy.

use fidgp_decision::decide::Judge;
use fidgp_decision::{ClassEvidence, Decision, NumberEvidence};
use fidgp_lab::predict::{ClassPrediction, NumberPrediction};
use fidgp_lab::source::TableView;
use numpy::{IntoPyArray, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A decision with the score that its p-value is of.
type Judged = (Decision, Option<f64>);

/// Of pictures, or of rows.
pub struct SaidOfClasses {
    said: Vec<ClassPrediction>,
    /// Features outside the training data, and what stands in for missing ones; none for pictures.
    remarks: Option<Remarks>,
    judged: Option<Vec<Judged>>,
}

/// Of rows.
pub struct SaidOfNumbers {
    said: Vec<NumberPrediction>,
    remarks: Remarks,
    judged: Option<Vec<Judged>>,
}

/// Of rows, whatever the model is for.
pub enum Said {
    Classes(SaidOfClasses),
    Numbers(SaidOfNumbers),
}

/// What is out of the ordinary, for each row.
struct Remarks {
    outside: Vec<Vec<String>>,
    flags: Vec<Vec<String>>,
}

impl Remarks {
    fn add_to(&self, columns: &Bound<PyDict>) -> PyResult<()> {
        columns.set_item("out_of_range", &self.outside)?;
        columns.set_item("flags", &self.flags)
    }
}

impl Said {
    pub fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match self {
            Self::Classes(said) => said.columns(py),
            Self::Numbers(said) => said.columns(py),
        }
    }
}

fn judged_classes(evidence: &[ClassEvidence], judge: Option<&Judge>) -> Option<Vec<Judged>> {
    let of = |judge: &Judge, said: &ClassEvidence| (judge.class(said), judge.ood_score(&|score| score.of_class(said)));
    judge.map(|judge| evidence.iter().map(|one| of(judge, one)).collect())
}

impl SaidOfClasses {
    pub fn of_pictures(said: Vec<ClassPrediction>, judge: Option<&Judge>) -> Self {
        let evidence: Vec<_> = said.iter().map(ClassPrediction::evidence).collect();
        Self { judged: judged_classes(&evidence, judge), said, remarks: None }
    }

    /// Of rows as the network takes them, row-major.
    pub fn of_rows(
        said: Vec<ClassPrediction>,
        (rows, flags): (&[f64], Option<Vec<Vec<String>>>),
        view: Option<&TableView>,
        judge: Option<&Judge>,
    ) -> Self {
        let rows = rows.chunks((rows.len() / said.len().max(1)).max(1));
        let evidence: Vec<_> = said.iter().zip(rows).map(|(one, row)| one.evidence_of_row(row, view)).collect();
        let judged = judged_classes(&evidence, judge);
        let flags = flags.unwrap_or_else(|| vec![Vec::new(); said.len()]);
        let outside = evidence.into_iter().map(|one| one.outside.said).collect();
        Self { said, remarks: Some(Remarks { outside, flags }), judged }
    }

    pub fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        let classes = self.said.first().map_or(0, |one| one.probabilities.len());
        let all: Vec<f64> = self.said.iter().flat_map(|one| one.probabilities.iter().copied()).collect();
        columns.set_item("probabilities", all.into_pyarray(py).reshape([self.said.len(), classes])?)?;
        let column = |of: fn(&ClassPrediction) -> f64| self.said.iter().map(of).collect::<Vec<_>>().into_pyarray(py);
        columns.set_item("total", column(|one| one.total))?;
        columns.set_item("aleatoric", column(|one| one.aleatoric))?;
        columns.set_item("epistemic", column(|one| one.epistemic))?;
        let draws: Vec<i64> = self.said.iter().map(|one| one.draws as i64).collect();
        columns.set_item("draws", draws.into_pyarray(py))?;
        for (name, of) in [("error", error as fn(&ClassPrediction) -> Option<f64>), ("log_density", log_density)] {
            let known: Option<Vec<f64>> = self.said.iter().map(of).collect();
            columns.set_item(name, known.filter(|all| !all.is_empty()).map(|all| all.into_pyarray(py)))?;
        }
        if let Some(remarks) = &self.remarks {
            remarks.add_to(&columns)?;
        }
        if let Some(judged) = &self.judged {
            add_decisions(py, &columns, judged)?;
            let sets = PyDict::new(py);
            let levels = judged.first().map_or(&[][..], |(decision, _)| &decision.sets);
            for (place, level) in levels.iter().map(|set| set.level).enumerate() {
                let mut held = vec![false; judged.len() * classes];
                for (row, (decision, _)) in judged.iter().enumerate() {
                    decision.sets[place].classes.iter().for_each(|class| held[row * classes + class] = true);
                }
                sets.set_item(level, held.into_pyarray(py).reshape([judged.len(), classes])?)?;
            }
            columns.set_item("sets", sets)?;
        }
        Ok(columns)
    }
}

fn error(said: &ClassPrediction) -> Option<f64> {
    said.error
}

fn log_density(said: &ClassPrediction) -> Option<f64> {
    said.log_density
}

impl SaidOfNumbers {
    pub fn new(
        said: Vec<NumberPrediction>,
        flags: Option<Vec<Vec<String>>>,
        view: Option<&TableView>,
        judge: Option<&Judge>,
    ) -> Self {
        let of = |judge: &Judge, said: &NumberEvidence| {
            (judge.number(said), judge.ood_score(&|score| score.of_number(said)))
        };
        let evidence: Vec<_> = said.iter().map(|one| one.evidence(view)).collect();
        let judged = judge.map(|judge| evidence.iter().map(|one| of(judge, one)).collect());
        let flags = flags.unwrap_or_else(|| vec![Vec::new(); said.len()]);
        let outside = evidence.into_iter().map(|one| one.outside.said).collect();
        Self { said, remarks: Remarks { outside, flags }, judged }
    }

    pub fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        let column = |of: fn(&NumberPrediction) -> f64| self.said.iter().map(of).collect::<Vec<_>>().into_pyarray(py);
        columns.set_item("mean", column(|one| one.mean))?;
        columns.set_item("sd", column(|one| one.sd))?;
        columns.set_item("aleatoric", column(|one| one.noise_sd))?;
        columns.set_item("epistemic", column(|one| one.epistemic_sd))?;
        self.remarks.add_to(&columns)?;
        if let Some(judged) = &self.judged {
            add_decisions(py, &columns, judged)?;
            let intervals = PyDict::new(py);
            let levels = judged.first().map_or(&[][..], |(decision, _)| &decision.intervals);
            for (place, level) in levels.iter().map(|interval| interval.level).enumerate() {
                let ends = judged.iter().map(|(decision, _)| decision.intervals[place]);
                let ends: Vec<f64> = ends.flat_map(|interval| [interval.lo, interval.hi]).collect();
                intervals.set_item(level, ends.into_pyarray(py).reshape([judged.len(), 2])?)?;
            }
            columns.set_item("intervals", intervals)?;
        }
        Ok(columns)
    }
}

fn add_decisions(py: Python, columns: &Bound<PyDict>, judged: &[Judged]) -> PyResult<()> {
    columns.set_item("decision", judged.iter().map(|(said, _)| said.verdict.to_string()).collect::<Vec<_>>())?;
    columns.set_item("reason", judged.iter().map(|(said, _)| said.reason.clone()).collect::<Vec<_>>())?;
    let scores: Option<Vec<f64>> = judged.iter().map(|(_, score)| *score).collect();
    columns.set_item("ood_score", scores.map(|all| all.into_pyarray(py)))?;
    let p_values: Option<Vec<f64>> = judged.iter().map(|(said, _)| said.p_value).collect();
    columns.set_item("ood_p", p_values.map(|all| all.into_pyarray(py)))
}
