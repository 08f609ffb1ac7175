//! The page of a comparison: what differs, what it costs, and who is beaten by nobody.

use std::collections::BTreeSet;

use fidgp_metrics::names;
use maud::{Markup, html};

use super::html::grid_of_numbers;
use super::write::{ReportError, Run, Section, write_sections};
use crate::charts::{Axis, Chart, Drawing, Layer, Marker, Shape, series_class};
use crate::record::comparison::{Comparison, Contender, Difference, Differing, Failed, Spread};
use crate::words::format;
use crate::words::metric::{Better, words};

/// Writes `report.html` with the sections of the comparison before those of the runs.
///
/// # Errors
/// When the disk fails.
pub fn write(comparison: &Comparison, runs: &[Run]) -> Result<(), ReportError> {
    let mut sections = vec![cost(&comparison.contenders)];
    sections.extend(failed(&comparison.failed));
    sections.extend(tempered(&comparison.contenders));
    sections.extend(ood(&comparison.contenders));
    if !comparison.differences.is_empty() {
        sections.push(significance(&comparison.differences));
    }
    if !comparison.settings.is_empty() {
        sections.push(settings(comparison));
    }
    let figures = pareto(&comparison.contenders);
    if !figures.is_empty() {
        sections.push(Section {
            id: "pareto".to_owned(),
            heading: "Size against quality".to_owned(),
            lead: "Left and low is better. The line joins those that no other beats in both; whiskers are one standard deviation over seeds. Parameters are trainable numbers; what a method stores beside them is in the table of costs.".to_owned(),
            body: Markup::default(),
            figures,
        });
    }
    write_sections(runs, &sections, &comparison.page)?;
    Ok(())
}

fn cost(contenders: &[Contender]) -> Section {
    let rows = contenders.iter().map(|contender| {
        let seconds = contender.train_seconds;
        vec![
            contender.name.clone(),
            format::grouped(contender.parameters),
            format::bytes(contender.bytes),
            contender.passes.to_string(),
            format::short(contender.macs as f64),
            seconds.map_or("–".to_owned(), |seconds| format::seconds(seconds.mean)),
            contender.relative_training.map_or("–".to_owned(), |times| format!("{times:.2}×")),
        ]
    });
    let head = ["config", "parameters", "stored", "passes", "MACs per prediction", "training", "against the first"];
    Section {
        id: "compared-cost".to_owned(),
        heading: "What each costs".to_owned(),
        lead: "A prediction is the mean over its passes: weight draws or members. Training times are measured, mean over seeds.".to_owned(),
        body: grid_of_numbers(&head, rows),
        figures: Vec::new(),
    }
}

/// Configs that are not compared, and why.
fn failed(failed: &[Failed]) -> Option<Section> {
    let row = |one: &Failed| vec![one.name.clone(), one.seed.to_string(), one.why.clone()];
    (!failed.is_empty()).then(|| Section {
        id: "failed".to_owned(),
        heading: "Not compared".to_owned(),
        lead: "Configs with a run that failed by itself. The rest is compared without them.".to_owned(),
        body: grid_of_numbers(&["config", "seed", "what happened"], failed.iter().map(row)),
        figures: Vec::new(),
    })
}

