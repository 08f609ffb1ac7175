//! The column that is predicted: numbers, or classes by their names.

use std::collections::{BTreeMap, BTreeSet};

use fidgp_files::written::date;

use super::cells::{Cells, is_missing, is_missing_text};
use super::survey::LEVELS;
use crate::{Error, Result};

const FILL_IN: &str = "drop the rows whose target is not known, or fill it in";

/// A column of finite numbers.
///
/// # Errors
/// Names the first line without one, and says how many there are.
///
/// # Panics
/// As a slice does, where there is no such column.
pub fn numbers(cells: &Cells, column: usize) -> Result<Vec<f64>> {
    let missing = |row: usize| is_missing(cells.text(row, column));
    refuse_missing(cells, column, missing)?;
    let read: Vec<Option<f64>> = (0..cells.rows()).map(|row| cells.number(row, column)).collect();
    let Some(row) = read.iter().position(Option::is_none) else { return Ok(read.into_iter().flatten().collect()) };
    let (wrong, cell) = (read.iter().filter(|value| value.is_none()).count(), cells.text(row, column));
    let not = if cell.parse::<f64>().is_ok() { "finite" } else { "a number" };
    let problem = format!(
        "`{cell}` is not {not} (column `{}`, the target; {wrong} of {} cells are not)",
        cells.names()[column],
        read.len()
    );
    let advice = "correct them; where the target is a class, set likelihood = { kind = \"categorical\" }";
    Err(cells.fault(row, problem, advice))
}

/// The same where every number has a logarithm.
///
/// # Errors
/// Names the first line whose number is not above 0, and says how many there are.
///
/// # Panics
/// As a slice does, where there is no such column.
pub fn positive(cells: &Cells, column: usize) -> Result<Vec<f64>> {
    let found = numbers(cells, column)?;
    let Some(row) = found.iter().position(|&number| number <= 0.0) else { return Ok(found) };
    let count = found.iter().filter(|&&number| number <= 0.0).count();
    let problem = format!(
        "{} has no logarithm (column `{}`, the target; {count} of {} numbers are not above 0)",
        found[row],
        cells.names()[column],
        found.len()
    );
    Err(cells.fault(row, problem, "leave data.target_transform out, or correct the numbers"))
}

/// The classes of a column, in the order of their names, or of their numbers where all are numbers.
///
/// # Errors
/// When a cell is empty, or there are too few or too many different ones.
///
/// # Panics
/// As a slice does, where there is no such column.
pub fn classes(cells: &Cells, column: usize) -> Result<Vec<String>> {
    let missing = |row: usize| is_missing_text(cells.text(row, column));
    refuse_missing(cells, column, missing)?;
    let names: BTreeSet<String> = (0..cells.rows()).map(|row| class(cells, row, column)).collect();
    let name = &cells.names()[column];
    let advice = "choose another target, or likelihood = { kind = \"gaussian\", … } to predict a number";
    if names.len() < 2 || names.len() > LEVELS {
        let problem = format!(
            "the target `{name}` has {} different values in {} rows; a class is one of 2 to {LEVELS}",
            names.len(),
            cells.rows()
        );
        return Err(cells.fault_of_column(problem, advice));
    }
    let mut names: Vec<String> = names.into_iter().collect();
    if names.iter().all(|name| name.parse::<f64>().is_ok()) {
        let number = |name: &String| name.parse().unwrap_or(f64::NAN);
        names.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    Ok(names)
}

/// The places of a column's cells among the classes.
///
/// # Errors
/// Names the line whose cell is none of them.
///
/// # Panics
/// As a slice does, where there is no such column.
pub fn labels(cells: &Cells, column: usize, classes: &[String]) -> Result<Vec<u32>> {
    let label = |row: usize| {
        let own = class(cells, row, column);
        classes.iter().position(|class| *class == own).map(|place| place as u32).ok_or_else(|| {
            let problem = format!(
                "`{own}` is none of the {} classes of the model (column `{}`)",
                classes.len(),
                cells.names()[column]
            );
            cells.fault(row, problem, "correct the cell, or drop the line")
        })
    };
    (0..cells.rows()).map(label).collect()
}

/// The groups of a column's rows, numbered in the order of their names: rows with the same cell are of one group.
///
/// # Panics
/// As a slice does, where there is no such column.
pub fn groups(cells: &Cells, column: usize) -> Vec<usize> {
    let names: BTreeSet<&str> = (0..cells.rows()).map(|row| cells.text(row, column)).collect();
    let numbers: BTreeMap<&str, usize> = names.into_iter().zip(0..).collect();
    (0..cells.rows()).map(|row| numbers[cells.text(row, column)]).collect()
}

/// A column of numbers or ISO dates, as numbers that rise with time.
///
/// # Errors
/// Names the line whose cell is neither.
///
/// # Panics
/// As a slice does, where there is no such column.
pub fn times(cells: &Cells, column: usize) -> Result<Vec<f64>> {
    let dated = (0..cells.rows()).any(|row| date(cells.text(row, column)).is_some());
    let time = |row: usize| {
        let time = if dated { date(cells.text(row, column)) } else { cells.number(row, column) };
        time.ok_or_else(|| {
            let kind = if dated { "a date such as 2024-01-31" } else { "a number or a date such as 2024-01-31" };
            let problem = format!("`{}` is not {kind} (column `{}`)", cells.text(row, column), cells.names()[column]);
            cells.fault(row, problem, "rows are divided by this column: every one needs a time")
        })
    };
    (0..cells.rows()).map(time).collect()
}

/// The name of a class; a number has one name however it is written.
fn class(cells: &Cells, row: usize, column: usize) -> String {
    cells.number(row, column).map_or_else(|| cells.text(row, column).to_owned(), |number| (number + 0.0).to_string())
}

fn refuse_missing(cells: &Cells, column: usize, missing: impl Fn(usize) -> bool) -> Result<()> {
    let rows = (0..cells.rows()).filter(|&row| missing(row));
    let Some(first) = rows.clone().next() else { return Ok(()) };
    let problem = |count: usize| -> Error {
        let name = &cells.names()[column];
        let of =
            if count == 1 { "here only".to_owned() } else { format!("in {count} rows, of which this is the first") };
        cells.fault(first, format!("the target `{name}` is missing {of}"), FILL_IN)
    };
    Err(problem(rows.count()))
}
