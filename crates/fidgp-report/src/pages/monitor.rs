//! What logs of predictions say of a model: one page.

use std::path::Path;

use fidgp_decision::decide::{number, percent};
use fidgp_decision::monitor::{Monitor, Series, Watched};

use fidgp_metrics::drift::AccuracyEstimate;
use maud::{Markup, html};

use super::html::{figures, grid, grid_of_numbers, page, section};
use crate::charts::{Axis, Chart, Drawing};
use crate::record::{Result, write_atomically};

/// Series that are drawn: those with the most evidence.
const DRAWN: usize = 6;

/// Writes the page.
///
/// # Errors
/// When the disk fails.
pub fn write(found: &Monitor, model: &str, out: &Path) -> Result<()> {
    let title = format!("Monitor: {model}");
    write_atomically(out, page(&title, &body(found, &title)).as_bytes())
}

/// What there is to say first, in a sentence or two.
pub fn verdict(found: &Monitor) -> String {
    let changed: Vec<_> = found.series.iter().filter(|series| series.alarm_at.is_some()).map(named).collect();
    let broken: Vec<_> = found.watched.iter().filter(|watched| watched.broken).map(|one| one.what.as_str()).collect();
    let mut text = Vec::new();
    if !changed.is_empty() {
        text.push(format!("Changed: {}.", changed.join(", ")));
    }
    if !broken.is_empty() {
        text.push(format!("Guaranteed and no longer kept: {}.", broken.join(", ")));
    }
    if text.is_empty() {
        text.push("Nothing has changed as far as these lines show.".to_owned());
    }
    let chance = percent(found.alpha);
    text.push(format!("A false alarm has a probability of at most {chance}, however often one looks."));
    text.join(" ")
}

fn named(series: &Series) -> String {
    series.alarm_at.map_or_else(|| series.name.clone(), |line| format!("{} (line {line})", series.name))
}

fn body(found: &Monitor, title: &str) -> Markup {
    let [accept, abstain, foreign] = found.verdicts;
    let counts =
        format!("{} lines: {accept} accepted, {abstain} abstained from, {foreign} out of distribution.", found.lines);
    let lead = "Each test compares a line with all lines before it. Its e-value grows when something has changed.";
    let heads = ["series", "lines", "mean before", "mean now", "evidence, log10 e", "alarm at line"];
    let drift = html! { (grid_of_numbers(&heads, found.series.iter().map(row))) (figures(&[drawing(found)])) };
    let promises = ["share", "guarantee", "seen", "interval", "labelled lines", ""];
    html! {
        header { h1 { (title) } p.lead { (verdict(found)) } p { (counts) } }
        (section("drift", "Has anything changed?", lead, &drift))
        @if let Some(estimate) = &found.accuracy {
            (section("accuracy", "Accuracy without labels", ACCURACY, &accuracy(found, estimate)))
        }
        @if !found.watched.is_empty() {
            (section("labels", "With labels", LABELS, &grid(&promises, found.watched.iter().map(promise))))
        }
    }
}

fn accuracy(found: &Monitor, estimate: &AccuracyEstimate) -> Markup {
    let cells = vec![
        found.accuracy_before.map_or_else(|| "–".to_owned(), percent),
        percent(estimate.accuracy),
        format!("{} … {}", percent(estimate.interval.lo), percent(estimate.interval.hi)),
    ];
    grid(&["calibration examples", "these lines, estimated", "95 % interval"], std::iter::once(cells))
}

const ACCURACY: &str = "Estimated from the confidence: how often predictions of such confidence were right among the calibration examples. The \
    estimate fails where the relation of inputs to classes has changed.";
const LABELS: &str = "The interval holds at all times together. A guarantee counts as broken when the whole interval lies on its wrong side, with \
    the chance of the calibration examples taken into account. Accuracy by itself is tested as the series `error` above.";

fn row(series: &Series) -> Vec<String> {
    vec![
        series.name.clone(),
        series.seen.to_string(),
        number(series.mean_before),
        if series.seen > 0 { number(series.mean_now) } else { "–".to_owned() },
        format!("{:.2}", series.log10_e),
        series.alarm_at.map_or_else(|| "–".to_owned(), |line| line.to_string()),
    ]
}

fn promise(watched: &Watched) -> Vec<String> {
    vec![
        watched.what.clone(),
        watched.promised.map_or_else(|| "–".to_owned(), percent),
        percent(watched.share),
        format!("{} … {}", percent(watched.interval.lo), percent(watched.interval.hi)),
        watched.seen.to_string(),
        watched.alarm_at.map_or_else(String::new, |line| format!("no longer kept (line {line})")),
    ]
}

fn drawing(found: &Monitor) -> Drawing {
    let mut order: Vec<&Series> = found.series.iter().collect();
    order.sort_by(|a, b| b.log10_e.total_cmp(&a.log10_e));
    let points = |series: &Series| series.line.iter().map(|&(line, e)| (line as f64, e)).collect::<Vec<_>>();
    let limit = vec![(1.0, found.log10_limit), (found.lines as f64, found.log10_limit)];
    let lines = order.into_iter().take(DRAWN).map(|series| (series.name.clone(), points(series)));
    let lines = lines.chain([("limit".to_owned(), limit)]).collect();
    let (x, y) = (Axis::new("line of the logs"), Axis::new("log10 e"));
    let chart = Chart::line_chart("Evidence against \"nothing has changed\"", x, y, lines).sized(720.0, 320.0);
    chart.figure("monitor").captioned("A line that rises above the limit is an alarm.")
}
