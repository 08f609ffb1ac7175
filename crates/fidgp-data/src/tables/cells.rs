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

/// Yes or no, in words.
pub(super) fn boolean(cell: &str) -> Option<bool> {
    match cell.to_lowercase().as_str() {
        "yes" | "true" | "y" => Some(true),
        "no" | "false" | "n" => Some(false),
        _ => None,
    }
}

/// Days from 1970-01-01 to an ISO date, `2024-01-31` or `2024-01-31T12:30[:00]`, with a part of a day for its time; an offset
/// from UTC is taken off.
pub(super) fn date(cell: &str) -> Option<f64> {
    let (day, time) = match cell.split_once(['T', ' ']) {
        Some((day, time)) => (day, Some(time)),
        None => (cell, None),
    };
    let part = |text: &str, digits: usize| {
        (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse::<i64>().ok())?
    };
    let mut parts = day.split('-');
    let (year, month, day) = (part(parts.next()?, 4)?, part(parts.next()?, 2)?, part(parts.next()?, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if parts.next().is_some() || !(1..=length).contains(&day) {
        return None;
    }
    // days of the civil calendar, years counted from March
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = days + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(days as f64 + time.map_or(Some(0.0), day_part)?)
}

/// `12:30`, `12:30:15.5`, `12:30Z`, `12:30+02:00` as a part of a day.
fn day_part(time: &str) -> Option<f64> {
    let clock = |text: &str| {
        let mut parts = text.split(':');
        let mut next = |most: f64| {
            let digits = parts.next()?;
            let number = digits.parse::<f64>().ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_digit()))?;
            (number < most).then_some(number)
        };
        let (hours, minutes) = (next(24.0)?, next(60.0)?);
        let seconds = if text.matches(':').count() > 1 { next(61.0)? } else { 0.0 };
        parts.next().is_none().then_some((hours * 60.0 + minutes) * 60.0 + seconds)
    };
    let time = time.trim_end_matches('Z');
    let (time, offset) = match time.rsplit_once(['+', '-']) {
        Some((local, offset)) => (local, clock(offset)? * if time.contains('+') { 1.0 } else { -1.0 }),
        None => (time, 0.0),
    };
    Some((clock(time)? - offset) / 86_400.0)
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
    comma: bool,
}

impl Cells {
    pub(super) fn new(file: &Path, names: Vec<String>, comma: bool) -> Self {
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
        let mut all = Self::new(Path::new(name), names, false);
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
            let is_decimal = self.comma && cell.matches(',').count() == 1 && !cell.contains('.');
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_and_nothing_else_is_a_date() {
        let is = |text: &str, days: f64| assert_eq!(date(text).map(f64::to_bits), Some(days.to_bits()), "{text}");
        is("1970-01-01", 0.0);
        is("2000-03-01", 11_017.0);
        is("2024-02-29", 19_782.0);
        is("1969-12-31T12:00", -0.5);
        is("1970-01-02 06:00:00Z", 1.25);
        is("1970-01-01T02:00+02:00", 0.0);
        is("1970-01-01T00:00-06:00", 0.25);
        for other in ["2023-02-29", "2024-13-01", "2024-1-1", "24-01-01", "2024-01-01x", "2024-01-01T25:00", "2024", ""]
        {
            assert_eq!(date(other), None, "{other}");
        }
    }
}
