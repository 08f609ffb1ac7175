//! The check of golden files: the shipped one, another one, and broken ones.

mod broken;
mod golden;

use fidgp_lab::verify::{Precision, Row, Verdict, verify};
use tch::Device;

/// Numbers from `other_sizes.py`, for other sizes than the shipped file's.
pub(crate) const OTHER: &str = include_str!("../fixtures/other_sizes.json");

pub(crate) fn rows(json: &str, precision: Precision) -> Vec<Row> {
    verify(json, precision, Device::Cpu).expect("the file can be read")
}

/// What failed, as `case quantity: why`.
pub(crate) fn failures(rows: &[Row]) -> Vec<String> {
    let line = |row: &Row| match &row.verdict {
        Verdict::Failed(why) => Some(format!("{} {}: {why}", row.case, row.quantity)),
        _ => None,
    };
    rows.iter().filter_map(line).collect()
}
