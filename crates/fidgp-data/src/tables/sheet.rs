//! Tables that people bring along, by column.
//!
//! ```text
//! .npy           [rows, columns]
//! .safetensors   `features` [rows, columns] and `targets` [rows], which become the last column
//! .parquet       a number, a text, a date, or yes and no in each column
//! any other      text, a line for each row; semicolons, tabs, commas or blanks between the cells, names on top or not
//! ```

use std::path::{Path, PathBuf};

use csv::{ReaderBuilder, StringRecord, Trim};
use fidgp_files::limits::COLUMNS;

use super::cells::{Cells, Comma, is_missing};
use super::table;
use crate::{
    Error, Result,
    formats::{
        arrays,
        columnar::{self, Written},
        text,
    },
    listing,
};

/// Names of columns that an error tells one by one.
const SHOWN: usize = 12;
const ADVICE: &str = "every cell must be a finite number: drop the line, fill it in, or leave the column out";
/// The column of a `.safetensors` file that is no feature.
const TARGETS: &str = "targets";

/// A table whose columns have names. Cells become numbers when their column is asked for, so others may hold anything.
///
/// ```
/// let place = tempfile::tempdir()?;
/// let file = place.path().join("houses.csv");
/// std::fs::write(&file, "house,size,price\nA,90,200\nB,120,310\n")?;
/// let sheet = fidgp_data::Sheet::open(&file)?;
/// assert_eq!(sheet.names(), ["house", "size", "price"]);
/// assert_eq!(sheet.numbers(&[2, 1])?, [200.0, 90.0, 310.0, 120.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sheet {
    file: PathBuf,
    names: Vec<String>,
    headed: bool,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Text {
        content: String,
        /// Where it begins: some marks before it do not count.
        start: usize,
        separator: u8,
    },
    /// Row-major.
    Numbers(Vec<f64>),
    /// Cells of a file that has no lines.
    Written(Written),
}

impl Sheet {
    /// Reads a file and the names of its columns; where it has none they are called by their numbers, from 0. A first line
    /// of words is a heading; one with a number, or with what stands for a missing one, is a row.
    ///
    /// # Errors
    /// When the file cannot be read or holds no table.
    pub fn open(file: &Path) -> Result<Self> {
        match listing::extension(file).as_str() {
            "npy" | "safetensors" => Self::of_arrays(file),
            "parquet" => {
                let cells = columnar::read(file)?;
                Ok(Self { file: file.to_owned(), names: cells.names.clone(), headed: true, body: Body::Written(cells) })
            }
            _ => Self::of_text(file),
        }
    }

    fn of_text(file: &Path) -> Result<Self> {
        Self::parse(file, text::read(file)?)
    }

    /// The same of a text that was read already, such as standard input; errors call it by this name.
    ///
    /// # Errors
    /// When it holds no table.
    pub fn parse(file: &Path, content: String) -> Result<Self> {
        let text = content.trim_start_matches('\u{feff}').trim_start_matches('#'); // NumPy's headings have one
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let (separator, start) = (separator(first), content.len() - text.len());
        let body = Body::Text { content, start, separator };
        let mut sheet = Self { file: file.to_owned(), names: Vec::new(), headed: false, body };
        let cells = match sheet.records().next() {
            Some(first) => first.map_err(|error| sheet.unsound(&error))?.1,
            None => return Err(sheet.holds_nothing()),
        };
        COLUMNS.check(cells.len() as u64).map_err(|exceeded| Error::beyond(file, &exceeded))?;
        sheet.headed =
            !cells.iter().any(|cell| is_meant_as_number(cell)) && !cells.iter().all(|cell| begins_with_digit(cell));
        sheet.names = if sheet.headed { cells } else { numbered(cells.len()) };
        Ok(sheet)
    }

