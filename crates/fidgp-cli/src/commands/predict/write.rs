//! Predictions as lines for programs, written as they are made.

use fidgp_lab::LabError;
use serde_json::Value;

use crate::args::Predict;
use crate::commands::{print, print_raw_json};

/// What stands between the classes of a set in a cell.
const AND: &str = "|";

/// Writes JSON lines or CSV, or nothing where neither was asked for.
pub struct Writer {
    format: Option<Format>,
}

enum Format {
    Lines,
    /// With the names of the columns, once the first row has said them.
    Csv(Option<Vec<String>>),
}

impl Writer {
    pub fn new(arguments: &Predict) -> Self {
        let csv = arguments.csv.then_some(Format::Csv(None));
        Self { format: arguments.jsonl.then_some(Format::Lines).or(csv) }
    }

    /// Whether predictions are written as they are made.
    pub fn streams(&self) -> bool {
        self.format.is_some()
    }

    /// Writes predictions.
    pub fn rows(&mut self, rows: &[Value]) -> Result<(), LabError> {
        match &mut self.format {
            None => Ok(()),
            Some(Format::Lines) => print_raw_json(&rows.iter().map(|row| format!("{row}\n")).collect::<String>()),
            Some(Format::Csv(names)) => print(&csv(names, rows)),
        }
    }
}

fn csv(names: &mut Option<Vec<String>>, rows: &[Value]) -> String {
    let mut text = String::new();
    for row in rows {
        let cells = cells(row);
        if names.is_none() {
            let first: Vec<_> = cells.iter().map(|(name, _)| name.clone()).collect();
            text += &line(first.iter());
            *names = Some(first);
        }
        let known = names.iter().flatten();
        let cell =
            |name: &String| cells.iter().find(|(own, _)| own == name).map_or(String::new(), |(_, cell)| cell.clone());
        text += &line(known.map(cell).collect::<Vec<_>>().iter());
    }
    text
}

/// What comes first, and what last; between them stand sets and intervals.
const FIRST: [&str; 2] = ["input", "row"];
const THEN: [&str; 9] = ["class", "index", "probability", "mean", "sd", "total", "aleatoric", "epistemic", "draws"];
const LAST: [&str; 7] = ["ood_score", "ood_p", "decision", "reason", "out_of_range", "flags", "map"];

/// A prediction without its lists: a column for each feature, and for each level of its sets and intervals.
fn cells(row: &Value) -> Vec<(String, String)> {
    let single = |name: &&str| row.get(*name).map(|value| ((*name).to_owned(), plain(value)));
    let mut cells: Vec<_> = FIRST.iter().filter_map(single).collect();
    let features = row["features"].as_object().into_iter().flatten();
    cells.extend(features.map(|(name, value)| (name.clone(), plain(value))));
    cells.extend(THEN.iter().filter_map(single));
    let sets = row["sets"].as_array().into_iter().flatten();
    cells.extend(sets.map(|set| (format!("set_{}", set["level"]), plain(&set["classes"]))));
    for one in row["intervals"].as_array().into_iter().flatten() {
        cells.extend(["lower", "upper"].map(|end| (format!("{end}_{}", one["level"]), plain(&one[end]))));
    }
    cells.extend(LAST.iter().filter_map(single));
    cells
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(AND),
        other => other.to_string(),
    }
}

fn line<'a>(cells: impl Iterator<Item = &'a String>) -> String {
    let quoted = |cell: &String| {
        if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.clone() }
    };
    cells.map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_becomes_cells_and_texts_are_quoted() {
        let row = json!({
            "input": "a,\"b\".png", "top": [1], "total": 0.5, "out_of_range": [],
            "sets": [{"level": 0.9, "classes": ["cat", "dog"]}], "intervals": [{"level": 0.9, "lower": null, "upper": 2.0}],
        });
        let mut names = None;
        let text = csv(&mut names, &[row, json!({"input": "c", "total": 1.0})]);
        let expected =
            "input,total,set_0.9,lower_0.9,upper_0.9,out_of_range\n\"a,\"\"b\"\".png\",0.5,cat|dog,,2.0,\nc,1.0,,,,\n";
        assert_eq!(text, expected);
    }
}
