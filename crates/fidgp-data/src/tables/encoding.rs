//! How columns of numbers, texts, dates, yes and no, with gaps, become the numbers that a network takes.
//!
//! | column | numbers |
//! |---|---|
//! | numbers | the number |
//! | yes and no | 1 and 0 |
//! | dates | days since 1970-01-01 |
//! | texts | for each text 0 or 1, one more for texts that the training rows do not have, or that are rare among many |
//!
//! A missing value is the median of the training rows, and a number beside it says so where training rows lack some too. A
//! missing text is a text of its own.

use fidgp_files::limits::COLUMNS;
use fidgp_files::written::{boolean, date};
use serde::{Deserialize, Serialize};

use super::cells::{Cells, is_missing, is_missing_text};
use super::survey::{Holds, Survey};
use crate::{Error, Result};

/// How one column becomes numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum ColumnEncoding {
    /// A number.
    Number {
        /// The column.
        name: String,
        /// Of the training rows.
        median: f64,
        /// Whether training rows lack some.
        gaps: bool,
    },
    /// Yes or no.
    Boolean {
        /// The column.
        name: String,
        /// Of the training rows, yes being 1.
        median: f64,
        /// Whether training rows lack some.
        gaps: bool,
    },
    /// A date.
    Date {
        /// The column.
        name: String,
        /// Of the training rows, in days since 1970-01-01.
        median: f64,
        /// Whether training rows lack some.
        gaps: bool,
    },
    /// A text.
    Text {
        /// The column.
        name: String,
        /// The texts of the training rows, in order.
        levels: Vec<String>,
        /// Whether training rows lack some.
        gaps: bool,
        /// How many more texts training rows have, which are too rare or too many for a number each.
        #[serde(default, skip_serializing_if = "is_zero")]
        rare: usize,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// What a cell is.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// Not there.
    Missing,
    /// A number.
    Number(f64),
    /// Yes or no.
    Boolean(bool),
    /// A text, or a date as it was written.
    Text(String),
}

/// Rows as a network takes them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Encoded {
    /// Row-major.
    pub numbers: Vec<f64>,
    /// What the cells are, row-major.
    pub given: Vec<Given>,
    /// For each row what was put in place of what is missing or not known, in words.
    pub flags: Vec<Vec<String>>,
}

impl ColumnEncoding {
    /// Learns from some rows of a column; numbers may be taken as texts.
    fn learn(cells: &Cells, column: usize, rows: &[usize], as_texts: bool) -> Result<Self> {
        let survey = if as_texts {
            Survey::of_texts(cells, column, rows.iter().copied())
        } else {
            Survey::of(cells, column, rows.iter().copied())
        };
        let (holds, name, gaps) = (survey.usable(cells)?, survey.name.clone(), survey.missing > 0);
        if holds == Holds::Texts {
            let levels: Vec<String> = survey.kept_levels().into_iter().map(str::to_owned).collect();
            let rare = survey.levels.len() - levels.len();
            return Ok(Self::Text { name, levels, gaps, rare });
        }
        let read = |row: &usize| read(holds, cells, *row, column);
        let median = median(rows.iter().filter_map(read).collect());
        Ok(match holds {
            Holds::Booleans => Self::Boolean { name, median, gaps },
            Holds::Dates => Self::Date { name, median, gaps },
            Holds::Numbers | Holds::Texts => Self::Number { name, median, gaps },
        })
    }

