//! How much of the uncertainty is epistemic, and what is wrong with it.

use maud::{Markup, html};

use crate::pages::finished::Run;

/// A paragraph for each run that says so, with its warnings.
pub fn body(runs: &[&Run], names: &[String]) -> Markup {
    let said = runs
        .iter()
        .zip(names)
        .filter_map(|(run, name)| Some((run.results.uncertainty.as_ref()?, name, run.results.predicts_with.as_ref())));
    let said: Vec<_> = said.collect();
    html! {
        @if !said.is_empty() { h3 { "Epistemic uncertainty" } }
        @for (uncertainty, name, law) in said {
            p {
                @if runs.len() > 1 { (name) ": " }
                (uncertainty.sentence()) "."
                @if let Some(law) = law { " Predicted with the " (law) "." }
            }
            @for warning in &uncertainty.warnings { p.warn { "Warning: " (warning) "." } }
        }
    }
}
