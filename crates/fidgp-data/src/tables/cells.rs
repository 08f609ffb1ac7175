//! Cells of a table as they were written, and what they mean.

use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// What tables have in place of a value that is not there, in small letters.
const MISSING: [&str; 7] = ["", "na", "n/a", "nan", "null", "none", "?"];
/// Of these, what may be a value among texts.
const PERHAPS: &str = "none";

/// Whether a cell says that there is no value.
pub(super) fn is_missing(cell: &str) -> bool {
    cell.len() <= 4 && MISSING.contains(&cell.to_lowercase().as_str())
}

/// Whether a cell of a column of texts says that there is no value: `none` is a text there.
pub(super) fn is_missing_text(cell: &str) -> bool {
    is_missing(cell) && !cell.eq_ignore_ascii_case(PERHAPS)
}

/// Columns of a table as text. What a cell means is asked cell by cell.
#[derive(Debug, Clone)]
pub struct Cells {
    file: PathBuf,
    names: Vec<String>,
    /// Of each row, from 1; none where rows are not lines.
    lines: Vec<usize>,
    text: String,
    /// Where each cell ends in the text, row by row.
    ends: Vec<usize>,
    /// Whether `1,5` is one and a half.
    comma: Comma,
}

/// What a comma inside a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comma {
    /// No part of a number.
    Text,
    /// Decimal, as in `1,5`.
    Decimal,
    /// Decimal unless three digits follow: `"1,234"` between commas may be a thousand.
    Quoted,
}

impl Cells {
    pub(super) fn new(file: &Path, names: Vec<String>, comma: Comma) -> Self {
        Self { file: file.to_owned(), names, lines: Vec::new(), text: String::new(), ends: Vec::new(), comma }
    }

    /// Rows that are not from a file; errors call them by this name.
    ///
    /// # Errors
    /// When they are no whole rows.
    pub fn of_rows(name: &str, names: Vec<String>, cells: &[String]) -> Result<Self> {
        if names.is_empty() || !cells.len().is_multiple_of(names.len()) {
            let problem = format!("{} cells are no whole rows of {}", cells.len(), names.len());
            return Err(Error::value(name, problem, "give a cell for each column"));
        }
        let mut all = Self::new(Path::new(name), names, Comma::Text);
        for cell in cells {
            all.push(cell.trim());
        }
        Ok(all)
    }

    pub(super) fn push(&mut self, cell: &str) {
        self.text.push_str(cell);
        self.ends.push(self.text.len());
    }

    pub(super) fn end_row(&mut self, line: usize) {
        self.lines.push(line);
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.ends.len() / self.names.len().max(1)
    }

    /// A cell as it was written.
    ///
    /// # Panics
    /// As a slice does, where there is no such row or column.
    pub fn text(&self, row: usize, column: usize) -> &str {
        let place = row * self.names.len() + column;
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.text[start..self.ends[place]]
    }

    /// A cell as a finite number.
    pub fn number(&self, row: usize, column: usize) -> Option<f64> {
        let cell = self.text(row, column);
        let finite = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        finite(cell).or_else(|| {
            let (_, digits) = cell.split_once(',')?;
            let is_number = !digits.contains(',') && !cell.contains('.');
            let is_decimal = match self.comma {
                Comma::Text => false,
                Comma::Decimal => is_number,
                Comma::Quoted => is_number && digits.len() != 3,
            };
            is_decimal.then(|| finite(&cell.replace(',', ".")))?
        })
    }

    /// A fault of one row.
    pub(super) fn fault(&self, row: usize, problem: impl Into<String>, advice: &'static str) -> Error {
        match self.lines.get(row) {
            Some(line) => Error::line(&self.file, *line, problem, advice),
            None => Error::file(&self.file, format!("row {row}: {}", problem.into()), advice),
        }
    }

    /// A fault of a column.
    pub(super) fn fault_of_column(&self, problem: impl Into<String>, advice: &'static str) -> Error {
        Error::file(&self.file, problem, advice)
    }
}
