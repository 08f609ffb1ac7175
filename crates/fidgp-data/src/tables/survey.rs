//! What a column holds, and what becomes of it.

use std::collections::BTreeMap;

use fidgp_files::written::{boolean, date};

use super::cells::{Cells, is_missing, is_missing_text};
use crate::{Error, Result};

/// Numbers that the texts of a column become at most; classes that a target may have.
pub const LEVELS: usize = 100;

const CORRECT: &str =
    "correct the cells, leave them empty if the values are not known, or put the column into data.ignore";

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Numbers.
    Numbers,
    /// Yes and no, true and false.
    Booleans,
    /// ISO dates.
    Dates,
    /// Texts.
    Texts,
}

/// A column, counted.
#[derive(Debug, Clone, Default)]
pub struct Survey<'a> {
    /// The column's name.
    pub name: String,
    /// How many cells there are.
    pub rows: usize,
    /// Cells that say there is no value.
    pub missing: usize,
    /// Cells that are finite numbers.
    pub numbers: usize,
    /// Different values and how often they stand there; not counted in a column of numbers alone.
    pub levels: BTreeMap<&'a str, usize>,
    none: usize,
    booleans: usize,
    dates: usize,
    /// Whether numbers are texts here.
    as_texts: bool,
    /// The first cell that is neither a number nor missing.
    first_text: Option<usize>,
}

impl<'a> Survey<'a> {
    /// Looks at some rows of a column.
    pub fn of(cells: &'a Cells, column: usize, rows: impl Iterator<Item = usize> + Clone) -> Self {
        let mut found = Self { name: cells.names()[column].clone(), ..Self::default() };
        for row in rows.clone() {
            found.rows += 1;
            let cell = cells.text(row, column);
            if is_missing_text(cell) {
                found.missing += 1;
            } else if cells.number(row, column).is_some() {
                found.numbers += 1;
            } else {
                found.first_text = found.first_text.or(Some(row));
                found.none += usize::from(is_missing(cell));
                found.booleans += usize::from(boolean(cell).is_some());
                found.dates += usize::from(date(cell).is_some());
            }
        }
        if found.none == found.texts() {
            (found.missing, found.none, found.first_text) = (found.missing + found.none, 0, None); // then it is no text
        }
        if found.texts() > 0 {
            for cell in rows.map(|row| cells.text(row, column)).filter(|cell| !is_missing_text(cell)) {
                *found.levels.entry(cell).or_default() += 1;
            }
        }
        found
    }

    /// Looks at some rows of a column whose numbers are names.
    pub fn of_texts(cells: &'a Cells, column: usize, rows: impl Iterator<Item = usize> + Clone) -> Self {
        let mut found = Self { as_texts: true, ..Self::of(cells, column, rows.clone()) };
        found.levels.clear();
        for cell in rows.map(|row| cells.text(row, column)).filter(|cell| !is_missing_text(cell)) {
            *found.levels.entry(cell).or_default() += 1;
        }
        found
    }

    /// The texts that become numbers, in order: all where they are few, else the most frequent, of those that are not alone.
    pub fn kept_levels(&self) -> Vec<&'a str> {
        let mut all: Vec<(&str, usize)> = self.levels.iter().map(|(level, count)| (*level, *count)).collect();
        if all.len() > LEVELS {
            all.retain(|(_, count)| *count > 1);
            all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
            all.truncate(LEVELS - 1);
            all.sort_unstable();
        }
        all.into_iter().map(|(level, _)| level).collect()
    }

    fn texts(&self) -> usize {
        self.rows - self.missing - self.numbers
    }

    /// What the column holds; nothing where all is missing.
    pub fn holds(&self) -> Option<Holds> {
        match self.texts() {
            0 if self.numbers == 0 => None,
            _ if self.as_texts => Some(Holds::Texts),
            0 => Some(Holds::Numbers),
            texts if texts == self.booleans && self.numbers == 0 => Some(Holds::Booleans),
            texts if texts == self.dates && self.numbers == 0 => Some(Holds::Dates),
            texts if texts > self.numbers => Some(Holds::Texts),
            _ => Some(Holds::Numbers),
        }
    }

    /// What the column holds where it can be learnt from.
    ///
    /// # Errors
    /// Names the column, says how many cells are wrong and what to do.
    pub fn usable(&self, cells: &Cells) -> Result<Holds> {
        let Self { name, rows, .. } = self;
        let Some(holds) = self.holds() else {
            let problem = format!("column `{name}` has no value in any of {rows} rows");
            return Err(cells.fault_of_column(problem, "put the column into data.ignore"));
        };
        let (values, different) = (rows - self.missing, self.levels.len());
        match (holds, self.first_text) {
            (Holds::Numbers, Some(row)) => Err(self.stray(cells, row)),
            (Holds::Texts, _) if different == values && values > 1 => {
                let problem =
                    format!("column `{name}` has {different} texts, all different: it looks like a name of the row");
                Err(cells.fault_of_column(problem, "put the column into data.ignore"))
            }
            _ => Ok(holds),
        }
    }

    /// Texts among numbers.
    fn stray(&self, cells: &Cells, row: usize) -> Error {
        let (texts, numbers) = (self.texts(), self.numbers);
        let column = cells.names().iter().position(|name| *name == self.name).unwrap_or_default();
        let cell = cells.text(row, column);
        let not = if cell.parse::<f64>().is_ok() { "finite" } else { "a number" };
        let others =
            if texts == 1 { "the only such cell".to_owned() } else { format!("the first of {texts} such cells") };
        let problem = format!("`{cell}` is not {not} (column `{}`; {others} beside {numbers} numbers)", self.name);
        cells.fault(row, problem, CORRECT)
    }
}