/// NLL, calibration and Brier score as trained and with a temperature.
fn tempered(contenders: &[Contender]) -> Option<Section> {
    let cell = |spread: Option<&Spread>| spread.map_or("–".to_owned(), Spread::to_string);
    let row = |one: &Contender| {
        let with = one.tempered.as_ref()?;
        let edge = if with.at_edge { " (none: the best is beyond its range)" } else { "" };
        let both = TEMPERED.map(|metric| [cell(one.metrics.get(metric)), cell(with.metrics.get(metric))]);
        let mut cells = vec![one.name.clone(), format!("{}{edge}", with.temperature)];
        cells.extend(both.into_iter().flatten());
        Some(cells)
    };
    let rows: Vec<_> = contenders.iter().filter_map(row).collect();
    let heads: Vec<_> = TEMPERED.iter().flat_map(|metric| [(*metric).to_owned(), "with T".to_owned()]).collect();
    let head: Vec<_> = ["config", "temperature T"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    (!rows.is_empty()).then(|| Section {
        id: "tempered".to_owned(),
        heading: "With a temperature".to_owned(),
        lead: "What is left of a difference when every network may divide its logits by one number, fitted on its validation \
               examples. Test metrics as trained, and with it; accuracy of a single network does not change."
            .to_owned(),
        body: grid_of_numbers(&head, rows.into_iter()),
        figures: Vec::new(),
    })
}

/// What a temperature changes.
pub const TEMPERED: [&str; 3] = [names::CLS_NLL, names::CAL_ECE, names::CLS_BRIER];

/// Scores on the page, where a config has them; the document has all.
const SCORES: [&str; 6] = ["msp", "energy", "mutual-information", "ddu", "residual+energy", "subspace+energy"];

fn ood(contenders: &[Contender]) -> Option<Section> {
    let sets: BTreeSet<&String> = contenders.iter().flat_map(|contender| contender.ood.keys()).collect();
    if sets.is_empty() && contenders.iter().all(|contender| contender.ood_left_out.is_empty()) {
        return None;
    }
    let columns: Vec<_> = sets.iter().flat_map(|set| SCORES.map(|score| (set.as_str(), score))).collect();
    let of = |contender: &Contender, (set, score): &(&str, &str)| {
        contender.ood.get(*set).and_then(|scores| scores.get(*score).copied())
    };
    let columns: Vec<_> = columns.into_iter().filter(|at| contenders.iter().any(|one| of(one, at).is_some())).collect();
    let heads: Vec<_> = columns.iter().map(|(set, score)| format!("{set}: {score}")).collect();
    let head: Vec<&str> = std::iter::once("config").chain(heads.iter().map(String::as_str)).collect();
    let percent = |spread: Spread| match spread.sd {
        Some(sd) => format!("{:.1} ± {:.1}", 100.0 * spread.mean, 100.0 * sd),
        None => format!("{:.1}", 100.0 * spread.mean),
    };
    let rows = contenders.iter().map(|contender| {
        let cells = columns.iter().map(|at| of(contender, at).map_or("–".to_owned(), percent));
        std::iter::once(contender.name.clone()).chain(cells).collect()
    });
    Some(Section {
        id: "compared-ood".to_owned(),
        heading: "Out of distribution".to_owned(),
        lead: "AUROC in per cent, mean over seeds; by the benchmark of fidgp ood, after its controls. Networks as they were \
               trained, like their results: without a temperature of fidgp calibrate. Why there is a dash stands below."
            .to_owned(),
        body: html! { (grid_of_numbers(&head, rows)) (left_out(contenders)) },
        figures: Vec::new(),
    })
}

/// Why configs do not have scores, as their benchmarks say it.
fn left_out(contenders: &[Contender]) -> Markup {
    html! {
        ul { @for one in contenders { @for why in &one.ood_left_out { li { (one.name) ": " (why) } } } }
    }
}

fn significance(differences: &[Difference]) -> Section {
    let rows = differences.iter().map(|difference| {
        let interval = difference.interval.map_or("–".to_owned(), |interval| {
            format!("{} … {}", format::plain(interval.lo), format::plain(interval.hi))
        });
        vec![
            difference.name.clone(),
            difference.metric.clone(),
            format::plain(difference.mean),
            interval,
            format!("{} {}", difference.pairs, difference.units.word()),
            verdict(difference).to_owned(),
        ]
    });
    let reference = differences.first().map_or("", |difference| difference.reference.as_str());
    let head = ["config", "metric", "difference", "95 % interval", "pairs", "in words"];
    Section {
        id: "differences".to_owned(),
        heading: format!("Differences from {reference}"),
        lead: "Paired. Over splits or test examples, each averaged over seeds, chance is that of the data: another test set. Over \
               seeds it is that of the training: the same once more. Believe a difference that both show. Intervals are Student's t \
               below 30 pairs, over splits widened for the rows that they share (Nadeau & Bengio 2003), from 30 on a bootstrap of 2000 resamples; they are not corrected for the number of comparisons."
            .to_owned(),
        body: grid_of_numbers(&head, rows),
        figures: Vec::new(),
    }
}

fn settings(comparison: &Comparison) -> Section {
    let names = comparison.contenders.iter().map(|contender| contender.name.as_str());
    let head: Vec<&str> = std::iter::once("key").chain(names).collect();
    let row = |one: &Differing| {
        let values = one.values.iter().map(|value| value.clone().unwrap_or("–".to_owned()));
        std::iter::once(one.key.clone()).chain(values).collect()
    };
    Section {
        id: "settings".to_owned(),
        heading: "Settings that differ".to_owned(),
        lead: "Keys with other values in some configs, or only in some, beside what is a method's own. A dash: the config has no \
               such key."
            .to_owned(),
        body: grid_of_numbers(&head, comparison.settings.iter().map(row)),
        figures: Vec::new(),
    }
}

/// What a difference says.
pub fn verdict(difference: &Difference) -> &'static str {
    match (difference.is_significant(), words(&difference.metric).better) {
        (None, _) => "too few pairs",
        (Some(false), _) => "no difference shown",
        (Some(true), Better::Neither) => "differs",
        (Some(true), better) => {
            if (difference.mean > 0.0) == (better == Better::Higher) {
                "better"
            } else {
                "worse"
            }
        }
    }
}

