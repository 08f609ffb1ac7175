//! A table that is brought along, with a number or a class to predict.

use std::fmt;
use std::path::{Path, PathBuf};

use fidgp_data::{Cells, ColumnEncoding, Encoded, Encoding, Sheet, Standardiser, Table, split, targets};
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
    /// What is predicted of it instead of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_transform: Option<TargetTransform>,
    /// What it is predicted from: all other columns where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<Column>>,
    /// Columns whose numbers are names, such as post codes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categorical: Vec<Column>,
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
    /// A column: rows that are alike in it are held out together. It is no feature unless `features` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Column>,
    /// A column of numbers or dates: the last rows by it are held out. It is no feature unless `features` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Column>,
    /// The part of the training rows that is held out for validation.
    #[serde(default)]
    pub validation_fraction: f64,
    /// How many numbers the features become, where those are not as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<usize>,
    /// How many classes the target has, where it has classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<usize>,
}

/// What a trained model knows of a table.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// How features become numbers; empty for a model of before, whose features are numbers.
    pub encoding: &'a Encoding,
    /// The names of the classes; none where the target is a number.
    pub classes: &'a [String],
}

/// What is predicted of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetTransform {
    /// Its logarithm: for numbers above 0 whose errors grow with them.
    Log,
}

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A number.
    Number,
    /// One of several classes.
    Classes,
}

/// The rows of a table, by use.
pub struct TableParts {
    /// The config with target and features filled in.
    pub config: TableConfig,
    /// How features became numbers.
    pub encoding: Encoding,
    /// The names of the classes, which are the targets by their places; none where the target is a number.
    pub classes: Vec<String>,
    /// For fitting.
    pub train: Table,
    /// For choosing; none without a validation fraction.
    pub validation: Option<Table>,
    /// For reporting.
    pub test: Table,
    /// The rows of both as they were given, for a model that knows how it takes them.
    pub given: Option<[Encoded; 2]>,
}

