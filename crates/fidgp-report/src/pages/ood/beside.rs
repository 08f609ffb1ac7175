//! What a benchmark's page shows beside its table: the released script's procedure, and the paper's lemma as measured.

use maud::{Markup, html};

use super::{percent, row, table};
use crate::pages::html::{folded, section};
use crate::record::OodDocument;

/// The released script's procedure under its null control.
pub(super) fn protocol(document: &OodDocument) -> Markup {
    let Some(paper) = &document.paper_protocol else { return Markup::default() };
    let heads = std::iter::once("AUROC, %".to_owned())
        .chain((1..=paper.null.len()).map(|repeat| format!("repeat {repeat}")))
        .chain(["must be".to_owned()]);
    let line = |name: &str, values: &[f64], (must, class): (&str, &'static str)| {
        let cells = values.iter().map(|value| (percent(*value), class));
        row(name, cells.chain([(must.to_owned(), class)]))
    };
    let class = if paper.passed { "number" } else { "number warn" };
    let must = if paper.passed { "50.00: held" } else { "50.00: FAILED" };
    let null = line(&format!("null: {0} against {0}", document.id), &paper.null, (must, class));
    let sets = paper.sets.iter().map(|(name, values)| line(name, values, ("", "number")));
    let rows = table(heads, std::iter::once(null).chain(sets));
    let verdict = if paper.passed {
        "The null control held: this posterior is narrow enough for the draws not to matter."
    } else {
        "The null control FAILED: the same images, scored twice by this procedure, are told apart. What the rows below it show is \
         therefore the draw of U as much as the images, and none of these numbers may be read as a detection rate."
    };
    let body = html! { p class=[(!paper.passed).then_some("warn")] { (verdict) } (rows) };
    let lead = format!(
        "What the paper's released script does, on {} images a set at {}: a new draw of U and a normalisation of its own for each \
         set, and a small network trained for one step. Every repeat is the whole procedure with other draws.",
        paper.images,
        paper.layers.join(", ")
    );
    section("protocol", "The released script's procedure, and its null control", &lead, &body)
}

/// The lemma, layer by layer.
pub(super) fn lemma(document: &OodDocument) -> Markup {
    let Some(measured) = &document.spectral else { return Markup::default() };
    let heads = [
        "layer, set",
        "‖E‖ bound",
        "‖E‖ measured",
        "S(ID)",
        "S(OoD)",
        "S(OoD) > 2‖E‖",
        "d(ID) 5 %, 50 %, 95 %",
        "d(OoD) 5 %, 50 %, 95 %",
        "inf d(OoD) − sup d(ID)",
        "5 % − 95 %",
        "separated",
        "AUROC of d",
    ];
    let number = |value: f64| (format!("{value:.4}"), "number");
    let three = |d: &[f64; 5]| (format!("{:.3}, {:.3}, {:.3}", d[1], d[2], d[3]), "number");
    let verdict = |held: bool| if held { ("pass".to_owned(), "") } else { ("fail".to_owned(), "warn") };
    let mut rows = Vec::new();
    for layer in &measured.layers {
        for set in &layer.sets {
            let cells = [
                number(layer.noise_bound),
                number(layer.noise_measured),
                number(layer.id.s_least),
                number(set.residuals.s_least),
                verdict(set.inequality),
                three(&layer.id.d),
                three(&set.residuals.d),
                number(set.margin),
                number(set.quantile_margin),
                verdict(set.separated),
                (percent(set.auroc), "number"),
            ];
            rows.push(row(format!("{}, {}", layer.name, set.name), cells));
        }
    }
    let lead = format!(
        "x is a layer's mean patch at length one, s(x) what the leading directions of its mean weight leave of the output, d(x) the \
         same with one draw of the noise E; S is the least s of a set. At most {} images a set.",
        measured.images
    );
    let body = html! { p { (measured.says) } (folded("Every layer and set", &table(heads, rows))) };
    section("lemma", "The paper's lemma, as measured", &lead, &body)
}
