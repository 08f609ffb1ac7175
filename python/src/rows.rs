//! Rows of tables: numbers as they are, or cells of columns that hold other things too.

use std::borrow::Cow;

use fidgp::predict::Effort;
use fidgp_data::Cells;
use fidgp_lab::LabError;
use fidgp_lab::predict::Trained;
use fidgp_lab::source::GivenRows;
use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use serde_json::Value;

use crate::model::Held;
use crate::said::{Said, SaidOfClasses, SaidOfNumbers};

/// Rows as Python hands them over.
#[derive(FromPyObject)]
pub enum Rows<'py> {
    /// `[N, columns]`
    Numbers(PyReadonlyArray2<'py, f64>),
    /// Row-major, as a file would have them.
    Cells(Vec<String>),
}

/// The same without Python: numbers stay where they are.
pub enum Lent<'a> {
    Numbers(&'a [f64]),
    Cells(&'a [String]),
}

/// Rows as the network takes them, and what stands in for what is missing or not known.
pub struct Taken<'a> {
    pub inputs: Cow<'a, [f64]>,
    pub flags: Option<Vec<Vec<String>>>,
    /// Names of the columns and the cells as they were understood, where rows are not numbers alone.
    pub cells: Option<(Vec<String>, Vec<Value>)>,
}

impl Rows<'_> {
    pub fn lent(&self) -> PyResult<Lent<'_>> {
        Ok(match self {
            Self::Numbers(rows) => Lent::Numbers(rows.as_slice()?),
            Self::Cells(cells) => Lent::Cells(cells),
        })
    }
}

impl<'a> Lent<'a> {
    pub fn taken(&self, trained: &Trained) -> Result<Taken<'a>, LabError> {
        match self {
            Self::Numbers(rows) => Ok(Taken { inputs: Cow::Borrowed(rows), flags: None, cells: None }),
            Self::Cells(cells) => {
                let view = trained.table.as_ref();
                let view = view.ok_or_else(|| LabError::config("model", "takes no cells of a table"))?;
                let cells = Cells::of_rows("x", view.columns.names(), cells)?;
                let GivenRows { inputs, names, cells, flags } = view.encoded(&cells)?;
                Ok(Taken { inputs: Cow::Owned(inputs), flags: Some(flags), cells: Some((names, cells)) })
            }
        }
    }
}

/// What the model says of rows.
pub fn said(held: &mut Held, rows: &Lent, effort: Effort) -> Result<Said, LabError> {
    let Taken { inputs, flags, .. } = rows.taken(held.predictor.trained())?;
    if held.predictor.trained().classes.is_empty() {
        let said = held.predictor.regress(&inputs, effort)?;
        let view = held.predictor.trained().table.as_ref();
        return Ok(Said::Numbers(SaidOfNumbers::new(said, flags, view, held.judge.as_ref())));
    }
    let said = held.predictor.classify_rows(&inputs, effort)?;
    let view = held.predictor.trained().table.as_ref();
    Ok(Said::Classes(SaidOfClasses::of_rows(said, (&inputs, flags), view, held.judge.as_ref())))
}
