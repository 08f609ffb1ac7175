//! How far a model can be trusted: the verdict first, then what it rests on.

mod classes;
mod confusion;
mod mistakes;
mod numbers;
mod verdict;

use std::path::Path;

use fidgp_decision::calibration::Calibration;
use fidgp_decision::decide::{number, percent};
use fidgp_decision::kept::Kept;
use fidgp_decision::trust::{Curve, Seen, Trust};
use maud::{Markup, html};

use super::html::{self, facts, figures, grid_of_numbers, page, section};
use super::write::{REPORT_FILE, Report, ReportError, Section};
use crate::charts::{Axis, Bar, Chart, Drawing, Layer, Shape};
use crate::record::{MeasuredOod, write_atomically};
use crate::words::format::grouped;

/// The documents that the page is made from.
#[derive(Debug, Clone)]
pub struct Documents {
    /// What was seen of the model.
    pub trust: Trust,
    /// Its rules.
    pub calibration: Calibration,
    /// A benchmark on out-of-distribution sets, of these weights.
    pub ood: Option<MeasuredOod>,
}

/// Every figure of the page has a file of one of these names beside it.
pub const FIGURES: [&str; 8] = [
    "trust-reliability",
    "trust-confidence",
    "trust-forecasts",
    "trust-coverage",
    "trust-risk-coverage",
    "trust-sets",
    "trust-epistemic",
    "trust-confusion",
];

/// The page of a model folder: `out` is the page (`….html`), or a folder that gets a `report.html`.
///
/// # Errors
/// When the disk fails.
pub fn write(found: &Documents, out: &Path) -> Result<Report, ReportError> {
    let is_page = out.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("html"));
    let html = if is_page { out.to_owned() } else { out.join(REPORT_FILE) };
    let parts = sections(found);
    let mut files = Vec::new();
    for figure in parts.iter().flat_map(|part| &part.figures) {
        let path = html.with_file_name(format!("{}.svg", figure.id));
        write_atomically(&path, figure.standalone().as_bytes())?;
        files.push(path);
    }
    let title = found.trust.model.name.clone();
    let body = html! {
        header { h1 { (title) } p.sub { "How far it can be trusted, and on what that rests." } (about(found)) }
        @for part in &parts {
            (section(&part.id, &part.heading, &part.lead, &html! {
                (part.body) @if !part.figures.is_empty() { (figures(&part.figures)) }
            }))
        }
        footer { "Written by fidgp. Every number on this page stands in trust.json, calibration.json or ood.json." }
    };
    write_atomically(&html, page(&title, &body).as_bytes())?;
    Ok(Report { html, figures: files })
}

fn about(found: &Documents) -> Markup {
    let Trust { model, examples, model_sha256, .. } = &found.trust;
    facts(&[
        ("Method", model.method.clone()),
        ("Trained on", model.data.clone()),
        ("Weight draws", found.calibration.draws.to_string()),
        ("Digest", model_sha256.chars().take(16).collect()),
        (
            "Examples",
            format!("{}: {} for the rules, {} to check them", examples.source, examples.fitted, examples.held_back),
        ),
    ])
}

/// The sections of the page; those of a run come after them.
pub fn sections(found: &Documents) -> Vec<Section> {
    let trust = &found.trust;
    let said = verdict::sentences(found);
    let body = html! { div.verdict { @for sentence in &said { p { (html::prose(sentence)) } } } };
    let mut parts = vec![part("verdict", "May I act on its predictions?", "", body, Vec::new()), promises(found)];
    parts.extend(match &trust.seen {
        Seen::Classes(seen) => classes::sections(found, seen),
        Seen::Numbers(seen) => numbers::sections(found, seen),
    });
    parts.push(part("epistemic", "Does it know what it does not know?", EPISTEMIC, html! {}, vec![epistemic(trust)]));
    parts.push(foreign(found));
    parts.push(mistakes::section(trust));
    if let Seen::Classes(seen) = &trust.seen {
        parts.push(classes::table(seen));
    }
    let body = html! { ul { @for what in verdict::untested(found) { li { (html::prose(&what)) } } } };
    parts.push(part("untested", "What was not tested", UNTESTED, body, Vec::new()));
    parts
}

const EPISTEMIC: &str =
    "Epistemic uncertainty comes from the weights. It should be larger for wrong answers, further to the right.";
const UNTESTED: &str = "This page says nothing about them.";

fn part(id: &str, heading: &str, lead: &str, body: Markup, figures: Vec<Drawing>) -> Section {
    let (id, heading, lead) = (format!("trust-{id}"), heading.to_owned(), lead.to_owned());
    Section { id, heading, lead, body, figures }
}

fn promises(found: &Documents) -> Section {
    let any = |kept: &Kept| kept.examples > 0;
    let row = |kept: &Kept| {
        vec![
            kept.promise.clone(),
            percent(kept.promised),
            if any(kept) { percent(kept.seen) } else { "–".to_owned() },
            if any(kept) {
                format!("{} … {}", percent(kept.interval.lo), percent(kept.interval.hi))
            } else {
                "–".to_owned()
            },
            kept.examples.to_string(),
            kept.mean_size.map_or_else(|| "–".to_owned(), number),
            if !any(kept) {
                "nothing to check"
            } else if kept.kept {
                "kept"
            } else {
                "NOT KEPT"
            }
            .to_owned(),
        ]
    };
    let heads = ["what", "guarantee", "seen", "95 % interval", "examples", "mean size", ""];
    let body = html! {
        (grid_of_numbers(&heads, found.calibration.check.iter().map(row)))
        @if !found.calibration.notes.is_empty() { ul { @for note in &found.calibration.notes { li { (note) } } } }
    };
    part("promises", "What is guaranteed, and what was seen", PROMISES, body, Vec::new())
}

