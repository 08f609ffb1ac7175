//! Classes: reliability, sets, each class by itself.

use fidgp_decision::decide::percent;
use fidgp_decision::trust::{ClassRow, ClassesSeen, SetSizes, share};
use maud::{Markup, html};

use super::{Documents, confusion, curves, part};
use crate::charts::{Axis, Bar, Chart, Drawing, Layer, Shape, series_class};
use crate::pages::html::{folded, grid_of_numbers};
use crate::pages::run::classification;
use crate::pages::write::Section;
use crate::record::{Classification, ConfidenceHistogram};

/// Classes that are shown unfolded: the worst.
const SHOWN: usize = 12;
/// Set sizes that are drawn one by one; larger ones share the last bar.
const MOST: usize = 20;

pub fn sections(found: &Documents, seen: &ClassesSeen) -> Vec<Section> {
    let figure = Classification {
        confidence: ConfidenceHistogram::of(&seen.reliability),
        reliability: seen.reliability.clone(),
        risk_coverage: Vec::new(),
    };
    let mut figures = classification::figures("trust", &figure);
    figures.truncate(2); // its third is ours, by several uncertainties
    figures.push(curves(&found.trust, "share of wrong answers"));
    let lead = "All examples: those for the rules and those held back. The network was trained on none of them.";
    let sets = if seen.sizes.is_empty() { Vec::new() } else { vec![sizes(&seen.sizes)] };
    vec![
        part("quality", "How good, how calibrated", lead, html! {}, figures),
        part("sets", "How large are the sets?", SETS, html! {}, sets),
    ]
}

const SETS: &str = "A set holds the classes that cannot be ruled out. One class is an answer; many mean that the model does not know. \
    Counted on the examples held back.";

fn sizes(all: &[SetSizes]) -> Drawing {
    let last = all.iter().map(|sizes| sizes.counts.len()).max().unwrap_or(1).min(MOST + 1);
    let width = 0.8 / all.len().max(1) as f64;
    let mut chart = Chart::new(
        "Sizes of the sets",
        Axis::new(if last > MOST {
            format!("classes in the set ({MOST} or more in the last bar)")
        } else {
            "classes in the set".to_owned()
        })
        .range(-0.6, last as f64 - 0.4),
        Axis::new("share of the sets"),
    );
    for (place, sizes) in all.iter().enumerate() {
        let total = sizes.counts.iter().sum::<usize>().max(1) as f64;
        let mut counts = vec![0; last];
        for (size, count) in sizes.counts.iter().enumerate() {
            counts[size.min(last - 1)] += count;
        }
        let from = |size: usize| size as f64 - 0.4 + place as f64 * width;
        let bar = |(size, count): (usize, usize)| Bar {
            from: from(size),
            to: from(size) + width,
            bottom: 0.0,
            top: count as f64 / total,
        };
        let class = if place == 1 { "gap".to_owned() } else { series_class(place) };
        let bars = Shape::Bars(counts.into_iter().enumerate().map(bar).collect());
        chart = chart.with(Layer::new(class, bars).labelled(format!("level {}", percent(sizes.level))));
    }
    let caption = "The sets of a higher level are larger. An empty set means that no class fits: the input is unlike the examples.";
    chart.sized(720.0, 300.0).figure("trust-sets").captioned(caption)
}

/// Each class by itself, the worst first, and what is taken for what.
pub fn table(seen: &ClassesSeen) -> Section {
    let levels: Vec<f64> = seen.sizes.iter().map(|sizes| sizes.level).collect();
    let recall = |row: &ClassRow| row.right as f64 / row.examples.max(1) as f64;
    let mut order: Vec<usize> = (0..seen.by_class.len()).filter(|&class| seen.by_class[class].examples > 0).collect();
    order.sort_by(|&a, &b| recall(&seen.by_class[a]).total_cmp(&recall(&seen.by_class[b])));
    let row = |&class: &usize| cells(&seen.classes[class], &seen.by_class[class], levels.len());
    let heads: Vec<String> = ["class", "examples", "recognised", "precision", "held back"]
        .map(str::to_owned)
        .into_iter()
        .chain(levels.iter().map(|level| format!("in the set, {} (size)", percent(*level))))
        .collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let (worst, rest) = order.split_at(order.len().min(SHOWN));
    let body = html! {
        (spread(seen))
        (grid_of_numbers(&heads, worst.iter().map(row)))
        @if !rest.is_empty() {
            (folded(&format!("The other {} classes", rest.len()), &grid_of_numbers(&heads, rest.iter().map(row))))
        }
        h3 { "What is taken for what" }
        (confusion::table(seen))
    };
    let figures = confusion::figure(seen).into_iter().collect();
    part("classes", "Each class by itself", CLASSES, body, figures)
}

const CLASSES: &str = "The worst first. Recognised: of the examples of the class, how many were given it. Precision: of those that were \
    given it, how many are of it. In the set: coverage on the examples held back, few for each class, and in brackets the mean number of classes in their sets.";

fn cells(name: &str, row: &ClassRow, levels: usize) -> Vec<String> {
    let of = |hits: usize, all: usize| if all > 0 { percent_short(hits as f64 / all as f64) } else { "–".to_owned() };
    let covered = |level: usize| {
        if row.held_back == 0 {
            return "–".to_owned();
        }
        let size = row.set_sizes[level] as f64 / row.held_back as f64;
        format!("{} ({size:.1})", of(row.covered[level], row.held_back))
    };
    let first = [
        name.to_owned(),
        row.examples.to_string(),
        of(row.right, row.examples),
        of(row.right, row.said),
        row.held_back.to_string(),
    ];
    first.into_iter().chain((0..levels).map(covered)).collect()
}

fn percent_short(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// How far coverage differs between classes, beyond what so few examples leave to chance.
fn spread(seen: &ClassesSeen) -> Markup {
    let low = |place: usize, level: f64| {
        seen.by_class
            .iter()
            .filter(|row| row.held_back > 0)
            .filter(|row| share(row.covered[place], row.held_back).is_ok_and(|(_, interval)| interval.hi < level))
            .count()
    };
    html! {
        @for (place, sizes) in seen.sizes.iter().enumerate() {
            p {
                "Level " (percent(sizes.level)) ": " (low(place, sizes.level)) " of " (seen.by_class.len())
                " classes are covered less often than that beyond chance (95 % interval of each; one in forty by chance)."
            }
        }
    }
}
