//! What was found at a path: numbers to store, and the same as text to read.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{Cells, Holds, Images, Result, Survey, Table, digest::file_sha256, tables::moments};

/// What a path holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Where it was looked for.
    #[serde(serialize_with = "shown")]
    pub path: PathBuf,
    /// What it is, in words.
    pub kind: String,
    /// Its parts.
    pub parts: Vec<PartSummary>,
    /// The columns of a table in a text file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ColumnSummary>,
    /// The files it was read from.
    pub files: Vec<FileDigest>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// One part: `train`, `test`, or a set of its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartSummary {
    /// Its name.
    pub name: String,
    /// How many rows.
    pub rows: usize,
    /// The size of one row: `[channels, height, width]` or `[columns]`; empty where rows differ.
    pub row_shape: Vec<usize>,
    /// The classes; empty for a table.
    pub classes: Vec<ClassCount>,
    /// Mean of each channel (255 is 1), or of each column with the target last.
    pub mean: Vec<f64>,
    /// Standard deviation likewise.
    pub sd: Vec<f64>,
    /// SHA-256 of the pixels, planar, in row order.
    pub pixels_sha256: Option<String>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ColumnSummary {
    /// Its name.
    pub name: String,
    /// What its cells are, in a word: numbers, dates, yes/no, texts or nothing.
    pub holds: &'static str,
    /// Cells that say there is no value.
    pub missing: usize,
    /// Different values; none is said of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub different: Option<usize>,
    /// What a training makes of it, in words.
    pub becomes: String,
    /// Why a training refuses it, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl ColumnSummary {
    /// Looks at a column.
    pub(crate) fn of(cells: &Cells, column: usize) -> Self {
        let survey = Survey::of(cells, column, 0..cells.rows());
        let (usable, levels) = (survey.usable(cells), survey.levels.len());
        let gaps = |what: &str| {
            if survey.missing == 0 {
                what.to_owned()
            } else {
                format!("{what}, the median where it is missing, and whether it is")
            }
        };
        let (holds, becomes) = match survey.holds() {
            None => ("nothing", "nothing: see the note".to_owned()),
            Some(holds) if usable.is_err() => (word(holds), "nothing: see the note".to_owned()),
            Some(Holds::Texts) => {
                let missing = if survey.missing > 0 { ", and missing ones" } else { "" };
                let kept = survey.kept_levels().len();
                let which = if kept < levels { format!("the {kept} most frequent") } else { kept.to_string() };
                ("texts", format!("a 0 or 1 for each of {which} texts, for others{missing}"))
            }
            Some(holds @ Holds::Numbers) => (word(holds), gaps("the number")),
            Some(holds @ Holds::Booleans) => (word(holds), gaps("1 and 0")),
            Some(holds @ Holds::Dates) => (word(holds), gaps("days since 1970")),
        };
        let different = survey.holds().filter(|holds| *holds != Holds::Numbers).map(|_| levels);
        let problem = usable.err().map(|error| error.to_string());
        Self { name: survey.name, holds, missing: survey.missing, different, becomes, problem }
    }

    fn cells(&self) -> Vec<String> {
        let different = self.different.map_or("-".to_owned(), |count| count.to_string());
        vec![self.name.clone(), self.holds.to_owned(), self.missing.to_string(), different, self.becomes.clone()]
    }
}

fn word(holds: Holds) -> &'static str {
    match holds {
        Holds::Numbers => "numbers",
        Holds::Booleans => "yes/no",
        Holds::Dates => "dates",
        Holds::Texts => "texts",
    }
}

/// A class and how many rows it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClassCount {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: usize,
}

/// A file and its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileDigest {
    /// Its path.
    #[serde(serialize_with = "shown")]
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// SHA-256, hex.
    pub sha256: String,
}