    fn of_arrays(file: &Path) -> Result<Self> {
        let arrays = arrays::read(file)?;
        let find = |name: &str| arrays.iter().find(|array| array.name == name);
        let (names, cells) = match (&arrays[..], find("features"), find(TARGETS)) {
            (_, Some(features), Some(targets)) => {
                let table = table(&file.display().to_string(), features, targets)?;
                let names = numbered(table.columns()).into_iter().chain([TARGETS.to_owned()]).collect();
                let row = |row| table.row(row).iter().copied().chain([table.targets()[row]]);
                (names, (0..table.rows()).flat_map(row).collect())
            }
            ([only], ..) | (_, Some(only), None) => {
                let &[_, columns] = &only.shape[..] else {
                    let problem = format!("`{}` has shape {:?}", only.name, only.shape);
                    return Err(Error::file(file, problem, "give a table as [rows, columns]"));
                };
                (numbered(columns), only.values.to_f64())
            }
            _ => {
                let advice = "give `features` [rows, columns] and `targets` [rows], or one array [rows, columns]";
                return Err(Error::file(file, "holds no table", advice));
            }
        };
        Ok(Self { file: file.to_owned(), names, headed: false, body: Body::Numbers(cells) })
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether the names are the file's own.
    pub fn is_headed(&self) -> bool {
        self.headed
    }

    /// The number of the column with this name.
    ///
    /// # Errors
    /// When there is none, or there are two.
    pub fn column(&self, name: &str) -> Result<usize> {
        let mut found = self.names.iter().enumerate().filter(|(_, own)| *own == name).map(|(place, _)| place);
        match (found.next(), found.next()) {
            (Some(place), None) => Ok(place),
            (Some(_), Some(_)) => {
                let problem = format!("two columns are called `{name}`");
                Err(Error::file(&self.file, problem, "give every column a name of its own"))
            }
            (None, _) => {
                let known = self.names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
                let more = if self.names.len() > SHOWN { ", …" } else { "" };
                let problem = format!("has no column `{name}`; its columns are {known}{more}");
                Err(Error::file(
                    &self.file,
                    problem,
                    "names are taken to the letter; without a heading columns count from 0",
                ))
            }
        }
    }

    /// The numbers of some columns, row-major, in the order in which they are asked for.
    ///
    /// # Errors
    /// Names the line, the column and the cell that is no finite number, or the line that has another number of cells.
    ///
    /// # Panics
    /// As a slice does, where a column is not below the number of [names](Self::names).
    pub fn numbers(&self, columns: &[usize]) -> Result<Vec<f64>> {
        let numbers = match &self.body {
            Body::Numbers(cells) => {
                let rows = cells.chunks_exact(self.names.len().max(1));
                rows.enumerate()
                    .flat_map(|(row, cells)| columns.iter().map(move |&column| (row, column, cells[column])))
                    .map(|(row, column, value)| self.finite(row, column, value))
                    .collect::<Result<Vec<_>>>()?
            }
            Body::Written(cells) => {
                let places = (0..cells.rows()).flat_map(|row| columns.iter().map(move |&column| (row, column)));
                places
                    .map(|(row, column)| self.number(row, column, cells.cell(row, column)))
                    .collect::<Result<Vec<_>>>()?
            }
            Body::Text { .. } => self.parsed(columns)?,
        };
        if numbers.is_empty() { Err(self.holds_nothing()) } else { Ok(numbers) }
    }

    fn parsed(&self, columns: &[usize]) -> Result<Vec<f64>> {
        let mut numbers = Vec::new();
        for record in self.records().skip(usize::from(self.headed)) {
            let (line, cells) = self.whole(record)?;
            for &column in columns {
                let (cell, name) = (&cells[column], &self.names[column]);
                let bad =
                    |what: String| Err(Error::line(&self.file, line, format!("{what} (column `{name}`)"), ADVICE));
                match cell.parse::<f64>() {
                    Ok(value) if value.is_finite() => numbers.push(value),
                    Ok(_) => return bad(format!("`{cell}` is not finite")),
                    Err(_) if is_missing(cell) => {
                        return bad(format!("`{cell}` is no number: a value is missing"));
                    }
                    Err(_) => return bad(format!("`{cell}` is not a number")),
                }
            }
        }
        Ok(numbers)
    }

    /// A line that has as many cells as the first.
    fn whole(&self, record: csv::Result<(usize, Vec<String>)>) -> Result<(usize, Vec<String>)> {
        let (line, cells) = record.map_err(|error| self.unsound(&error))?;
        if cells.len() == self.names.len() {
            return Ok((line, cells));
        }
        let problem = format!("{} cells, the first line has {}", cells.len(), self.names.len());
        let commented = matches!(&self.body, Body::Text { content, .. } if content.starts_with('#'));
        let advice = if commented {
            "the first line is taken as the heading: remove lines of comments before it"
        } else {
            "give every line the same number of columns"
        };
        Err(Error::line(&self.file, line, problem, advice))
    }

    /// Some columns as they were written, in the order in which they are asked for.
    ///
    /// # Errors
    /// Names the line that has another number of cells.
    ///
    /// # Panics
    /// As a slice does, where a column is not below the number of [names](Self::names).
    pub fn cells(&self, columns: &[usize]) -> Result<Cells> {
        let names = columns.iter().map(|&column| self.names[column].clone()).collect();
        let comma = match self.body {
            Body::Text { separator: b';' | b'\t', .. } => Comma::Decimal,
            Body::Text { separator: b',', .. } => Comma::Quoted,
            _ => Comma::Text,
        };
        let mut cells = Cells::new(&self.file, names, comma);
        match &self.body {
            Body::Numbers(numbers) => {
                let known = |number: f64| if number.is_nan() { String::new() } else { number.to_string() };
                let rows = numbers.chunks_exact(self.names.len().max(1));
                for row in rows {
                    for &column in columns {
                        cells.push(&known(row[column]));
                    }
                }
            }
            Body::Written(written) => {
                for row in 0..written.rows() {
                    for &column in columns {
                        cells.push(written.cell(row, column));
                    }
                }
            }
            Body::Text { .. } => {
                for record in self.records().skip(usize::from(self.headed)) {
                    let (line, row) = self.whole(record)?;
                    for &column in columns {
                        cells.push(&row[column]);
                    }
                    cells.end_row(line);
                }
            }
        }
        if cells.rows() == 0 { Err(self.holds_nothing()) } else { Ok(cells) }
    }

    /// The number of a cell of a file that has no lines.
    fn number(&self, row: usize, column: usize, cell: &str) -> Result<f64> {
        if let Ok(number) = cell.parse::<f64>() {
            return self.finite(row, column, number);
        }
        let what = if is_missing(cell) { "no value" } else { "no number" };
        let problem = format!("row {row} holds {what} (column `{}`)", self.names[column]);
        Err(Error::file(&self.file, problem, ADVICE))
    }

    fn finite(&self, row: usize, column: usize, value: f64) -> Result<f64> {
        if value.is_finite() {
            return Ok(value);
        }
        let problem = format!("row {row} holds {value} (column `{}`)", self.names[column]);
        Err(Error::file(&self.file, problem, ADVICE))
    }

    /// Lines with their numbers from 1, cut into cells; lines without any are skipped.
    fn records(&self) -> impl Iterator<Item = csv::Result<(usize, Vec<String>)>> + '_ {
        let (content, separator) = match &self.body {
            Body::Text { content, start, separator } => (&content[*start..], *separator),
            Body::Numbers(_) | Body::Written(_) => ("", b','),
        };
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .delimiter(separator)
            .from_reader(content.as_bytes());
        let filled = move |cell: &&str| separator != b' ' || !cell.is_empty(); // several blanks are one
        let most = usize::try_from(COLUMNS.most()).unwrap_or(usize::MAX).saturating_add(1);
        let cells = move |record: StringRecord| {
            let line = record.position().map_or(0, |place| {
                // the reader stands before the end of the last line where that is \r\n, and before empty lines
                let rest = content.as_bytes().get(place.byte() as usize..).unwrap_or_default();
                let ends = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
                place.line() as usize + ends.filter(|byte| **byte == b'\n').count()
            });
            (line, record.iter().filter(filled).take(most).map(str::to_owned).collect::<Vec<_>>())
        };
        let is_empty = |(_, cells): &(usize, Vec<String>)| cells.iter().all(String::is_empty) && cells.len() < 2;
        reader
            .into_records()
            .map(move |record| record.map(cells))
            .filter(move |record| !record.as_ref().is_ok_and(is_empty))
    }

    fn unsound(&self, error: &csv::Error) -> Error {
        Error::file(&self.file, error.to_string(), "the file should be plain text, cells between commas")
    }

    pub(crate) fn holds_nothing(&self) -> Error {
        Error::file(&self.file, "holds no numbers", "give at least one line of them")
    }
}

fn numbered(columns: usize) -> Vec<String> {
    (0..columns).map(|column| column.to_string()).collect()
}

/// What stands between the cells of a line: the first of these that it has outside quotes, else blanks.
fn separator(line: &str) -> u8 {
    let mut quoted = false;
    let bare: String = line
        .chars()
        .filter(|&c| {
            quoted ^= c == '"';
            !quoted
        })
        .collect();
    [b';', b'\t', b','].into_iter().find(|&mark| bare.contains(char::from(mark))).unwrap_or(b' ')
}

/// Also where it cannot be read as one: `1,5`, `12 %`, a date. `1stFloor` is no number, and may be the name of a column.
fn is_meant_as_number(word: &str) -> bool {
    let digits = begins_with_digit(word) && !word.contains(char::is_alphabetic);
    digits || word.parse::<f64>().is_ok() || (!word.is_empty() && is_missing(word))
}

fn begins_with_digit(word: &str) -> bool {
    word.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit())
}
