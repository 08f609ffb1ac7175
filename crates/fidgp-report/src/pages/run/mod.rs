//! The page of finished runs, section by section.

/// Figures of a classification: reliability, confidence, risk against coverage.
pub mod classification;
/// Figures of a table: predicted against true numbers, coverage.
pub mod forecasts;
/// One-dimensional regression with its bands.
pub mod regression;

mod bands;
mod columns;
mod naming;
mod segmentation;
mod side_by_side;
mod tables;
mod training;
mod uncertainty;
mod verdict;

use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::record::{self, MetricNotes, Results};

use crate::charts::Drawing;
use crate::pages::finished::{Run, Section};
use crate::pages::html::{self, folded, section};
use crate::words::slug;
use naming::{by_data, headings};

/// The document and its figures.
pub fn build(runs: &[Run], sections: &[Section]) -> (String, Vec<Drawing>) {
    let headings = headings(runs);
    let mut parts = Parts { body: vec![header(runs)], figures: Vec::new() };
    for own in sections {
        let body = html! { (own.body) @if !own.figures.is_empty() { (html::figures(&own.figures)) } };
        parts.body.push(section(&own.id, &own.heading, &own.lead, &body));
        parts.figures.extend(own.figures.iter().cloned());
    }
    if let [only] = runs {
        parts.drawn(&[only], &headings); // one run: the picture first, it says most
    }
    for (data, members) in by_data(runs) {
        parts.measured(data, runs, &members, &headings);
    }
    parts.cost(runs, &headings);
    if runs.len() > 1 {
        parts.drawn(&runs.iter().collect::<Vec<_>>(), &headings);
    }
    parts.training(runs, &headings);
    parts.reproduce(runs, &headings);
    let body = html! {
        @for part in &parts.body { (part) }
        footer { "Written by fidgp. Every number on this page stands in the results.json of its run." }
    };
    (html::page(&title(runs), &body), parts.figures)
}

struct Parts {
    body: Vec<Markup>,
    figures: Vec<Drawing>,
}

impl Parts {
    fn add_figures(&mut self, id: &str, heading: &str, lead: &str, figures: Vec<Drawing>) {
        if !figures.is_empty() {
            self.body.push(section(id, heading, lead, &html::figures(&figures)));
            self.figures.extend(figures);
        }
    }

    /// The metrics of all runs on one data set, side by side.
    fn measured(&mut self, data: &str, runs: &[Run], members: &[usize], headings: &[String]) {
        let own: Vec<&Run> = members.iter().map(|&i| &runs[i]).collect();
        let name = |&i: &usize| if runs.len() == 1 { "value".to_owned() } else { headings[i].clone() };
        let names: Vec<String> = members.iter().map(name).collect();
        let columns = columns::of_runs(&own, &names);
        let notes: MetricNotes = own.iter().flat_map(|run| run.results.metric_notes.clone()).collect();
        let seeds = columns::over_seeds(&own);
        let figures = side_by_side::figures(&slug(data), if seeds.is_empty() { &columns } else { &seeds });
        let body = html! {
            (tables::metrics(&columns, &notes))
            @if !seeds.is_empty() { h3 { "Over seeds" } (tables::metrics(&seeds, &notes)) }
            @if !figures.is_empty() { h3 { "Side by side" } p.lead { (side_by_side::LEAD) } (html::figures(&figures)) }
            (uncertainty::body(&own, &names))
        };
        let lead =
            "Measured on the test set. Arrows show which way is better; where several runs compete, the best is bold.";
        self.body.push(section(&format!("metrics-{}", slug(data)), &format!("Results on {data}"), lead, &body));
        self.figures.extend(figures);
    }

    fn cost(&mut self, runs: &[Run], headings: &[String]) {
        let rows: Vec<(&str, &Results)> =
            headings.iter().map(String::as_str).zip(runs.iter().map(|run| &run.results)).collect();
        let lead = "Parameters are trainable numbers; a multiply-accumulate (MAC) is one product added to a sum. Times are \
                    wall-clock, on the hardware named above.";
        self.body.push(section("cost", "Cost", lead, &tables::cost(&rows)));
    }

