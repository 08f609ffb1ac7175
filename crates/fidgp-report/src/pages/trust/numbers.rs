//! Numbers: predictions beside the truth, widths of intervals.

use fidgp_decision::decide::{number, percent};
use fidgp_decision::trust::{NumbersSeen, Third, Widths};
use maud::html;

use super::{Documents, curves, part};
use crate::pages::html::grid_of_numbers;
use crate::pages::run::forecasts;
use crate::pages::write::Section;
use crate::record::Forecasts;

pub fn sections(found: &Documents, seen: &NumbersSeen) -> Vec<Section> {
    let column = |of: fn(&fidgp_decision::trust::Forecast) -> f64| seen.forecasts.iter().map(of).collect::<Vec<_>>();
    let examples = &found.trust.examples;
    let data = Forecasts {
        rows: examples.fitted + examples.held_back,
        observed: column(|one| one.observed),
        mean: column(|one| one.mean),
        epistemic_sd: column(|one| one.epistemic_sd),
        noise_sd: column(|one| (one.sd * one.sd - one.epistemic_sd * one.epistemic_sd).max(0.0).sqrt()),
        coverage: seen.coverage.clone(),
    };
    let mut figures = forecasts::figures("trust", &data);
    figures.push(curves(&found.trust, "mean absolute error"));
    let lead = "All examples: those for the rules and those held back. The network was trained on none of them. Its own intervals, \
                before the rules widen or narrow them.";
    let heads = ["level", "5 %", "quarter", "median", "three quarters", "95 %"];
    let width = |one: &Widths| std::iter::once(percent(one.level)).chain(one.quantiles.map(number)).collect();
    let levels: Vec<String> =
        found.calibration.rules.intervals.iter().map(|one| format!("inside, {}", percent(one.level))).collect();
    let third = |(place, one): (usize, &Third)| {
        let name = ["sure", "less sure", "unsure"].get(place).copied().unwrap_or("unsure");
        let covered = one.covered.iter().map(|&hits| percent(hits as f64 / one.examples.max(1) as f64));
        let range = format!("{} … {}", number(one.from), number(one.to));
        [name.to_owned(), range, one.examples.to_string()].into_iter().chain(covered).collect()
    };
    let third_heads: Vec<&str> = ["third", "deviation of the prediction", "examples"]
        .into_iter()
        .chain(levels.iter().map(String::as_str))
        .collect();
    let body = html! {
        (grid_of_numbers(&heads, seen.widths.iter().map(width)))
        h3 { "Where it is sure, and where it is not" }
        p.lead { "The guarantee is for all inputs together. Where the model is unsure it may hold more often, and where it is sure less often." }
        (grid_of_numbers(&third_heads, seen.thirds.iter().enumerate().map(third)))
    };
    vec![
        part("quality", "How good, how calibrated", lead, html! {}, figures),
        part(
            "intervals",
            "How wide are the intervals?",
            "Quantiles of the width, on the examples held back.",
            body,
            Vec::new(),
        ),
    ]
}
