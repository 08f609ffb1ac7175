//! A table among arrays that people bring along.

use super::Table;
use crate::{Error, Result, formats::arrays::Array};

/// Pairs features with targets.
pub fn table(name: &str, features: &Array, targets: &Array) -> Result<Table> {
    let &[rows, columns] = &features.shape[..] else {
        let problem = format!("`{}` has shape {:?}", features.name, features.shape);
        return Err(Error::value(name, problem, "give features as [N, columns]"));
    };
    if targets.shape != [rows] && targets.shape != [rows, 1] {
        let problem = format!("`{}` has shape {:?} for {rows} rows", targets.name, targets.shape);
        return Err(Error::value(name, problem, "give one target per row"));
    }
    Table::new(name, features.values.to_f64(), columns, targets.values.to_f64())
}