    fn drawn(&mut self, runs: &[&Run], headings: &[String]) {
        for (run, heading) in runs.iter().zip(headings) {
            let id = slug(heading);
            let ratio = run.results.metrics.get("reg/EpistemicSD_gap_ratio").copied().flatten();
            let figures = run.results.figures.iter().enumerate().flat_map(|(i, figure)| {
                let id = if i == 0 { id.clone() } else { format!("{id}-{}", i + 1) };
                match figure {
                    record::Figure::Regression1d(data) => {
                        vec![regression::figure(&format!("{id}-regression"), data, ratio)]
                    }
                    record::Figure::Forecasts(data) => forecasts::figures(&id, data),
                    record::Figure::Classification(data) => classification::figures(&id, data),
                    record::Figure::Segmentation(data) => classification::figures(&id, &data.pixels),
                }
            });
            let heading = if runs.len() == 1 { "Figures" } else { heading };
            self.add_figures(&format!("figures-{id}"), heading, "", figures.collect());
            for figure in &run.results.figures {
                if let record::Figure::Segmentation(data) = figure {
                    let lead = "The figures above count pixels; void pixels are left out everywhere.";
                    let title = if runs.len() == 1 { "Segmentation" } else { heading };
                    let body = segmentation::body(data, &run.maps);
                    self.body.push(section(&format!("segmentation-{id}"), title, lead, &body));
                }
            }
        }
    }

    fn training(&mut self, runs: &[Run], headings: &[String]) {
        let epochs: Vec<_> =
            headings.iter().map(String::as_str).zip(runs.iter().map(|run| run.epochs.as_slice())).collect();
        let lead =
            "After each epoch, from metrics.jsonl. The two KL terms are shown apart: they answer different questions.";
        self.add_figures("training", "Training", lead, training::figures(&epochs));
    }

    fn reproduce(&mut self, runs: &[Run], headings: &[String]) {
        let config = |run: &Run| serde_json::to_string_pretty(&run.results.config).unwrap_or_default();
        let body = html! {
            @for (run, heading) in runs.iter().zip(headings) {
                h3 { (heading) }
                pre { (command(&run.results)) }
                (folded("The resolved configuration, defaults included", &html! { pre { (config(run)) } }))
            }
        };
        let lead = "Same commit, same command, same seed: on the CPU the same numbers.";
        self.body.push(section("reproduce", "How to reproduce", lead, &body));
    }
}

fn command(results: &Results) -> String {
    let command = results.command.as_deref().unwrap_or("fidgp train run.toml");
    let checkout = match results.commit.strip_suffix("-dirty") {
        Some(commit) => format!("git checkout {commit}   # the source had changes that were not committed"),
        None if results.commit == "unknown" => "# the commit was not recorded".to_owned(),
        None => format!("git checkout {}", results.commit),
    };
    format!("{checkout}\n{command}")
}

fn title(runs: &[Run]) -> String {
    match runs {
        [only] => only.results.name.clone(),
        _ => format!("{} runs: {}", runs.len(), by_data(runs).keys().copied().collect::<Vec<_>>().join(", ")),
    }
}

fn header(runs: &[Run]) -> Markup {
    let distinct = |of: &dyn Fn(&Results) -> String| {
        let values: BTreeSet<String> = runs.iter().map(|run| of(&run.results)).collect();
        values.into_iter().collect::<Vec<_>>().join(", ")
    };
    let facts = [
        ("Method", distinct(&|results| results.method.clone())),
        ("Data", distinct(&|results| results.data.clone())),
        ("Seed", distinct(&|results| results.seed.to_string())),
        ("Commit", distinct(&|results| results.commit.clone())),
        ("Hardware", distinct(&hardware)),
        ("Engine", distinct(&|results| results.hardware.engine.clone())),
    ];
    html! {
        header {
            h1 { (title(runs)) }
            p.sub { "What the network predicts, how sure it is, and whether it is right to be." }
            (html::facts(&facts))
        }
    }
}

fn hardware(results: &Results) -> String {
    let hardware = &results.hardware;
    let gpu = hardware.gpu.as_ref().map_or(String::new(), |gpu| format!("{gpu}; "));
    let threads = if hardware.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", hardware.threads) };
    format!("{gpu}{}, {threads}, {} GiB", hardware.cpu, hardware.memory_gib)
}