    /// The column's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Number { name, .. }
            | Self::Boolean { name, .. }
            | Self::Date { name, .. }
            | Self::Text { name, .. } => name,
        }
    }

    fn gaps(&self) -> bool {
        match self {
            Self::Number { gaps, .. }
            | Self::Boolean { gaps, .. }
            | Self::Date { gaps, .. }
            | Self::Text { gaps, .. } => *gaps,
        }
    }

    /// How many numbers it becomes.
    pub fn width(&self) -> usize {
        let values = if let Self::Text { levels, .. } = self { levels.len() + 1 } else { 1 };
        values + usize::from(self.gaps())
    }

    /// The place among its numbers that says a text is none of the known ones.
    pub fn other(&self) -> Option<usize> {
        if let Self::Text { levels, .. } = self { Some(levels.len()) } else { None }
    }

    /// Its texts; none where it holds something else.
    pub fn levels(&self) -> &[String] {
        if let Self::Text { levels, .. } = self { levels } else { &[] }
    }

    fn features(&self) -> Vec<String> {
        let name = self.name();
        match self {
            Self::Text { levels, gaps, .. } => {
                let levels = levels.iter().map(|level| format!("{name} = {level}"));
                let missing = gaps.then(|| format!("{name} is missing"));
                levels.chain([format!("{name} = (other)")]).chain(missing).collect()
            }
            _ => std::iter::once(name.to_owned()).chain(self.gaps().then(|| format!("{name} is missing"))).collect(),
        }
    }

    /// How many texts the training rows have beside those that became numbers.
    pub fn rare(&self) -> usize {
        if let Self::Text { rare, .. } = self { *rare } else { 0 }
    }

    /// Whether the numbers in it can be; else why not.
    fn check(&self) -> std::result::Result<(), String> {
        match self {
            Self::Text { name, levels, .. } if !levels.is_sorted_by(|a, b| a < b) => {
                Err(format!("the texts of `{name}` are not in order, or one stands there twice"))
            }
            Self::Number { name, median, .. }
            | Self::Boolean { name, median, .. }
            | Self::Date { name, median, .. }
                if !median.is_finite() =>
            {
                Err(format!("the median of `{name}` is {median}"))
            }
            _ => Ok(()),
        }
    }

    /// Adds the numbers of a cell.
    fn push(&self, cells: &Cells, (row, column): (usize, usize), to: &mut Encoded) -> Result<()> {
        let (cell, name) = (cells.text(row, column), self.name());
        let (given, flag) = match self {
            Self::Text { levels, gaps, rare, .. } => {
                let place = levels.binary_search_by(|level| level.as_str().cmp(cell)).ok();
                let missing = is_missing_text(cell) && place.is_none();
                let place = place.unwrap_or(levels.len() + usize::from(missing && *gaps));
                to.numbers.extend((0..self.width()).map(|i| f64::from(u8::from(i == place))));
                let given = if missing { Given::Missing } else { Given::Text(cell.to_owned()) };
                let flag = match (missing, place == levels.len()) {
                    (true, _) => Some(format!("{name} is missing")),
                    (false, true) => {
                        let most = if *rare > 0 { "most frequent texts" } else { "texts" };
                        Some(format!("{name} = {cell} is none of the {} {most} of the training data", levels.len()))
                    }
                    (false, false) => None,
                };
                (given, flag)
            }
            Self::Number { median, gaps, .. }
            | Self::Boolean { median, gaps, .. }
            | Self::Date { median, gaps, .. } => {
                let value = read(self.holds(), cells, row, column);
                if value.is_none() && !is_missing(cell) {
                    return Err(self.misfit(cells, (row, column)));
                }
                to.numbers.push(value.unwrap_or(*median));
                to.numbers.extend(gaps.then_some(f64::from(u8::from(value.is_none()))));
                let given = match (self, value) {
                    (_, None) => Given::Missing,
                    (Self::Boolean { .. }, Some(value)) => Given::Boolean(value > 0.5),
                    (Self::Date { .. }, Some(_)) => Given::Text(cell.to_owned()),
                    (_, Some(value)) => Given::Number(value),
                };
                let flag =
                    value.is_none().then(|| format!("{name} is missing: the median of the training data stands in"));
                (given, flag)
            }
        };
        to.given.push(given);
        if let (Some(flag), Some(flags)) = (flag, to.flags.last_mut()) {
            flags.push(flag);
        }
        Ok(())
    }

    fn holds(&self) -> Holds {
        match self {
            Self::Number { .. } => Holds::Numbers,
            Self::Boolean { .. } => Holds::Booleans,
            Self::Date { .. } => Holds::Dates,
            Self::Text { .. } => Holds::Texts,
        }
    }

    fn misfit(&self, cells: &Cells, (row, column): (usize, usize)) -> Error {
        let what = match self.holds() {
            Holds::Booleans => "neither yes nor no",
            Holds::Dates => "not a date such as 2024-01-31",
            Holds::Numbers | Holds::Texts => "not a finite number",
        };
        let problem = format!("`{}` is {what} (column `{}`)", cells.text(row, column), self.name());
        cells.fault(row, problem, "the training rows have nothing else there: correct the cell, or leave it empty")
    }
}

/// A cell as a number, where it is one of the kind.
fn read(holds: Holds, cells: &Cells, row: usize, column: usize) -> Option<f64> {
    match holds {
        Holds::Numbers | Holds::Texts => cells.number(row, column),
        Holds::Booleans => {
            let bit =
                || cells.number(row, column).filter(|&bit| bit.to_bits() == 0 || bit.to_bits() == 1.0_f64.to_bits());
            boolean(cells.text(row, column)).map(|yes| f64::from(u8::from(yes))).or_else(bit)
        }
        Holds::Dates => date(cells.text(row, column)),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => values[n / 2 - 1].midpoint(values[n / 2]),
    }
}

