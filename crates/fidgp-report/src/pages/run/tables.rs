use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::record::{MetricNotes, Results};

use super::columns::Column;
use crate::pages::html;
use crate::words::{
    format,
    metric::{Better, order, words},
};

/// More columns than this and the table is turned: one row per run.
const WIDE: usize = 5;

/// Metrics against columns; the best of our own numbers in a line is bold.
pub fn metrics(columns: &[Column], notes: &MetricNotes) -> Markup {
    let names: BTreeSet<(usize, &str)> =
        columns.iter().flat_map(|column| column.cells.keys()).map(|name| order(name)).collect();
    let names: Vec<&str> = names.into_iter().map(|(_, name)| name).collect();
    let table = if columns.len() > WIDE { turned(columns, &names, notes) } else { upright(columns, &names, notes) };
    html! { div.scroll { (table) } }
}

fn upright(columns: &[Column], names: &[&str], notes: &MetricNotes) -> Markup {
    let heads = columns.iter().map(|column| html::head("number", heading(column)));
    let heads = std::iter::once(html::head("", "metric")).chain(heads).chain([html::head("", "what it means")]);
    let row = |name: &&str| {
        let numbers = columns.iter().map(|column| cell(columns, column, name));
        let name_and_numbers = std::iter::once(html::row_head(metric_heading(name, notes))).chain(numbers);
        name_and_numbers.chain([html::cell("meaning", words(name).meaning)]).collect()
    };
    html::bare_table(heads, names.iter().map(row))
}

fn turned(columns: &[Column], names: &[&str], notes: &MetricNotes) -> Markup {
    let heads = names.iter().map(|name| html::head("number", metric_heading(name, notes)));
    let heads = std::iter::once(html::head("", "run")).chain(heads);
    let row = |column: &Column| {
        let numbers = names.iter().map(|name| cell(columns, column, name));
        std::iter::once(html::row_head(heading(column))).chain(numbers).collect()
    };
    html! {
        (html::bare_table(heads, columns.iter().map(row)))
        dl.meanings {
            @for name in names.iter().filter(|name| !words(name).meaning.is_empty()) {
                dt { (name) } dd { (words(name).meaning) }
            }
        }
    }
}

fn heading(column: &Column) -> Markup {
    html! { (column.heading) small { (column.note) } }
}

/// Name, direction, and what must be said with the value.
fn metric_heading(name: &str, notes: &MetricNotes) -> Markup {
    let said = notes.get(name).into_iter().flatten().map(|(key, value)| format!("{key} {value}"));
    let said = said.collect::<Vec<_>>().join(", ");
    html! {
        (name)
        @match words(name).better {
            Better::Higher => { " " span title="higher is better" { "↑" } }
            Better::Lower => { " " span title="lower is better" { "↓" } }
            Better::Neither => {}
        }
        @if !said.is_empty() { small { (said) } }
    }
}

fn cell(columns: &[Column], column: &Column, metric: &str) -> Markup {
    let Some(cell) = column.cells.get(metric) else { return html::cell("number none", "–") };
    let class = match (cell.value, best(columns, metric)) {
        (Some(value), Some(best)) if value.total_cmp(&best).is_eq() && !column.published => "number best",
        (None, _) => "number warn",
        _ => "number",
    };
    html::cell(class, cell.text(metric))
}

/// The best of our own numbers, where the metric has a direction and the numbers differ.
fn best(columns: &[Column], metric: &str) -> Option<f64> {
    let own = columns.iter().filter(|column| !column.published);
    let values: Vec<f64> = own.filter_map(|column| column.cells.get(metric)?.value).collect();
    let pick = match words(metric).better {
        Better::Higher => f64::max,
        Better::Lower => f64::min,
        Better::Neither => return None,
    };
    let best = values.iter().copied().reduce(pick)?;
    values.iter().any(|value| value.total_cmp(&best).is_ne()).then_some(best)
}

/// Size, arithmetic and time, one row per run.
pub fn cost(runs: &[(&str, &Results)]) -> Markup {
    let heads = ["run", "parameters", "stored", "MACs per input and draw", "training", "per epoch", "prediction"];
    let time = |value: Option<f64>| value.map_or("–".to_owned(), format::seconds);
    let row = |(heading, results): &(&str, &Results)| {
        let (cost, times) = (&results.cost, &results.time);
        let macs = if cost.macs == 0 { "–".to_owned() } else { format::short(cost.macs as f64) };
        let cells = [
            format::grouped(cost.parameters),
            format::bytes(cost.bytes),
            macs,
            time(times.train_seconds),
            time(times.seconds_per_epoch),
            time(times.predict_seconds),
        ];
        ((*heading).to_owned(), cells.to_vec())
    };
    numbers(&heads, runs.iter().map(row))
}

/// A table of numbers, a name before each row.
pub fn numbers(heads: &[&str], rows: impl Iterator<Item = (String, Vec<String>)>) -> Markup {
    let heads = heads.iter().enumerate().map(|(i, text)| html::head(html::numeric(i), text));
    let row = |(name, cells): (String, Vec<String>)| {
        std::iter::once(html::row_head(name)).chain(cells.iter().map(|text| html::cell("number", text))).collect()
    };
    html::table(heads, rows.map(row))
}
