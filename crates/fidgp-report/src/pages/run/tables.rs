use std::collections::BTreeSet;

use crate::record::{MetricNotes, Results};

use super::columns::Column;
use crate::charts::svg::escape;
use crate::pages::html::{tag, tags};
use crate::words::{
    format,
    metric::{Better, order, words},
};

/// More columns than this and the table is turned: one row per run.
const WIDE: usize = 5;

/// Metrics against columns; the best of our own numbers in a line is bold.
pub fn metrics(columns: &[Column], notes: &MetricNotes) -> String {
    let names: BTreeSet<(usize, &str)> =
        columns.iter().flat_map(|column| column.cells.keys()).map(|name| order(name)).collect();
    let names: Vec<&str> = names.into_iter().map(|(_, name)| name).collect();
    let table = if columns.len() > WIDE { turned(columns, &names, notes) } else { upright(columns, &names, notes) };
    format!("<div class=\"scroll\">{table}</div>")
}

fn upright(columns: &[Column], names: &[&str], notes: &MetricNotes) -> String {
    let heads = columns.iter().map(|column| tag("th", "number", &heading(column))).collect::<String>();
    let rows = names.iter().map(|name| {
        let numbers = columns.iter().map(|column| cell(columns, column, name)).collect::<String>();
        let meaning = tag("td", "meaning", &escape(&words(name).meaning));
        tags("tr", &format!("<th scope=\"row\">{}</th>{numbers}{meaning}", metric_heading(name, notes)))
    });
    let head = tags("thead", &tags("tr", &format!("<th>metric</th>{heads}<th>what it means</th>")));
    tags("table", &format!("{head}\n<tbody>{}</tbody>", rows.map(|row| row + "\n").collect::<String>()))
}

fn turned(columns: &[Column], names: &[&str], notes: &MetricNotes) -> String {
    let heads = names.iter().map(|name| tag("th", "number", &metric_heading(name, notes))).collect::<String>();
    let rows = columns.iter().map(|column| {
        let numbers = names.iter().map(|name| cell(columns, column, name)).collect::<String>();
        tags("tr", &format!("<th scope=\"row\">{}</th>{numbers}", heading(column)))
    });
    let head = tags("thead", &tags("tr", &format!("<th>run</th>{heads}")));
    let table = tags("table", &format!("{head}\n<tbody>{}</tbody>", rows.map(|row| row + "\n").collect::<String>()));
    let meanings = names.iter().filter(|name| !words(name).meaning.is_empty());
    let list = meanings.map(|name| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(&words(name).meaning)));
    format!("{table}\n<dl class=\"meanings\">{}</dl>", list.collect::<String>())
}

fn heading(column: &Column) -> String {
    format!("{}<small>{}</small>", escape(&column.heading), escape(&column.note))
}

/// Name, direction, and what must be said with the value.
fn metric_heading(name: &str, notes: &MetricNotes) -> String {
    let arrow = match words(name).better {
        Better::Higher => " <span title=\"higher is better\">↑</span>",
        Better::Lower => " <span title=\"lower is better\">↓</span>",
        Better::Neither => "",
    };
    let said = notes.get(name).into_iter().flatten().map(|(key, value)| format!("{key} {value}"));
    let said = said.collect::<Vec<_>>().join(", ");
    format!(
        "{}{arrow}{}",
        escape(name),
        if said.is_empty() { said } else { format!("<small>{}</small>", escape(&said)) }
    )
}

fn cell(columns: &[Column], column: &Column, metric: &str) -> String {
    let Some(cell) = column.cells.get(metric) else { return tag("td", "number none", "–") };
    let class = match (cell.value, best(columns, metric)) {
        (Some(value), Some(best)) if value.total_cmp(&best).is_eq() && !column.published => "number best",
        (None, _) => "number warn",
        _ => "number",
    };
    tag("td", class, &escape(&cell.text(metric)))
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
pub fn cost(runs: &[(&str, &Results)]) -> String {
    let head = ["run", "parameters", "stored", "MACs per input and draw", "training", "per epoch", "prediction"];
    let head = head
        .iter()
        .enumerate()
        .map(|(i, text)| tag("th", if i == 0 { "" } else { "number" }, text))
        .collect::<String>();
    let time = |value: Option<f64>| value.map_or("–".to_owned(), format::seconds);
    let rows = runs.iter().map(|(heading, results)| {
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
        let cells = cells.iter().map(|text| tag("td", "number", text)).collect::<String>();
        tags("tr", &format!("<th scope=\"row\">{}</th>{cells}", escape(heading))) + "\n"
    });
    let body = tags("tbody", &rows.collect::<String>());
    format!("<div class=\"scroll\">{}</div>", tags("table", &format!("{}\n{body}", tags("thead", &tags("tr", &head)))))
}