/// How the columns of a table become numbers, learnt from its training rows.
///
/// ```
/// use fidgp_data::{Encoding, Sheet};
/// let place = tempfile::tempdir()?;
/// let file = place.path().join("houses.csv");
/// std::fs::write(&file, "city,garden,area\nBonn,yes,90\nKiel,no,\nBonn,no,120\nKiel,yes,100\n")?;
/// let cells = Sheet::open(&file)?.cells(&[0, 1, 2])?;
/// let encoding = Encoding::learn(&cells, &[0, 1, 2, 3])?;
/// assert_eq!(encoding.features(), ["city = Bonn", "city = Kiel", "city = (other)", "garden", "area", "area is missing"]);
/// let rows = encoding.encode(&cells)?;
/// assert_eq!(rows.numbers[..12], [1., 0., 0., 1., 90., 0., 0., 1., 0., 0., 100., 1.]);
/// assert_eq!(rows.flags[1], ["area is missing: the median of the training data stands in"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Encoding {
    columns: Vec<ColumnEncoding>,
}

impl Encoding {
    /// Learns from the training rows.
    ///
    /// # Errors
    /// Names the column that cannot be learnt from, says how many of its cells are wrong and what to do.
    pub fn learn(cells: &Cells, rows: &[usize]) -> Result<Self> {
        Self::learn_with(cells, rows, &[])
    }

    /// The same where the numbers of some columns are names, such as post codes.
    ///
    /// # Errors
    /// As [`Self::learn`].
    pub fn learn_with(cells: &Cells, rows: &[usize], categorical: &[String]) -> Result<Self> {
        let learn =
            |column: usize| ColumnEncoding::learn(cells, column, rows, categorical.contains(&cells.names()[column]));
        let columns: Vec<_> = (0..cells.names().len()).map(learn).collect::<Result<_>>()?;
        let found = Self { columns };
        let beyond = |exceeded: fidgp_files::Exceeded| cells.fault_of_column(exceeded.problem(), exceeded.limit.advice);
        COLUMNS.check(found.width() as u64).map_err(beyond)?;
        Ok(found)
    }

    /// Its columns.
    pub fn columns(&self) -> &[ColumnEncoding] {
        &self.columns
    }

    /// Whether there are no columns: nothing was learnt.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Whether every column is a number that is taken as it is.
    pub fn is_plain(&self) -> bool {
        self.columns.iter().all(|column| matches!(column, ColumnEncoding::Number { gaps: false, .. }))
    }

    /// How many numbers a row becomes.
    pub fn width(&self) -> usize {
        self.columns.iter().map(ColumnEncoding::width).sum()
    }

    /// The names of these numbers.
    pub fn features(&self) -> Vec<String> {
        self.columns.iter().flat_map(ColumnEncoding::features).collect()
    }

    /// The columns' names.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name().to_owned()).collect()
    }

    /// The numbers that say a text is none of the known ones, by place, with their columns.
    pub fn others(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut start = 0;
        self.columns.iter().filter_map(move |column| {
            let first = start;
            start += column.width();
            Some((first + column.other()?, column.name()))
        })
    }

    /// Rows as numbers.
    ///
    /// # Errors
    /// Names the line, the column and the cell that is not of the column's kind.
    ///
    /// # Panics
    /// As a slice does, where there are fewer columns than were learnt from.
    pub fn encode(&self, cells: &Cells) -> Result<Encoded> {
        self.encode_rows(cells, 0..cells.rows())
    }

    /// Some rows as numbers.
    ///
    /// # Errors
    /// As [`Self::encode`].
    ///
    /// # Panics
    /// As a slice does, where there are fewer columns than were learnt from, or no such row.
    pub fn encode_rows(&self, cells: &Cells, rows: impl IntoIterator<Item = usize>) -> Result<Encoded> {
        let mut encoded = Encoded::default();
        for row in rows {
            encoded.flags.push(Vec::new());
            for (place, column) in self.columns.iter().enumerate() {
                column.push(cells, (row, place), &mut encoded)?;
            }
        }
        Ok(encoded)
    }

    /// All rows as numbers, row-major. What was given is forgotten row by row: it takes several times their memory.
    ///
    /// # Errors
    /// As [`Self::encode`].
    ///
    /// # Panics
    /// As a slice does, where there are fewer columns than were learnt from.
    pub fn numbers(&self, cells: &Cells) -> Result<Vec<f64>> {
        let mut all = Vec::with_capacity(cells.rows() * self.width());
        for row in 0..cells.rows() {
            all.extend(self.encode_rows(cells, [row])?.numbers);
        }
        Ok(all)
    }

    /// Whether it can be; else why not.
    ///
    /// # Errors
    /// Names the column.
    pub fn check(&self) -> std::result::Result<(), String> {
        self.columns.iter().try_for_each(ColumnEncoding::check)
    }
}
