//! The mistakes that nobody would have checked.

use fidgp_decision::decide::{number, percent};
use fidgp_decision::trust::{Mistake, Trust};
use maud::{Markup, html};

use super::part;
use crate::pages::html::grid;
use crate::pages::write::Section;

pub fn section(trust: &Trust) -> Section {
    let body = if trust.mistakes.iter().any(|mistake| mistake.picture.is_some()) {
        html! { div.gallery { @for mistake in &trust.mistakes { (card(mistake)) } } }
    } else {
        let sure = |one: &Mistake| {
            let off = one.deviations.map(|off| format!("{} deviations", number(off)));
            off.or(one.confidence.map(percent)).unwrap_or_else(|| "–".to_owned())
        };
        let row = |one: &Mistake| {
            vec![
                one.input.clone(),
                one.said.clone(),
                one.truth.clone(),
                sure(one),
                number(one.epistemic),
                one.verdict.to_string(),
            ]
        };
        let how = if trust.mistakes.iter().any(|one| one.deviations.is_some()) { "off by" } else { "confidence" };
        grid(&["input", "it said", "true", how, "epistemic", "decision"], trust.mistakes.iter().map(row))
    };
    let lead =
        "Wrong, and sure of it. Look for wrong labels, and for a kind of input that the model does not understand.";
    part("mistakes", "The most confident mistakes", lead, body, Vec::new())
}

fn card(mistake: &Mistake) -> Markup {
    html! {
        figure.card {
            @if let Some(picture) = mistake.picture.as_deref().filter(|text| is_base64(text)) {
                img alt=(mistake.input) src=(format!("data:image/png;base64,{picture}"));
            }
            figcaption {
                strong { (mistake.said) }
                @if let Some(confidence) = mistake.confidence { " " (percent(confidence)) }
                br;
                "labelled " strong { (mistake.truth) } br;
                (mistake.verdict.to_string()) ", epistemic " (number(mistake.epistemic))
                small { (mistake.input) }
            }
        }
    }
}

/// A document may be a stranger's: nothing but base64 goes into an address.
fn is_base64(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
}
