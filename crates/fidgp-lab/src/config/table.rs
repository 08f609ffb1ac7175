//! A table of numbers that is brought along, with a number to predict.

use std::fmt;
use std::path::{Path, PathBuf};

use fidgp_data::{Sheet, Table, split};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};

/// Rows are held out by the data alone, not by the run's seed: all runs choose and report on the same ones.
const HOLDOUT_SEED: u64 = 0;
/// The part that is held out for reporting where nothing is said.
const TEST_FRACTION: f64 = 0.1;

/// A column by its name, or by its number from 0 where a table has no heading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a column is a name or, where the table has no heading, a number from 0")]
pub enum Column {
    /// From 0.
    Number(usize),
    /// To the letter.
    Name(String),
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// A table and what its columns are for. Target and features are filled in when it is read, for those who use the network
/// without it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableConfig {
    /// The file; a relative one is looked for under the data root.
    pub path: PathBuf,
    /// What is predicted: the last column where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Column>,
    /// What it is predicted from: all other columns where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<Column>>,
    /// Columns that are none of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<Column>,
    /// A table of test rows with the same columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<PathBuf>,
    /// The part of the rows that is held out for reporting, where there is no such table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_fraction: Option<f64>,
    /// A feature: the middle third of the rows by it is held out for reporting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Column>,
    /// The part of the training rows that is held out for validation.
    #[serde(default)]
    pub validation_fraction: f64,
}

/// The rows of a table, by use.
pub struct TableParts {
    /// The config with target and features filled in.
    pub config: TableConfig,
    /// For fitting.
    pub train: Table,
    /// For choosing; none without a validation fraction.
    pub validation: Option<Table>,
    /// For reporting.
    pub test: Table,
}

