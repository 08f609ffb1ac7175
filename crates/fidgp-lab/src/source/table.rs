//! Tables on the device.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use fidgp::Key;
use fidgp_data::{Cells, Encoded, Encoding, Given, Sheet, Standardiser, Table, targets};
use fidgp_decision::calibration::Feature;
use fidgp_decision::decide::number;
use fidgp_decision::evidence::{Outside, beyond};
use fidgp_files::shown;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use super::Source;
use crate::config::TableParts;
use crate::error::Result;

/// How rows of a table become a network's inputs, and its outputs numbers in the target's unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableView {
    /// The numbers that the network takes, in order: columns, or what columns become.
    pub features: Vec<String>,
    /// The column that it predicts.
    pub target: String,
    /// What both are standardised with.
    pub scale: Standardiser,
    /// The smallest and the largest value of each feature among the training rows; folders of before have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<[f64; 2]>,
    /// How columns become these numbers; folders of before have none, their columns are the numbers.
    #[serde(default, skip_serializing_if = "Encoding::is_empty")]
    pub columns: Encoding,
}

/// Rows of a file, as a network takes them and as they were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenRows {
    /// What the network takes, row-major.
    pub inputs: Vec<f64>,
    /// The columns' names.
    pub names: Vec<String>,
    /// The cells, row-major.
    pub cells: Vec<Value>,
    /// For each row what was put in place of what is missing or not known, in words.
    pub flags: Vec<Vec<String>>,
}

impl GivenRows {
    /// Rows of numbers that are taken as they are.
    pub fn of_numbers(inputs: Vec<f64>, names: Vec<String>) -> Self {
        let flags = vec![Vec::new(); inputs.len() / names.len().max(1)];
        Self { cells: inputs.iter().map(|&x| x.into()).collect(), inputs, names, flags }
    }

    /// Rows of cells that were encoded.
    pub fn of_encoded(encoded: Encoded, names: Vec<String>) -> Self {
        let value = |given: Given| match given {
            Given::Missing => Value::Null,
            Given::Number(number) => number.into(),
            Given::Boolean(yes) => yes.into(),
            Given::Text(text) => text.into(),
        };
        let cells = encoded.given.into_iter().map(value).collect();
        Self { inputs: encoded.numbers, names, cells, flags: encoded.flags }
    }

    /// Some of the rows, one after the other.
    #[must_use]
    pub fn part(&self, rows: std::ops::Range<usize>) -> Self {
        let (names, width) = (self.names.len(), self.inputs.len() / self.flags.len().max(1));
        Self {
            inputs: self.inputs[rows.start * width..rows.end * width].to_vec(),
            names: self.names.clone(),
            cells: self.cells[rows.start * names..rows.end * names].to_vec(),
            flags: self.flags[rows].to_vec(),
        }
    }

    /// Some of the rows, in this order.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let (names, width) = (self.names.len(), self.inputs.len() / self.flags.len().max(1));
        Self {
            inputs: rows.iter().flat_map(|row| &self.inputs[row * width..(row + 1) * width]).copied().collect(),
            names: self.names.clone(),
            cells: rows.iter().flat_map(|row| &self.cells[row * names..(row + 1) * names]).cloned().collect(),
            flags: rows.iter().map(|&row| self.flags[row].clone()).collect(),
        }
    }

    /// The cells of a row.
    pub fn row(&self, row: usize) -> &[Value] {
        let width = self.names.len();
        self.cells.get(row * width..(row + 1) * width).unwrap_or_default()
    }
}

impl TableView {
    /// How the rows of a table are taken.
    pub fn of(parts: &TableParts, scale: Standardiser) -> Self {
        let ranges = (0..parts.train.columns()).map(|column| range(parts.train.column(column))).collect();
        let (features, target) = (parts.encoding.features(), parts.config.target_name());
        Self { features, target, scale, ranges, columns: parts.encoding.clone() }
    }