/// A path as far as it is text: one that is not has no other form in JSON.
fn shown<S: serde::Serializer>(path: &Path, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

impl PartSummary {
    pub(crate) fn of_images(name: &str, images: &Images) -> Self {
        let statistics = images.channel_statistics();
        Self {
            name: name.into(),
            rows: images.rows(),
            row_shape: images.size().into(),
            classes: class_counts(images.class_names(), images.class_counts()),
            mean: statistics.mean,
            sd: statistics.sd,
            pixels_sha256: Some(images.sha256()),
        }
    }

    pub(crate) fn of_table(table: &Table) -> Self {
        let target = moments(table.targets().iter().copied());
        let with = |mut columns: Vec<f64>, target| {
            columns.push(target);
            columns
        };
        Self {
            name: table.name().into(),
            rows: table.rows(),
            row_shape: vec![table.columns()],
            classes: vec![],
            mean: with(table.column_means(), target.0),
            sd: with(table.column_sds(), target.1),
            pixels_sha256: None,
        }
    }

    /// Columns of numbers, each of so many rows.
    pub(crate) fn of_columns(name: &str, columns: &[Vec<f64>]) -> Self {
        let (mean, sd) = columns.iter().map(|column| moments(column.iter().copied())).unzip();
        let rows = columns.first().map_or(0, Vec::len);
        let (row_shape, classes) = (vec![columns.len()], vec![]);
        Self { name: name.into(), rows, row_shape, classes, mean, sd, pixels_sha256: None }
    }

    fn cells(&self) -> Vec<String> {
        let shape: Vec<String> = self.row_shape.iter().map(ToString::to_string).collect();
        let counts = || self.classes.iter().map(|class| class.rows);
        let balance = match (counts().min(), counts().max()) {
            (Some(least), Some(most)) if least == most => format!("{least} each"),
            (Some(least), Some(most)) => format!("{least} to {most}"),
            _ => "-".into(),
        };
        let classes = if self.classes.is_empty() { "-".into() } else { self.classes.len().to_string() };
        let shape = if shape.is_empty() { "varies".into() } else { shape.join("×") };
        vec![self.name.clone(), self.rows.to_string(), shape, classes, balance, short(&self.mean), short(&self.sd)]
    }
}

impl FileDigest {
    pub(crate) fn of(file: &Path) -> Result<Self> {
        let bytes = std::fs::metadata(file).map_err(|e| crate::Error::io(file, e))?.len();
        Ok(Self { path: file.into(), bytes, sha256: file_sha256(file)? })
    }

    fn cells(&self, root: &Path) -> Vec<String> {
        let inside = self.path.strip_prefix(root).ok().filter(|p| !p.as_os_str().is_empty());
        vec![inside.unwrap_or(&self.path).display().to_string(), self.bytes.to_string(), self.sha256.clone()]
    }
}

pub(crate) fn class_counts(names: &[String], counts: Vec<usize>) -> Vec<ClassCount> {
    names.iter().zip(counts).map(|(name, rows)| ClassCount { name: name.clone(), rows }).collect()
}

/// Up to three numbers; more would not fit a line.
fn short(values: &[f64]) -> String {
    match values.len() {
        0 => "-".into(),
        1..=3 => values.iter().map(|v| format!("{v:.4}")).collect::<Vec<_>>().join(" "),
        more => format!("{more} columns"),
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{}: {}\n", self.path.display(), self.kind)?;
        let heads = ["part", "rows", "of size", "classes", "rows a class", "mean", "sd"];
        write_table(f, &heads, self.parts.iter().map(PartSummary::cells).collect())?;
        if !self.columns.is_empty() {
            writeln!(f)?;
            let columns = self.columns.iter().map(ColumnSummary::cells).collect();
            write_table(f, &["column", "holds", "missing", "different", "becomes"], columns)?;
        }
        if !self.files.is_empty() {
            writeln!(f)?;
            let files = self.files.iter().map(|file| file.cells(&self.path)).collect();
            write_table(f, &["file", "bytes", "sha256"], files)?;
        }
        if !self.notes.is_empty() {
            writeln!(f)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

/// Columns aligned with two blanks between them, none at the end of a line.
fn write_table(f: &mut fmt::Formatter, heads: &[&str], mut rows: Vec<Vec<String>>) -> fmt::Result {
    rows.insert(0, heads.iter().map(ToString::to_string).collect());
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        writeln!(f, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}
