//! The page of an out-of-distribution benchmark.

mod beside;

use std::path::{Path, PathBuf};

use fidgp_metrics::OodScores;
use maud::{Markup, Render, html};

use crate::record::ood::Columns;
use crate::record::{Chosen, Group, OodDocument, OodScoreRecord, write_atomically};

use crate::charts::{Axis, Chart, Drawing, Layer, Shape};
use crate::pages::html::{self, section};
use crate::pages::write::ReportError;
use crate::words::slug;

/// Scores that are drawn, where they are there.
const DRAWN: [&str; 5] = ["msp", "energy", "variance+energy", "leverage+near", "chosen"];
/// Points of a drawn ROC curve, about.
const ROC_POINTS: usize = 200;
const BINS: usize = 50;

/// Writes `report.html` with its figures beside it; `id` and `ood` are the scores of the images, set by set.
///
/// # Errors
/// When the disk fails.
pub fn write(
    document: &OodDocument,
    id: &Columns,
    ood: &[(String, Columns)],
    out: &Path,
) -> Result<PathBuf, ReportError> {
    let figures = figures(&document.id, id, ood);
    for figure in &figures {
        write_atomically(&out.join(format!("{}.svg", figure.id)), figure.standalone().as_bytes())?;
    }
    let html = out.join("report.html");
    write_atomically(&html, page(document, &figures).as_bytes())?;
    Ok(html)
}

/// What a reader must see first when controls were skipped.
fn warning(document: &OodDocument) -> Markup {
    let failed: Vec<String> =
        document.controls.iter().filter(|control| !control.passed).map(ToString::to_string).collect();
    html! {
        @if document.controls_skipped {
            p.warn {
                @if failed.is_empty() {
                    "Run with --unsafe-skip-controls; all controls held all the same."
                } @else {
                    strong {
                        "WARNING: controls failed and were skipped (--unsafe-skip-controls). The numbers below do not measure \
                         what they say. " (failed.join("; "))
                    }
                }
            }
        }
    }
}

fn page(document: &OodDocument, figures: &[Drawing]) -> String {
    let title = format!("{} against other sets: {}", document.id, document.model);
    let accuracy = document.accuracy.map_or("unknown".to_owned(), |value| format!("{:.2} %", 100.0 * value));
    let facts = [
        ("Model", format!("{} ({})", document.model, document.method)),
        ("ID", format!("{}, {} test images, accuracy {accuracy}", document.id, document.id_images)),
        ("Fitted on", format!("{} ID training images", document.fit_images)),
        ("U", document.u.clone()),
        ("Temperature", document.temperature.map_or("none".to_owned(), |value| format!("{value:.4}"))),
        ("Cost", cost(document)),
        ("Seed", document.seed.to_string()),
        ("Commit", document.commit.clone()),
    ];
    let controls = html! { ul { @for control in &document.controls { li { (control.to_string()) } } } };
    let controls_lead = "Run before any other number. A protocol that fails one of them can produce any AUROC at all.";
    let auroc_lead = "AUROC in per cent, high scores meaning OoD, ties counted half; in brackets the 95 % bootstrap interval. The best \
                of a column is bold. One model on one sample of images: differences within the intervals mean nothing.";
    let auroc = html! { (auroc(document)) ul { @for what in &document.left_out { li { "left out: " (what) } } } };
    let all_lead = "OpenOOD's columns. FPR@95 in both conventions: ID images flagged when 95 % of the OoD images are caught (OpenOOD), \
                and OoD images that pass when 95 % of the ID images are kept (most papers).";
    let body = html! {
        header { h1 { (title) } (warning(document)) (html::facts(&facts)) }
        (section("controls", "Controls", controls_lead, &controls))
        (section("sets", "The sets", SETS_LEAD, &sets(document)))
        (section("auroc", "AUROC", auroc_lead, &auroc))
        @if let Some(chosen) = &document.chosen {
            (section("chosen", "What was chosen, and on what", "", &html! { p { (choice(chosen)) } }))
        }
        (beside::protocol(document))
        (beside::lemma(document))
        (section("figures", "Scores and ROC curves", "", &html::figures(figures)))
        (section("all", "All metrics", all_lead, &all(document)))
        @if let Some(command) = &document.command {
            (section("reproduce", "How to reproduce", "", &html! { pre { (command) } }))
        }
        footer { "Written by fidgp. Every number on this page stands in ood.json beside it." }
    };
    html::page(&title, &body)
}