const PROMISES: &str = "The guarantees hold for inputs like the examples. They were checked on examples that were held back. A \
    guarantee counts as not kept if a result this bad has a probability below 2.5 % when the guarantee is true.";

/// Risk against coverage by each uncertainty.
fn curves(trust: &Trust, risk: &str) -> Drawing {
    let line = |curve: &Curve| {
        (
            format!("by {} (AURC {})", curve.score, number(curve.aurc)),
            curve.points.iter().map(|&[x, y]| (x, y)).collect(),
        )
    };
    let (x, y) = (Axis::new("coverage: share answered, the surest first").range(0.0, 1.0), Axis::new(risk));
    Chart::line_chart("Risk against coverage", x, y, trust.curves.iter().map(line).collect())
        .sized(440.0, 340.0)
        .figure("trust-risk-coverage")
        .captioned(
            "Answer only the surest part of the inputs: how wrong is what is answered? The lower a curve, the better its \
             uncertainty puts mistakes last.",
        )
}

fn epistemic(trust: &Trust) -> Drawing {
    let found = &trust.epistemic;
    let share = |counts: &[usize]| {
        let all = counts.iter().sum::<usize>().max(1) as f64;
        counts.iter().map(|&count| count as f64 / all).collect::<Vec<_>>()
    };
    let bars = |counts: &[usize]| {
        let bar = |(edge, top): (&[f64], f64)| Bar { from: edge[0], to: edge[1], bottom: 0.0, top };
        found.edges.windows(2).zip(share(counts)).map(bar).collect::<Vec<_>>()
    };
    let outline = |counts: &[usize]| {
        let edge = |bar: Bar| [(bar.from, 0.0, bar.top), (bar.to, 0.0, bar.top)];
        Shape::Band(bars(counts).into_iter().flat_map(edge).collect())
    };
    let [right, wrong] = [&found.right, &found.wrong].map(|counts| counts.iter().sum::<usize>() as u64);
    Chart::new("Epistemic uncertainty", Axis::new("epistemic uncertainty"), Axis::new("share of each group"))
        .with(Layer::new("s0 step", outline(&found.right)).labelled(format!("right ({})", grouped(right))))
        .with(Layer::new("s1 step", outline(&found.wrong)).labelled(format!("wrong ({})", grouped(wrong))))
        .sized(720.0, 300.0)
        .figure("trust-epistemic")
        .captioned(format!("Wrong: {}. Values beyond the 99.5 % quantile stand in the last bin.", found.wrong_is))
}

fn foreign(found: &Documents) -> Section {
    let own = found.trust.foreign.iter().map(|set| {
        let of = |count: usize| {
            fidgp_decision::trust::share(count, set.inputs).map_or_else(
                |_| "–".to_owned(),
                |(share, interval)| format!("{} ({} … {})", percent(share), percent(interval.lo), percent(interval.hi)),
            )
        };
        vec![set.source.clone(), set.inputs.to_string(), of(set.found), of(set.accepted)]
    });
    let own: Vec<_> = own.collect();
    let body = html! {
        @if own.is_empty() {
            p { (html::prose("No out-of-distribution inputs were given. `fidgp calibrate --ood-inputs PATH` counts how many are found.")) }
        } @else {
            (grid_of_numbers(&["source", "inputs", "called out-of-distribution", "accepted all the same"], own.into_iter()))
        }
        @if let Some(ood) = &found.ood { h3 { "The benchmark of fidgp ood" } (benchmark(ood)) }
    };
    part("foreign", "What does it recognise as out-of-distribution?", FOREIGN, body, Vec::new())
}

const FOREIGN: &str = "By the rule that `fidgp predict` uses, with 95 % intervals.";

/// Of each score its AUROC on every set.
fn benchmark(ood: &MeasuredOod) -> Markup {
    let names: Vec<&str> = ood.sets.iter().map(|set| set.name.as_str()).collect();
    let heads: Vec<&str> = std::iter::once("score, AUROC in %").chain(names.iter().copied()).collect();
    let rows = ood.scores.iter().map(|score| {
        let cell =
            |name: &&str| score.sets.get(*name).map_or_else(|| "–".to_owned(), |m| format!("{:.2}", 100.0 * m.auroc));
        std::iter::once(score.name.clone()).chain(names.iter().map(cell)).collect()
    });
    let trivial =
        ood.sets.iter().filter(|set| !set.trivial.is_empty()).map(|set| set.name.as_str()).collect::<Vec<_>>();
    html! {
        p.lead { "How well each score ranks out-of-distribution pictures above those of " (ood.id) "; 50 is guessing." }
        @if ood.controls_skipped { p.warn { "Its controls were skipped: these numbers may not measure what they say." } }
        @if !trivial.is_empty() { p { "Told apart by plain pixels, so of little worth: " (trivial.join(", ")) "." } }
        (grid_of_numbers(&heads, rows))
    }
}
