//! The UCI regression sets with their standard splits, and splits with a gap.
//!
//! ```text
//! <root>/<set>/data/data.txt               one row a line, blanks or commas between the numbers
//!                   index_features.txt     which columns are features
//!                   index_target.txt       which column is the target
//!                   n_splits.txt           S; absent: the index files are counted
//!                   index_train_{0..S-1}.txt, index_test_{0..S-1}.txt     row numbers
//! ```

use std::path::{Path, PathBuf};

use super::Table;
use crate::{Error, Result, Split, formats::text, split};

/// A bound on `n_splits.txt`, far above any published count.
const MOST_SPLITS: usize = 100_000;

/// A known set: its short name, its folder, and what it should hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The name used in configs and reports.
    pub name: &'static str,
    /// The folder as distributed.
    pub folder: &'static str,
    /// Other names people use.
    pub aliases: &'static [&'static str],
    /// Rows of the table.
    pub rows: usize,
    /// Feature columns.
    pub columns: usize,
    /// Published splits.
    pub splits: usize,
}

macro_rules! known {
    ($($name:literal $folder:literal $aliases:tt $rows:literal $columns:literal $splits:literal;)*) => {
        [$(Known { name: $name, folder: $folder, aliases: &$aliases, rows: $rows, columns: $columns, splits: $splits }),*]
    };
}

/// The nine sets of the standard benchmark.
pub const SETS: [Known; 9] = known! {
    "boston"   "bostonHousing"              ["boston-housing", "housing"]    506    13  20;
    "concrete" "concrete"                   ["concrete-strength"]            1030    8  20;
    "energy"   "energy"                     ["energy-efficiency"]            768     8  20;
    "kin8nm"   "kin8nm"                     []                               8192    8  20;
    "naval"    "naval-propulsion-plant"     ["naval-propulsion"]             11934  16  20;
    "power"    "power-plant"                ["powerplant", "ccpp"]           9568    4  20;
    "protein"  "protein-tertiary-structure" ["protein-structure"]            45730   9   5;
    "wine"     "wine-quality-red"           ["wine-red", "winered"]          1599   11  20;
    "yacht"    "yacht"                      ["yacht-hydrodynamics"]          308     6  20;
};

/// Finds a set by its name, folder or alias; case, `-`, `_` and spaces do not matter.
pub fn find(name: &str) -> Result<&'static Known> {
    let wanted = plain(name);
    let same = |set: &&Known| names(set).any(|n| plain(n) == wanted);
    SETS.iter().find(same).ok_or_else(|| {
        let advice = "the nine are boston, concrete, energy, kin8nm, naval, power, protein, wine, yacht";
        Error::value("UCI", format!("no set is called `{name}`"), advice)
    })
}

/// A set on disk: its table in memory, its splits read when asked for.
#[derive(Debug, Clone)]
pub struct Uci {
    table: Table,
    folder: PathBuf,
    splits: usize,
}

impl Uci {
    /// Reads one of the nine sets from `<root>/<folder or alias>/data`.
    pub fn read(root: &Path, set: &str) -> Result<Self> {
        let known = find(set)?;
        let folder = names(known).map(|n| root.join(n)).find(|f| f.is_dir()).ok_or_else(|| {
            let problem = format!("no folder `{}` in it", known.folder);
            Error::file(root, problem, "point at the folder that holds the UCI sets")
        })?;
        Self::read_folder(known.name, &folder)
    }

    /// Reads any set in this layout from its own folder, or from the `data` folder inside.
    pub fn read_folder(name: &str, folder: &Path) -> Result<Self> {
        let inner = folder.join("data");
        let folder = if inner.is_dir() { inner } else { folder.to_owned() };
        let table = read_table(name, &folder)?;
        let splits = count_splits(&folder)?;
        Ok(Self { table, folder, splits })
    }

    /// All rows.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// How many splits are published.
    pub fn splits(&self) -> usize {
        self.splits
    }

    /// Split `index`, checked: rows exist, none twice, none on both sides.
    pub fn split(&self, index: usize) -> Result<Split> {
        if index >= self.splits {
            let problem = format!("split {index} was asked for, there are {}", self.splits);
            return Err(Error::file(&self.folder, problem, "splits are counted from 0"));
        }
        let mut seen = vec![false; self.table.rows()];
        let train = self.side("train", index, &mut seen)?;
        let test = self.side("test", index, &mut seen)?;
        Ok(Split { train, test })
    }

    /// The split whose test rows are the middle third by a feature; there is one for each column.
    pub fn gap_split(&self, column: usize) -> Result<Split> {
        let columns = self.table.columns();
        if column >= columns {
            let problem = format!("gap split {column} was asked for, there are {columns}, one for each feature");
            return Err(Error::file(&self.folder, problem, "splits are counted from 0"));
        }
        split::gap(&self.table.column(column).collect::<Vec<_>>())
    }

    fn side(&self, side: &str, index: usize, seen: &mut [bool]) -> Result<Vec<usize>> {
        let file = self.folder.join(format!("index_{side}_{index}.txt"));
        let rows = text::indices(&file, self.table.rows())?;
        if let Some(row) = rows.iter().find(|&&row| std::mem::replace(&mut seen[row], true)) {
            let problem = format!("row {row} is in this split twice");
            return Err(Error::file(&file, problem, "train and test must not share rows: fetch the split again"));
        }
        if rows.is_empty() {
            return Err(Error::file(&file, "names no rows", "fetch the split again"));
        }
        Ok(rows)
    }
}

fn read_table(name: &str, folder: &Path) -> Result<Table> {
    let (cells, width) = text::numbers(&folder.join("data.txt"))?;
    let features = text::indices(&folder.join("index_features.txt"), width)?;
    let target_file = folder.join("index_target.txt");
    let &[target] = &text::indices(&target_file, width)?[..] else {
        return Err(Error::file(&target_file, "must name exactly one column", "write one column number into it"));
    };
    if features.contains(&target) {
        let problem = format!("column {target} is the target and a feature");
        return Err(Error::file(&folder.join("index_features.txt"), problem, "take the target out of the features"));
    }
    let targets = cells.chunks_exact(width).map(|row| row[target]).collect();
    let inputs = cells.chunks_exact(width).flat_map(|row| features.iter().map(|&c| row[c])).collect();
    Table::new(name, inputs, features.len(), targets)
}

fn count_splits(folder: &Path) -> Result<usize> {
    let file = folder.join("n_splits.txt");
    if !file.is_file() {
        let exists = |i: &usize| folder.join(format!("index_train_{i}.txt")).is_file();
        return Ok((0..MOST_SPLITS).take_while(exists).count());
    }
    match text::indices(&file, MOST_SPLITS)?[..] {
        [count] => Ok(count),
        _ => Err(Error::file(&file, "must hold one number", "write the number of splits into it")),
    }
}

fn names(set: &Known) -> impl Iterator<Item = &'static str> {
    [set.folder, set.name].into_iter().chain(set.aliases.iter().copied())
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
}