fn pareto(contenders: &[Contender]) -> Vec<Drawing> {
    let metrics = [names::CLS_NLL, names::SEG_NLL, names::CAL_ECE, names::REG_NLL, names::REG_RMSE];
    metrics.into_iter().filter_map(|metric| pareto_of(contenders, metric)).collect()
}

fn pareto_of(contenders: &[Contender], metric: &str) -> Option<Drawing> {
    let points: Vec<_> = contenders
        .iter()
        .filter_map(|contender| Some((contender, contender.parameters as f64, *contender.metrics.get(metric)?)))
        .collect();
    if points.len() < 2 {
        return None;
    }
    let mut chart =
        Chart::new(format!("Parameters against {metric}"), Axis::new("parameters").log(), Axis::new(metric));
    let front = front(&points.iter().map(|(_, x, y)| (*x, y.mean)).collect::<Vec<_>>());
    chart = chart.with(Layer::new("diagonal", Shape::Line(front)).labelled("beaten by none"));
    for (index, (contender, x, y)) in points.iter().enumerate() {
        let class = series_class(index);
        if let Some(sd) = y.sd {
            chart = chart.with(Layer::new(class.clone(), Shape::ErrorBars(vec![(*x, y.mean, sd)])));
        }
        let point = Shape::Points(vec![(*x, y.mean)], Marker::of(index));
        chart = chart.with(Layer::new(class, point).labelled(&contender.name));
    }
    let id = format!("pareto-{}", metric.replace('/', "-").to_lowercase());
    Some(chart.sized(620.0, 380.0).figure(&id).captioned(words(metric).meaning))
}

/// The points that no other beats or equals in both, from left to right.
fn front(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut best = f64::INFINITY;
    sorted.retain(|&(_, y)| {
        let kept = y < best;
        best = best.min(y);
        kept
    });
    sorted
}

#[cfg(test)]
mod tests {
    use super::front;

    #[test]
    fn the_front_is_what_nobody_beats_in_both() {
        let points = [(3.0, 1.0), (1.0, 5.0), (2.0, 6.0), (2.0, 2.0), (4.0, 1.0)];
        assert_eq!(front(&points), [(1.0, 5.0), (2.0, 2.0), (3.0, 1.0)]);
    }
}
