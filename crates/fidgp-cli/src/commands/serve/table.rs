//! Rows of a table as the server takes them.

use fidgp_data::{Cells, ColumnEncoding};
use fidgp_lab::LabError;
use fidgp_lab::source::TableView;
use fidgp_serve::{Column, Holds, Item, ModelError};
use serde_json::{Value, json};

use crate::words::without_trace;

/// A row as the network takes it.
pub struct Given {
    /// Numbers.
    pub inputs: Vec<f64>,
    /// The cells as they were understood, in the order of the columns.
    pub cells: Vec<Value>,
    /// What stands in for what is missing or not known.
    pub flags: Vec<String>,
}

impl Given {
    /// Of an item of a request.
    ///
    /// # Errors
    /// When a cell is not what its column holds.
    pub fn of(item: &Item, view: Option<&TableView>) -> Result<Self, ModelError> {
        match (item, view) {
            (Item::Row(row), _) => {
                let cells = row.iter().map(|cell| json!(cell)).collect();
                Ok(Self { inputs: row.clone(), cells, flags: Vec::new() })
            }
            (Item::Cells(cells), Some(view)) => {
                let encoded = Cells::of_rows("the row", view.columns.names(), cells).map_err(LabError::from);
                let encoded = encoded.and_then(|cells| view.encoded(&cells));
                let given = encoded.map_err(|error| ModelError::Input(without_trace(&error.to_string())))?;
                Ok(Self { inputs: given.inputs, cells: given.cells, flags: given.flags.concat() })
            }
            _ => Err(ModelError::Input("this model takes rows of a table".to_owned())),
        }
    }
}

/// What the columns hold; none where all are numbers without gaps.
pub fn columns(view: &TableView) -> Vec<Column> {
    if view.columns.is_plain() {
        return Vec::new();
    }
    let column = |column: &ColumnEncoding| {
        let holds = match column {
            ColumnEncoding::Number { .. } => Holds::Number,
            ColumnEncoding::Boolean { .. } => Holds::Boolean,
            ColumnEncoding::Date { .. } => Holds::Date,
            ColumnEncoding::Text { .. } => Holds::Text,
        };
        Column { name: column.name().to_owned(), holds, levels: column.levels().to_vec() }
    };
    view.columns.columns().iter().map(column).collect()
}

/// A row in the middle of the training data: means, or medians and the first of the texts.
pub fn example(view: &TableView) -> Vec<Value> {
    if view.columns.is_plain() {
        return view.scale.feature_mean.iter().map(|mean| json!(mean)).collect();
    }
    let cell = |column: &ColumnEncoding| match column {
        ColumnEncoding::Number { median, .. } => json!(median),
        ColumnEncoding::Boolean { median, .. } => json!(*median >= 0.5),
        ColumnEncoding::Date { median, .. } => json!(day(*median)),
        ColumnEncoding::Text { levels, .. } => json!(levels.first()),
    };
    view.columns.columns().iter().map(cell).collect()
}

/// The date so many days after 1970-01-01, by the civil calendar; years are counted from March.
fn day(days: f64) -> String {
    let days = days.floor() as i64 + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * march + 2) / 5 + 1, if march < 10 { march + 3 } else { march - 9 });
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + i64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        for (days, expected) in [
            (0.0, "1970-01-01"),
            (-1.0, "1969-12-31"),
            (59.9, "1970-03-01"),
            (11_016.0, "2000-02-29"),
            (19_737.5, "2024-01-15"),
            (47_540.0, "2100-02-28"),
            (47_541.0, "2100-03-01"),
        ] {
            assert_eq!(day(days), expected, "{days}");
        }
    }
}