/// How the chosen recipe was chosen.
fn choice(chosen: &Chosen) -> String {
    format!(
        "chosen among {} recipes on {} with {} ID images, none of which is in the table: {}. Mean AUROC there {:.2} (the largest \
         of many, so too good).",
        chosen.candidates,
        chosen.on.join(", "),
        chosen.id_images,
        chosen.says,
        100.0 * chosen.auroc
    )
}

/// Our scores against one forward pass.
fn cost(document: &OodDocument) -> String {
    let Some(cost) = document.cost else { return "one forward pass and statistics".to_owned() };
    let times = |seconds: f64| format!("{:.2}", seconds / cost.forward.max(f64::MIN_POSITIVE));
    let residual = cost.residual.map_or(String::new(), |seconds| format!(", residual {}", times(seconds)));
    format!("variance {}{residual} forward passes ({} images, median of five)", times(cost.variance), cost.images)
}

const SETS_LEAD: &str = "All are brought to the model's size by one resize and normalised with the model's own statistics. A set \
                         that one number of its raw pixels tells apart, or that comes in another format, says little about a network.";

/// A name and cells with their classes.
pub(super) fn row(name: impl Render, cells: impl IntoIterator<Item = (String, &'static str)>) -> Vec<Markup> {
    let cells = cells.into_iter().map(|(text, class)| html::cell(class, text));
    std::iter::once(html::row_head(name)).chain(cells).collect()
}

pub(super) fn table<S: Render>(
    heads: impl IntoIterator<Item = S>,
    rows: impl IntoIterator<Item = Vec<Markup>>,
) -> Markup {
    html::table(heads.into_iter().map(|head| html::head("", head)), rows)
}

fn sets(document: &OodDocument) -> Markup {
    let heads = [
        "set",
        "group",
        "images",
        "comes as",
        "in ID train",
        "AUROC of mean pixel",
        "of pixel deviation",
        "trivially separable",
    ];
    let rows = document.sets.iter().map(|set| {
        let trivial = if set.trivial.is_empty() { "no".to_owned() } else { set.trivial.join("; ") };
        let class = if set.trivial.is_empty() { "" } else { "warn" };
        let cells = [
            (set.group.name().to_owned(), ""),
            (set.images.to_string(), "number"),
            (set.native.clone(), ""),
            (set.duplicates.to_string(), if set.duplicates > 0 { "number warn" } else { "number" }),
            (percent(set.pixel_mean_auroc), "number"),
            (percent(set.pixel_sd_auroc), "number"),
            (trivial, class),
        ];
        row(&set.name, cells)
    });
    table(heads, rows)
}

pub(super) fn percent(value: f64) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    format!("{:.2}", 100.0 * value)
}

/// The sets, then the means of the groups.
fn auroc(document: &OodDocument) -> Markup {
    let names: Vec<&str> = document.sets.iter().map(|set| set.name.as_str()).collect();
    let value = |score: &OodScoreRecord, column: &str| match column {
        "nearood" => score.nearood,
        "farood" => score.farood,
        set => score.sets.get(set).map(|metrics| metrics.AUROC),
    };
    let groups = ["nearood", "farood"];
    let columns: Vec<&str> = names.into_iter().chain(groups).collect();
    let best = |column: &str| document.scores.iter().filter_map(|score| value(score, column)).fold(0.0, f64::max);
    let rows = document.scores.iter().map(|score| {
        let name = html! { (score.name) small { (score.about) } };
        let cells = columns.iter().map(|column| {
            let Some(own) = value(score, column) else { return ("–".to_owned(), "number none") };
            let interval =
                score.sets.get(*column).map(|m| format!(" [{}, {}]", percent(m.interval.lo), percent(m.interval.hi)));
            let class = if own.total_cmp(&best(column)).is_eq() { "number best" } else { "number" };
            (percent(own) + &interval.unwrap_or_default(), class)
        });
        row(name, cells)
    });
    table(std::iter::once("score").chain(columns.iter().copied()), rows)
}

