//! What a column holds, and what becomes of it.

use std::collections::BTreeMap;

use fidgp_files::written::{boolean, date};

use super::cells::{Cells, is_missing, is_missing_text};
use crate::{Error, Result};

/// Numbers that the texts of a column become at most; classes that a target may have.
pub const LEVELS: usize = 100;

const CORRECT: &str =
    "correct the cells, leave them empty if the values are not known, or put the column into data.ignore";

const TAKE_OFF: &str =
    "take signs, units and thousands separators off; if these are names, put the column into data.categorical";
const ONE_WAY: &str = "write all dates as 2024-01-31 (between slashes the day comes first); if these are names, put the column into \
    data.categorical";

/// More different texts than these are no few steps, such as `10 %` and `20 %`.
const FEW: usize = 10;

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
    /// Texts that are numbers with a sign or a separator which is not read, and the first of them.
    spelt: usize,
    first_spelt: Option<usize>,
    /// The first text that is no date.
    first_undated: Option<usize>,
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
                let (dated, spelt) = (date(cell).is_some(), is_spelt(cell));
                found.dates += usize::from(dated);
                found.spelt += usize::from(spelt);
                found.first_spelt = found.first_spelt.or(spelt.then_some(row));
                found.first_undated = found.first_undated.or((!dated).then_some(row));
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
        self.misread(cells)?;
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

    /// Refuses texts that somebody means as numbers or dates: as names they would say little.
    ///
    /// # Errors
    /// Names the first such cell, says how many there are and what to do.
    pub fn misread(&self, cells: &Cells) -> Result<()> {
        if self.as_texts || self.holds() != Some(Holds::Texts) {
            return Ok(());
        }
        let column = cells.names().iter().position(|name| *name == self.name).unwrap_or_default();
        let texts = self.texts();
        if let Some(row) = self.first_spelt.filter(|_| self.spelt * 10 >= texts * 9 && self.levels.len() > FEW) {
            let cell = cells.text(row, column);
            let problem = format!(
                "`{cell}` is not read as a number (column `{}`; {} of {texts} texts are numbers with a sign or a separator)",
                self.name, self.spelt
            );
            return Err(cells.fault(row, problem, TAKE_OFF));
        }
        if let Some(row) = self.first_undated.filter(|_| self.dates * 4 >= texts) {
            let cell = cells.text(row, column);
            let problem =
                format!("`{cell}` is not a date (column `{}`; {} of {texts} texts are dates)", self.name, self.dates);
            return Err(cells.fault(row, problem, ONE_WAY));
        }
        Ok(())
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

/// Whether a text is a number with a sign of money, of a share or of thousands: `$1,234.50`, `12 %`, `1.234,5`, `1'000`.
fn is_spelt(cell: &str) -> bool {
    let signs = |c: char| matches!(c, '$' | '€' | '£' | '¥' | '%' | '°' | ' ' | '\u{a0}');
    let digits = cell.trim_matches(signs).trim_start_matches(['+', '-']).trim_matches(signs);
    digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '\'' | '’' | ' ' | '\u{a0}' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sheet;

    #[test]
    fn numbers_with_signs_are_told_from_names() {
        for number in ["$1,234.50", "12 %", "1.234,5", "1'000", "-3.5€", "1 000", "+ 5 %", "€ .5"] {
            assert!(is_spelt(number), "{number}");
        }
        for name in ["", "%", "10-20", "A1", "1a", "030-1234", "2024-01-31", "1/2", "3 rooms"] {
            assert!(!is_spelt(name), "{name}");
        }
    }

    fn usable(cell: impl Fn(usize) -> String) -> Result<Holds> {
        let rows: String = (0..40).map(|row| format!("{};{row}\n", cell(row))).collect();
        let sheet = Sheet::parse(std::path::Path::new("t.csv"), format!("x;y\n{rows}")).unwrap();
        let cells = sheet.cells(&[0, 1]).unwrap();
        Survey::of(&cells, 0, 0..40).usable(&cells)
    }

    #[test]
    fn texts_that_are_meant_as_numbers_or_dates_are_refused() {
        let said = usable(|row| format!("${row}.50")).unwrap_err().to_string();
        assert!(said.contains("line 2") && said.contains("40 of 40 texts are numbers with a sign"), "{said}");
        let said = usable(|row| format!("1.{row:03},5")).unwrap_err().to_string();
        assert!(said.contains("thousands separators"), "{said}");
        assert_eq!(usable(|row| format!("{} %", row % 5)).unwrap(), Holds::Texts, "five steps may be names");
        let said = usable(|row| format!("{:02}/{:02}/2024", 1 + row % 12, 1 + row % 28)).unwrap_err().to_string();
        assert!(said.contains("line 14") && said.contains("is not a date"), "{said}");
        assert_eq!(usable(|row| format!("{:02}/01/2024", 1 + row % 12)).unwrap(), Holds::Dates);
        let named =
            |row: usize| if row.is_multiple_of(8) { "2024-01-31".to_owned() } else { format!("group {}", row % 3) };
        assert_eq!(usable(named).unwrap(), Holds::Texts, "a date among names is a name");
    }
}