    /// Says which columns say nothing.
    pub fn warn_of_constants(&self, train: &Table) {
        let (columns, constant_target) = Standardiser::constant(train);
        let others: Vec<usize> = self.columns.others().map(|(place, _)| place).collect(); // for texts to come
        let columns = columns.into_iter().filter(|column| !others.contains(column));
        let names: Vec<_> = columns.filter_map(|column| self.features.get(column)).map(String::as_str).collect();
        if !names.is_empty() {
            tracing::warn!("the same in every training row, so of no use: {}", names.join(", "));
        }
        if constant_target {
            tracing::warn!("the target `{}` is the same in every training row: there is nothing to learn", self.target);
        }
    }

    /// Whether the numbers fit each other; else why not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Standardiser { feature_mean, feature_sd, target_mean, target_sd, .. } = &self.scale;
        let columns = self.features.len();
        if columns == 0 || feature_mean.len() != columns || feature_sd.len() != columns {
            let (means, deviations) = (feature_mean.len(), feature_sd.len());
            return Err(format!("has {columns} features, {means} means and {deviations} deviations of them"));
        }
        self.columns.check()?;
        if !self.columns.is_empty() && self.columns.width() != columns {
            return Err(format!("has {columns} features, its columns become {}", self.columns.width()));
        }
        if !self.ranges.is_empty() && self.ranges.len() != columns {
            return Err(format!("has {columns} features and {} ranges of them", self.ranges.len()));
        }
        let means = feature_mean.iter().chain([target_mean]).all(|mean| mean.is_finite());
        let deviations = feature_sd.iter().chain([target_sd]).all(|sd| *sd > 0.0 && sd.is_finite());
        if means && deviations { Ok(()) } else { Err("has a mean or a deviation that cannot be".to_owned()) }
    }

    /// The rows of a file: columns by their names where it has a heading, else in order.
    ///
    /// # Errors
    /// When the file is broken or lacks a column.
    pub fn rows(&self, file: &Path) -> Result<GivenRows> {
        self.rows_of(&Sheet::open(file)?)
    }

    /// The same of a table that was opened.
    ///
    /// # Errors
    /// When a cell is not what its column holds, or a column is missing.
    pub fn rows_of(&self, sheet: &Sheet) -> Result<GivenRows> {
        let names = if self.columns.is_empty() { self.features.clone() } else { self.columns.names() };
        let columns: Vec<usize> = if sheet.is_headed() || sheet.names().len() != names.len() {
            names.iter().map(|name| sheet.column(name)).collect::<Result<_, _>>()?
        } else {
            (0..names.len()).collect()
        };
        if self.columns.is_empty() {
            return Ok(GivenRows::of_numbers(sheet.numbers(&columns)?, names));
        }
        self.encoded(&sheet.cells(&columns)?)
    }

    /// Rows of cells, in the order of the columns.
    ///
    /// # Errors
    /// When a cell is not what its column holds.
    pub fn encoded(&self, cells: &Cells) -> Result<GivenRows> {
        Ok(GivenRows::of_encoded(self.columns.encode(cells)?, self.columns.names()))
    }

    /// The targets of a file's rows, classes by their places.
    ///
    /// # Errors
    /// When the file is broken or lacks the column.
    pub fn targets(&self, file: &Path, classes: &[String]) -> Result<Vec<f64>> {
        let sheet = Sheet::open(file)?;
        let cells = sheet.cells(&[sheet.column(&self.target)?])?;
        if classes.is_empty() {
            return Ok(targets::numbers(&cells, 0)?);
        }
        Ok(targets::labels(&cells, 0, classes)?.into_iter().map(f64::from).collect())
    }

    /// What rules keep of the columns: names, texts, and one number of each for every row, as `fidgp monitor` takes it from a
    /// log; NaN where a cell is missing.
    pub fn kept_columns(&self, rows: &GivenRows) -> (Vec<Feature>, Vec<Vec<f64>>) {
        let feature = |name: &String| {
            let column = self.columns.columns().iter().find(|column| column.name() == name);
            Feature { name: name.clone(), levels: column.map_or_else(Vec::new, |column| column.levels().to_vec()) }
        };
        let features: Vec<Feature> = rows.names.iter().map(feature).collect();
        let cells = |(place, feature): (usize, &Feature)| {
            let column = rows.cells.iter().skip(place).step_by(features.len());
            column.map(|cell| feature.number(cell).unwrap_or(f64::NAN)).collect()
        };
        let columns = features.iter().enumerate().map(cells).collect();
        (features, columns)
    }

    /// Which features of a row lie outside those of the training rows.
    pub fn outside(&self, row: &[f64]) -> Outside {
        let mut found: Vec<(f64, String)> = Vec::new();
        let others: BTreeMap<usize, &str> = self.columns.others().collect();
        for (place, ((name, [lo, hi]), x)) in self.features.iter().zip(&self.ranges).zip(row).enumerate() {
            if let Some(column) = others.get(&place).filter(|_| *x > *hi) {
                found.push((1.0, format!("{} is nothing that the training data has", shown(column))));
                continue;
            }
            let by = beyond(*x, [*lo, *hi]);
            if by > 0.0 {
                let [x, lo, hi] = [*x, *lo, *hi].map(number);
                found.push((by, format!("{} = {x} lies outside {lo} … {hi} of the training data", shown(name))));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let by = found.first().map_or(0.0, |(by, _)| *by);
        Outside { by, said: found.into_iter().map(|(_, said)| said).collect() }
    }
}

/// The smallest and the largest of some values.
fn range(values: impl Iterator<Item = f64>) -> [f64; 2] {
    values.fold([f64::INFINITY, f64::NEG_INFINITY], |[lo, hi], x| [lo.min(x), hi.max(x)])
}

/// A table on the device.
#[derive(Debug)]
pub struct TableSource {
    /// `[N, columns]`
    pub inputs: Tensor,
    /// Numbers, or labels. `[N]`
    pub targets: Tensor,
}

impl TableSource {
    /// Moves a table to the device in f32.
    ///
    /// # Errors
    /// When it holds a value that is not finite.
    pub fn new(table: &Table, device: Device) -> Result<Self> {
        Self::of_columns(table, &[], device)
    }

    /// The same where the columns have names.
    ///
    /// # Errors
    /// As [`Self::new`]; the message names the column.
    pub fn of_columns(table: &Table, names: &[String], device: Device) -> Result<Self> {
        let beyond = |value: &f64| !(*value as f32).is_finite();
        let place =
            table.features().iter().position(beyond).map(|place| (place / table.columns(), place % table.columns()));
        let named = |column: usize| names.get(column).map_or_else(|| format!("feature {column}"), shown);
        let place = place.map(|(row, column)| (row, named(column)));
        let target = || table.targets().iter().position(beyond).map(|row| (row, "the target".to_owned()));
        if let Some((row, what)) = place.or_else(target) {
            let problem = format!("row {row}: {what}, standardised, is no number that can be computed with (f32)");
            let advice = "the rows that were learnt from are far smaller: correct it";
            return Err(fidgp_data::Error::Value { what: table.name().to_owned(), problem, advice }.into());
        }
        let to = |values: &[f64]| Tensor::from_slice(values).to_kind(Kind::Float).to_device(device);
        Ok(Self { inputs: to(table.features()).reshape([-1, table.columns() as i64]), targets: to(table.targets()) })
    }

    /// The same where the targets are classes.
    #[must_use]
    pub fn labelled(self) -> Self {
        Self { targets: self.targets.to_kind(Kind::Int64), ..self }
    }

    /// All inputs in batches of at most `size` rows.
    pub fn batches(&self, size: usize) -> Vec<Tensor> {
        self.inputs.split(size as i64, 0)
    }
}

impl Source for TableSource {
    fn len(&self) -> usize {
        self.targets.size()[0] as usize
    }

    fn batch(&self, rows: &Tensor, _augment: Option<Key>) -> Result<(Tensor, Tensor)> {
        Ok((self.inputs.f_index_select(0, rows)?, self.targets.f_index_select(0, rows)?))
    }

    fn part(&self, rows: &Tensor, augment: Option<Key>, part: Range<i64>) -> Result<(Tensor, Tensor)> {
        self.batch(&rows.f_narrow(0, part.start, part.end - part.start)?, augment)
    }
}