impl TableConfig {
    /// Checks what can be checked without the table.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |key: &str, why: String| Err(LabError::config(key, why));
        if self.gap.is_some() && (self.test.is_some() || self.test_fraction.is_some()) {
            let why = "holds out the middle third by a column; leave out data.test and data.test_fraction";
            return wrong("data.gap", why.to_owned());
        }
        match self.test_fraction {
            Some(_) if self.test.is_some() => {
                return wrong(
                    "data.test_fraction",
                    "is for tables without data.test; leave one of them out".to_owned(),
                );
            }
            Some(fraction) if !(fraction > 0.0 && fraction < 1.0) => {
                return wrong("data.test_fraction", format!("{fraction} must lie between 0 and 1; 0.1 is usual"));
            }
            _ => {}
        }
        let Some(features) = &self.features else { return Ok(()) };
        let target = self.target.iter().filter(|target| features.contains(target)).map(|column| (column, "the target"));
        let ignored = self.ignore.iter().filter(|column| features.contains(column)).map(|column| (column, "ignored"));
        let twice = features.iter().enumerate().filter(|(i, column)| features[..*i].contains(column));
        let twice = twice.map(|(_, column)| (column, "named before"));
        match target.chain(ignored).chain(twice).next() {
            Some((column, other)) => wrong("data.features", format!("has `{column}`, which is {other}")),
            None if features.is_empty() => wrong("data.features", "names no column".to_owned()),
            None => Ok(()),
        }
    }

    /// Reads the table, holds out test and validation rows, and fills in what its columns are for.
    ///
    /// # Errors
    /// When a file is missing or broken, a column is not there, or too few rows are left.
    pub fn read(&self, root: &Path) -> Result<TableParts> {
        let path = root.join(&self.path);
        let sheet = Sheet::open(&path)?;
        let config = self.filled_by(&sheet)?;
        let all = config.rows(&sheet, &path)?;
        let (rest, test) = match (&self.test, &self.gap) {
            (Some(test), _) => {
                let path = root.join(test);
                (all, config.rows(&Sheet::open(&path)?, &path)?)
            }
            (None, Some(gap)) => config.around_gap(&all, gap)?,
            (None, None) => hold_out(&all, self.test_fraction.unwrap_or(TEST_FRACTION))?,
        };
        let (train, validation) = match self.validation_fraction {
            fraction if fraction > 0.0 => hold_out(&rest, fraction).map(|(train, held)| (train, Some(held)))?,
            _ => (rest, None),
        };
        for column in (0..train.columns()).filter(|column| counts_rows(&train, *column)) {
            let name = &config.feature_names()[column];
            tracing::warn!(
                "{}: column `{name}` numbers the rows; if it means nothing, put it into data.ignore",
                path.display()
            );
        }
        Ok(TableParts { config, train, validation, test })
    }

    /// The same with target and features as a table has them.
    fn filled_by(&self, sheet: &Sheet) -> Result<Self> {
        let last = sheet.names().last().cloned().unwrap_or_default();
        let target = self.target.clone().unwrap_or(Column::Name(last));
        let ignored: Vec<String> = self.ignore.iter().map(ToString::to_string).collect();
        ignored.iter().try_for_each(|name| sheet.column(name).map(|_| ()))?;
        let is_feature = |name: &&String| **name != target.to_string() && !ignored.contains(name);
        let others = || sheet.names().iter().filter(is_feature).cloned().map(Column::Name).collect();
        let features: Vec<Column> = self.features.clone().unwrap_or_else(others);
        if features.is_empty() {
            return Err(LabError::config("data.features", format!("has no column beside the target, `{target}`")));
        }
        let filled = Self { target: Some(target), features: Some(features), ..self.clone() };
        filled.check()?;
        Ok(filled)
    }

    /// The outer thirds of the rows by a feature, and the middle third.
    fn around_gap(&self, table: &Table, gap: &Column) -> Result<(Table, Table)> {
        let features = self.feature_names();
        let place = features.iter().position(|name| *name == gap.to_string()).ok_or_else(|| {
            LabError::config("data.gap", format!("`{gap}` is no feature; there are {}", features.join(", ")))
        })?;
        let cut = split::gap(&table.column(place).collect::<Vec<_>>())?;
        Ok((table.select(&cut.train)?, table.select(&cut.test)?))
    }

    /// The rows of a sheet, features and target.
    fn rows(&self, sheet: &Sheet, path: &Path) -> Result<Table> {
        let features = self.feature_names();
        let columns = features
            .iter()
            .chain([&self.target_name()])
            .map(|name| sheet.column(name))
            .collect::<Result<Vec<_>, _>>()?;
        let cells = sheet.numbers(&columns)?;
        let rows = cells.chunks_exact(columns.len());
        let targets = rows.clone().map(|row| row[features.len()]).collect();
        let inputs = rows.flat_map(|row| row[..features.len()].iter().copied()).collect();
        Ok(Table::new(path.display().to_string(), inputs, features.len(), targets)?)
    }

    /// The names of the features, in the order the network takes them; none before they are filled in.
    pub fn feature_names(&self) -> Vec<String> {
        self.features.iter().flatten().map(ToString::to_string).collect()
    }

    /// The name of the target; empty before it is filled in.
    pub fn target_name(&self) -> String {
        self.target.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// The same with what is open taken from another.
    pub(super) fn filled_from(&self, other: &Self) -> Self {
        let target = self.target.clone().or_else(|| other.target.clone());
        Self { target, features: self.features.clone().or_else(|| other.features.clone()), ..self.clone() }
    }
}

/// A table without some of its rows, and those.
fn hold_out(table: &Table, fraction: f64) -> Result<(Table, Table)> {
    let cut = split::holdout(table.rows(), fraction, HOLDOUT_SEED)?;
    Ok((table.select(&cut.train)?, table.select(&cut.validation)?))
}

/// Whether a column rises with the rows, as an index that was saved beside the data does.
fn counts_rows(table: &Table, column: usize) -> bool {
    let rising = table.column(column).zip(table.column(column).skip(1)).all(|(a, b)| b > a);
    rising && table.rows() > 2 && table.column(column).all(|value| value.fract() == 0.0)
}
