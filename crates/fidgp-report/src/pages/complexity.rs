//! The page of the complexity table.

use std::path::{Path, PathBuf};

use maud::{Markup, html};

use super::html::{figures, grid, page, section};
use crate::charts::{Axis, Chart, Drawing, Layer, Marker, Shape, series_class};
use crate::record::complexity::{Row, Subject, Table};
use crate::record::{Result, write_atomically, write_json};
use crate::words::format;

/// Writes `complexity.json`, `report.html` and its figures into a folder.
///
/// # Errors
/// When the disk fails.
pub fn write(table: &Table, out: &Path) -> Result<PathBuf> {
    write_json(&out.join("complexity.json"), table)?;
    let drawn = drawings(table);
    for figure in &drawn {
        write_atomically(&out.join(format!("{}.svg", figure.id)), figure.standalone().as_bytes())?;
    }
    let html = out.join("report.html");
    write_atomically(&html, page(TITLE, &body(table, &drawn)).as_bytes())?;
    Ok(html)
}

const TITLE: &str = "What a layer costs";

fn body(table: &Table, drawn: &[Drawing]) -> Markup {
    let (n, k) = (table.inputs, table.passes);
    let intro = format!("One square layer, N = {n} inputs, K = {k} passes, on {}.", table.device);
    let formulas = Subject::ALL.into_iter().map(|subject| {
        let (printed, mended) = (subject.storage_formula(), subject.mended_formula());
        let mended = if mended == printed { "as printed" } else { mended };
        [subject.name(), subject.time_formula(), printed, mended].map(str::to_owned).to_vec()
    });
    let formulas = grid(&["method", "time", "storage, as printed", "storage, mended"], formulas);
    let lead = "The printed storage leaves out mean and deviation of q(U), 2·M_in·M_out, for FiD-GP, and counts a weight for \
                every member of a BatchEnsemble, whose members share one.";
    let numbers = "Storage in numbers; counted is what the layer has: the mended formula and terms of lower order (biases, D, λ, \
                   the flow). Multiply-accumulates and times are of a whole prediction, factorisations included; where the \
                   mean weight is applied factor by factor (Reparam with noise on the outputs) ours are fewer than the paper's.";
    let grown = |own: &[Row], drawn: &[Drawing]| html! { (rows(own)) (figures(drawn)) };
    html! {
        header { h1 { (TITLE) } p { (intro) } }
        (section("formulas", "Formulas", lead, &formulas))
        (section("width", "Growing width d", numbers, &grown(&table.by_width, &drawn[..2])))
        (section("inducing", "Growing inducing size M", "", &grown(&table.by_inducing, &drawn[2..])))
    }
}

fn rows(rows: &[Row]) -> Markup {
    let head = ["method", "d", "M", "printed", "mended", "counted", "MACs, paper", "MACs, ours", "ms"];
    let number = |value: i64| format::grouped(value as u64);
    let cells = rows.iter().map(|row| {
        let storage = [row.storage_paper, row.storage_mended, row.storage_counted].map(number);
        let macs = [row.macs_paper, row.macs_ours].map(|macs| format::short(macs as f64));
        let first = [row.method.to_owned(), row.width.to_string(), row.inducing.to_string()];
        first.into_iter().chain(storage).chain(macs).chain([format!("{:.2}", row.measured_ms)]).collect()
    });
    grid(&head, cells)
}

fn drawings(table: &Table) -> Vec<Drawing> {
    let by_width: &dyn Fn(&Row) -> i64 = &|row| row.width;
    let by_inducing: &dyn Fn(&Row) -> i64 = &|row| row.inducing;
    let both = |rows: &[Row], x: &dyn Fn(&Row) -> i64, letter: &str, name: &str| {
        let storage =
            chart(rows, x, (letter, "numbers stored"), &|row| (row.storage_mended as f64, row.storage_counted as f64));
        let storage = storage.figure(&format!("storage-{name}"));
        let time =
            chart(rows, x, (letter, "ms"), &|row| (row.macs_ours as f64 * pace(rows, row.method), row.measured_ms));
        let time = time.figure(&format!("time-{name}"));
        [
            storage.captioned("Points: counted. Lines: the mended formula."),
            time.captioned(
                "Points: measured. Lines: our count of multiply-accumulates, at the pace of each method's largest size; where the \
                 points lie above, launches and memory decide, not arithmetic.",
            ),
        ]
    };
    let width = both(&table.by_width, by_width, "d", "width");
    width.into_iter().chain(both(&table.by_inducing, by_inducing, "M", "inducing")).collect()
}

/// Milliseconds per multiply-accumulate at a method's largest size.
fn pace(rows: &[Row], method: &str) -> f64 {
    let last = rows.iter().rfind(|row| row.method == method);
    last.map_or(0.0, |row| row.measured_ms / row.macs_ours.max(1) as f64)
}

/// A line and points for each method: formula and fact.
fn chart(
    rows: &[Row],
    x: &dyn Fn(&Row) -> i64,
    (letter, what): (&str, &str),
    pair: &dyn Fn(&Row) -> (f64, f64),
) -> Chart {
    let title = format!("{what} against {letter}");
    let mut chart = Chart::new(title, Axis::new(letter).log(), Axis::new(what).log()).sized(620.0, 380.0);
    for (index, subject) in Subject::ALL.into_iter().enumerate() {
        let own: Vec<_> = rows.iter().filter(|row| row.method == subject.name()).collect();
        let line = own.iter().map(|row| (x(row) as f64, pair(row).0)).collect();
        let points = own.iter().map(|row| (x(row) as f64, pair(row).1)).collect();
        let class = series_class(index);
        chart = chart
            .with(Layer::new(class.clone(), Shape::Line(line)))
            .with(Layer::new(class, Shape::Points(points, Marker::of(index))).labelled(subject.name()));
    }
    chart
}
