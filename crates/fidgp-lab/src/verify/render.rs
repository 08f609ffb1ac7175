//! Rows as a table that reads without colour.

use std::fmt::Write;

use super::row::{Row, Summary};

/// An aligned table, a blank line between cases, and the summary as the last line.
pub fn render(rows: &[Row]) -> String {
    let width = |cell: fn(&Row) -> &str, title: &str| {
        rows.iter().map(|row| cell(row).chars().count()).chain([title.len()]).max().unwrap_or(0)
    };
    let (case, quantity) = (width(|row| &row.case, "case"), width(|row| &row.quantity, "quantity"));
    let mut text = String::new();
    let mut line = |cells: [&str; 6]| {
        let [c, q, absolute, relative, bound, verdict] = cells;
        let _ = writeln!(text, "{c:<case$}  {q:<quantity$}  {absolute:>9}  {relative:>9}  {bound:>7}  {verdict}");
    };
    line(["case", "quantity", "abs error", "rel error", "bound", "verdict"]);
    let mut before: Option<&str> = None;
    for row in rows {
        if before != Some(&row.case) {
            line([""; 6]);
        }
        before = Some(&row.case);
        let number = |value: Option<f64>, digits: usize| value.map_or_else(|| "-".to_owned(), |v| short(v, digits));
        let (absolute, relative, bound) = (number(row.abs_error, 2), number(row.rel_error, 2), number(row.bound, 1));
        line([&row.case, &row.quantity, &absolute, &relative, &bound, &row.verdict.to_string()]);
    }
    line([""; 6]);
    let text: Vec<&str> = text.lines().map(str::trim_end).collect();
    format!("{}\n{}\n", text.join("\n"), Summary::of(rows))
}

/// `1.2e-10`; zero is `0`.
fn short(value: f64, digits: usize) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.digits$e}") }
}