fn all(document: &OodDocument) -> Markup {
    let heads = ["score, set", "FPR@95 (OoD caught)", "FPR@95 (ID kept)", "AUROC", "AUPR_IN", "AUPR_OUT", "ACC"];
    let accuracy = document.accuracy.map_or("–".to_owned(), percent);
    let mut rows = Vec::new();
    for score in &document.scores {
        let sets =
            document.sets.iter().filter_map(|set| Some((set.name.as_str(), score.sets.get(&set.name)?.columns())));
        let groups = [Group::NearOod, Group::FarOod].into_iter();
        let groups = groups.filter_map(|group| Some((group.name(), score.group(&document.sets, group)?)));
        for (name, columns) in sets.chain(groups) {
            let numbers = columns.map(|v| (percent(v), "number"));
            let numbers = numbers.into_iter().chain([(accuracy.clone(), "number")]);
            rows.push(row(format!("{}, {name}", score.name), numbers));
        }
    }
    html::folded("All scores on all sets", &table(heads, rows))
}

fn figures(id_name: &str, id: &Columns, ood: &[(String, Columns)]) -> Vec<Drawing> {
    let mut drawn = Vec::new();
    for name in DRAWN.iter().filter(|name| id.contains_key(**name)) {
        let sets = ood.iter().filter_map(|(set, columns)| Some((set.clone(), columns.get(*name)?.clone())));
        let sets: Vec<_> = std::iter::once((format!("{id_name} (ID)"), id[*name].clone())).chain(sets).collect();
        let (sets, beyond) = within(sets);
        let chart =
            Chart::histogram(format!("{name}: ID and OoD"), Axis::new(format!("{name} (high = OoD)")), BINS, &sets);
        let ends = match beyond {
            0 => String::new(),
            count => format!(" {count} images beyond the ends stand in the outermost bins."),
        };
        let caption = format!(
            "Densities of the score, each set with area 1. What overlaps cannot be told apart by any threshold.{ends}"
        );
        drawn.push(chart.figure(&format!("histogram-{}", slug(name))).captioned(caption));
    }
    for (set, columns) in ood {
        let curves = DRAWN.iter().filter_map(|name| {
            let scores = OodScores::new(id.get(*name)?, columns.get(*name)?).ok()?;
            Some(((*name).to_owned(), thinned(&scores)))
        });
        let chart = Chart::line_chart(
            format!("ROC on {set}"),
            Axis::new("ID images flagged").range(0.0, 1.0),
            Axis::new("OoD images caught").range(0.0, 1.0),
            curves.collect(),
        );
        let chart = chart.with(Layer::new("diagonal", Shape::Line(vec![(0.0, 0.0), (1.0, 1.0)])).labelled("chance"));
        let caption = "The more area below a curve, the better; the diagonal is guessing.";
        drawn.push(chart.sized(440.0, 340.0).figure(&format!("roc-{}", slug(set))).captioned(caption));
    }
    drawn
}

/// Scores of named sets.
type Named = Vec<(String, Vec<f64>)>;

/// Values beyond the 0.5 and 99.5 % quantiles of all are moved there, so that a few images do not squeeze the rest into one
/// bin; and how many were.
fn within(sets: Named) -> (Named, usize) {
    let mut all: Vec<f64> = sets.iter().flat_map(|(_, values)| values.iter().copied()).collect();
    all.sort_by(f64::total_cmp);
    let at = |q: f64| all.get((q * all.len().saturating_sub(1) as f64) as usize).copied().unwrap_or(0.0);
    let (low, high) = (at(0.005), at(0.995));
    let beyond = all.iter().filter(|value| **value < low || **value > high).count();
    let moved = |values: Vec<f64>| values.into_iter().map(|value| value.clamp(low, high)).collect();
    (sets.into_iter().map(|(name, values)| (name, moved(values))).collect(), beyond)
}

fn thinned(scores: &OodScores) -> Vec<(f64, f64)> {
    let curve = scores.roc_curve();
    let step = curve.len().div_ceil(ROC_POINTS).max(1);
    let last = curve.last().map(|point| (point.id_flagged, point.ood_caught));
    curve.iter().step_by(step).map(|point| (point.id_flagged, point.ood_caught)).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_far_images_do_not_squeeze_the_histogram() {
        let values: Vec<f64> = (0..999).map(f64::from).chain([1e9]).collect();
        let (sets, beyond) = within(vec![("id".to_owned(), values)]);
        let largest = sets[0].1.iter().copied().fold(0.0, f64::max);
        assert!((largest - 994.0).abs() < 1e-9 && beyond == 4 + 5, "{largest} {beyond}");
        assert_eq!(within(Vec::new()).1, 0);
    }
}