impl TableConfig {
    /// Checks what can be checked without the table.
    pub(super) fn check(&self, target: TargetKind) -> Result<()> {
        if self.target_transform.is_some() && target == TargetKind::Classes {
            return Err(LabError::config("data.target_transform", "is for numbers, not for classes; leave it out"));
        }
        let wrong = |key: &str, why: String| Err(LabError::config(key, why));
        if self.gap.is_some() && (self.test.is_some() || self.test_fraction.is_some()) {
            let why = "holds out the middle third by a column; leave out data.test and data.test_fraction";
            return wrong("data.gap", why.to_owned());
        }
        let ways = [
            ("data.gap", self.gap.is_some()),
            ("data.group", self.group.is_some()),
            ("data.time", self.time.is_some()),
        ];
        let mut chosen = ways.into_iter().filter(|(_, given)| *given);
        if let (Some(_), Some((second, _))) = (chosen.next(), chosen.next()) {
            return wrong(
                second,
                "is another way to hold rows out; choose one of data.gap, data.group and data.time".to_owned(),
            );
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

    /// Reads the table, holds out test and validation rows, learns from the training rows how columns become numbers unless a
    /// model knows it, and fills in what its columns are for.
    ///
    /// # Errors
    /// When a file is missing or broken, a column is not there or cannot be used, or too few rows are left.
    pub fn read(&self, root: &Path, target: TargetKind, known: Option<Known>) -> Result<TableParts> {
        let path = root.join(&self.path);
        let sheet = Sheet::open(&path)?;
        let config = self.filled_by(&sheet)?;
        config.check(target)?;
        let (cells, goal) = (config.feature_cells(&sheet)?, config.target_cells(&sheet)?);
        let classes = match (target, known) {
            (TargetKind::Number, _) => Vec::new(),
            (TargetKind::Classes, Some(known)) => known.classes.to_vec(),
            (TargetKind::Classes, None) => targets::classes(&goal, 0)?,
        };
        let goal = config.goals(&goal, &classes)?;
        let rows: Vec<usize> = (0..cells.rows()).collect();
        let splitter = Splitter::new(&config, &sheet, &goal, !classes.is_empty())?;
        let (rest, held) = match (&self.test, &self.gap) {
            (Some(_), _) => (rows, Vec::new()),
            (None, Some(gap)) => config.around_gap(&cells, gap)?,
            (None, None) => splitter.hold_out(&rows, self.test_fraction.unwrap_or(TEST_FRACTION))?,
        };
        let (train, validation) = match self.validation_fraction {
            fraction if fraction > 0.0 => splitter.hold_out(&rest, fraction)?,
            _ => (rest, Vec::new()),
        };
        let encoding = match known {
            Some(known) => known.encoding.clone(),
            None => config.learn(&cells, &train)?,
        };
        let name = path.display().to_string();
        let table = |name: String, cells: &Cells, sheet: Sheet, goal: Vec<f64>| -> Result<Table> {
            let numbers = if encoding.is_empty() {
                config.plain(&sheet)?
            } else {
                drop(sheet); // the text is no longer needed, and is large
                encoding.numbers(cells)?
            };
            let width = if encoding.is_empty() { cells.names().len() } else { encoding.width() };
            Ok(Table::new(name, numbers, width, goal)?)
        };
        let all = table(name, &cells, sheet, goal)?;
        let given = |cells: &Cells, rows: &[usize]| encoding.encode_rows(cells, rows.iter().copied());
        let (test, given_test) = match &self.test {
            Some(test) => {
                let path = root.join(test);
                let sheet = Sheet::open(&path)?;
                let goal = config.goals(&config.target_cells(&sheet)?, &classes)?;
                let cells = config.feature_cells(&sheet)?;
                let rows: Vec<usize> = (0..cells.rows()).collect();
                let test = table(path.display().to_string(), &cells, sheet, goal)?;
                (test, known.map(|_| given(&cells, &rows)).transpose()?)
            }
            None => (all.select(&held)?, known.map(|_| given(&cells, &held)).transpose()?),
        };
        let given_validation = known.map(|_| given(&cells, &validation)).transpose()?;
        let given = given_validation.zip(given_test).map(<[Encoded; 2]>::from);
        let columns = cells.names().len();
        drop(cells);
        let validation = if validation.is_empty() { None } else { Some(all.select(&validation)?) };
        let train = all.select(&train)?;
        drop(all);
        warn_of_counters(&path, &train, &encoding);
        let inputs = Some(train.columns()).filter(|&inputs| inputs != columns);
        let config = Self { inputs, classes: Some(classes.len()).filter(|&count| count > 0), ..config };
        Ok(TableParts { config, encoding, classes, train, validation, test, given })
    }

    /// How columns become numbers, from the training rows.
    fn learn(&self, cells: &Cells, train: &[usize]) -> Result<Encoding> {
        let categorical: Vec<String> = self.categorical.iter().map(ToString::to_string).collect();
        if let Some(column) = categorical.iter().find(|column| !cells.names().contains(column)) {
            let why = format!("has `{column}`, which is no feature; there are {}", cells.names().join(", "));
            return Err(LabError::config("data.categorical", why));
        }
        let encoding = Encoding::learn_with(cells, train, &categorical)?;
        for column in encoding.columns().iter().filter(|column| ColumnEncoding::rare(column) > 0) {
            let (name, kept, rare) = (column.name(), column.levels().len(), column.rare());
            tracing::info!("`{name}` has {} different texts: {rare} rare ones are taken as one, (other)", kept + rare);
        }
        Ok(encoding)
    }

    /// The same with target and features as a table has them.
    fn filled_by(&self, sheet: &Sheet) -> Result<Self> {
        let last = sheet.names().last().cloned().unwrap_or_default();
        let target = self.target.clone().unwrap_or(Column::Name(last));
        let mut ignored: Vec<String> = self.ignore.iter().map(ToString::to_string).collect();
        ignored.iter().try_for_each(|name| sheet.column(name).map(|_| ()))?;
        ignored.extend(self.group.iter().chain(&self.time).map(ToString::to_string));
        let is_feature = |name: &&String| **name != target.to_string() && !ignored.contains(name);
        let others = || sheet.names().iter().filter(is_feature).cloned().map(Column::Name).collect();
        let features: Vec<Column> = self.features.clone().unwrap_or_else(others);
        if features.is_empty() {
            return Err(LabError::config("data.features", format!("has no column beside the target, `{target}`")));
        }
        let filled = Self { target: Some(target), features: Some(features), ..self.clone() };
        Ok(filled)
    }

    /// The outer thirds of the rows by a feature, and the middle third.
    fn around_gap(&self, cells: &Cells, gap: &Column) -> Result<(Vec<usize>, Vec<usize>)> {
        let features = self.feature_names();
        let place = features.iter().position(|name| *name == gap.to_string()).ok_or_else(|| {
            LabError::config("data.gap", format!("`{gap}` is no feature; there are {}", features.join(", ")))
        })?;
        let values: Option<Vec<f64>> = (0..cells.rows()).map(|row| cells.number(row, place)).collect();
        let values =
            values.ok_or_else(|| LabError::config("data.gap", format!("`{gap}` does not hold numbers alone")))?;
        let cut = split::gap(&values)?;
        Ok((cut.train, cut.test))
    }

    /// The features of a sheet's rows, as they were written.
    fn feature_cells(&self, sheet: &Sheet) -> Result<Cells> {
        let columns = self.feature_names().iter().map(|name| sheet.column(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(sheet.cells(&columns)?)
    }

    /// The target of a sheet's rows.
    fn target_cells(&self, sheet: &Sheet) -> Result<Cells> {
        Ok(sheet.cells(&[sheet.column(&self.target_name())?])?)
    }

    /// The targets of rows: numbers, or places among the classes.
    fn goals(&self, cells: &Cells, classes: &[String]) -> Result<Vec<f64>> {
        Ok(match self.target_transform {
            _ if !classes.is_empty() => targets::labels(cells, 0, classes)?.into_iter().map(f64::from).collect(),
            Some(TargetTransform::Log) => targets::positive(cells, 0)?,
            None => targets::numbers(cells, 0)?,
        })
    }

    /// The standardisation of training rows.
    ///
    /// # Errors
    /// When there are none, or their numbers are beyond what can be computed with.
    pub fn standardiser(&self, train: &Table) -> Result<Standardiser> {
        Ok(match self.target_transform {
            Some(TargetTransform::Log) => Standardiser::fit_log(train)?,
            None => Standardiser::fit(train)?,
        })
    }

    /// The features of a sheet's rows where all are numbers.
    fn plain(&self, sheet: &Sheet) -> Result<Vec<f64>> {
        let columns = self.feature_names().iter().map(|name| sheet.column(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(sheet.numbers(&columns)?)
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
        let features = self.features.clone().or_else(|| other.features.clone());
        let (inputs, classes) = (self.inputs.or(other.inputs), self.classes.or(other.classes));
        Self { target, features, inputs, classes, ..self.clone() }
    }
}

/// How rows are held out.
enum Splitter {
    AtRandom,
    /// The same share of every class.
    ByClass(Vec<u32>),
    /// Groups, each as a whole; of each row the number of its group.
    ByGroup(Vec<usize>),
    /// The last ones.
    ByTime(Vec<f64>),
}

impl Splitter {
    fn new(config: &TableConfig, sheet: &Sheet, goal: &[f64], has_classes: bool) -> Result<Self> {
        if let Some(group) = &config.group {
            let cells = sheet.cells(&[sheet.column(&group.to_string())?])?;
            return Ok(Self::ByGroup(targets::groups(&cells, 0)));
        }
        if let Some(time) = &config.time {
            let cells = sheet.cells(&[sheet.column(&time.to_string())?])?;
            return Ok(Self::ByTime(targets::times(&cells, 0)?));
        }
        let labels = || goal.iter().map(|&label| label as u32).collect();
        Ok(if has_classes { Self::ByClass(labels()) } else { Self::AtRandom })
    }

    /// Some rows without a part of them, and that part.
    fn hold_out(&self, rows: &[usize], fraction: f64) -> Result<(Vec<usize>, Vec<usize>)> {
        let place = |places: Vec<usize>| places.into_iter().map(|place| rows[place]).collect::<Vec<_>>();
        let cut = match self {
            Self::AtRandom => split::holdout(rows.len(), fraction, HOLDOUT_SEED)?,
            Self::ByClass(labels) => {
                let labels: Vec<u32> = rows.iter().map(|&row| labels[row]).collect();
                split::stratified(&labels, fraction, HOLDOUT_SEED)?
            }
            Self::ByGroup(groups) => {
                let groups: Vec<usize> = rows.iter().map(|&row| groups[row]).collect();
                split::grouped(&groups, fraction, HOLDOUT_SEED)?
            }
            Self::ByTime(times) => {
                let times: Vec<f64> = rows.iter().map(|&row| times[row]).collect();
                split::latest(&times, fraction)?
            }
        };
        if cut.validation.is_empty() || cut.train.is_empty() {
            let why = format!("= {fraction} of {} rows leaves no row on one side; choose another fraction", rows.len());
            return Err(LabError::config("data.test_fraction, data.validation_fraction", why));
        }
        Ok((place(cut.train), place(cut.validation)))
    }
}

/// Says which columns count the rows, as an index that was saved beside the data does.
fn warn_of_counters(path: &Path, train: &Table, encoding: &Encoding) {
    for (column, name) in encoding.features().iter().enumerate() {
        let rising = train.column(column).zip(train.column(column).skip(1)).all(|(a, b)| b > a);
        if rising && train.rows() > 2 && train.column(column).all(|value| value.fract() == 0.0) {
            tracing::warn!(
                "{}: column `{name}` numbers the rows; if it means nothing, put it into data.ignore",
                path.display()
            );
        }
    }
}
