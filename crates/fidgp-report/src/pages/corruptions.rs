//! A classifier on images that were made worse: tables and figures.

use std::path::{Path, PathBuf};

use maud::{Markup, html};

use super::html::{figures, grid, page, section};
use crate::charts::{Axis, Chart, Drawing, stacked};
use crate::record::corruptions::{Corruptions, Level};
use crate::record::{Result, write_atomically, write_json};

/// Column heads of [`rows`], after the severity.
pub const HEADS: [&str; 5] = ["accuracy %", "NLL", "ECE %", "epistemic", "total"];

type Value = fn(&Level) -> f64;

/// What is drawn: title, axis and value.
const CURVES: [(&str, &str, Value); 4] = [
    ("Accuracy", "%", |level| 100.0 * level.accuracy),
    ("NLL", "nats", |level| level.nll),
    ("Expected calibration error", "%", |level| 100.0 * level.ece),
    ("Mean epistemic uncertainty", "nats", |level| level.epistemic),
];

/// A row for the images as they are, severity 0, and for the mean over the corruptions of each severity.
pub fn rows(document: &Corruptions) -> Vec<Vec<String>> {
    let all = std::iter::once(&document.clean).chain(&document.mean).enumerate();
    all.map(|(severity, level)| std::iter::once(severity.to_string()).chain(cells(level)).collect()).collect()
}

fn cells(level: &Level) -> [String; 5] {
    [
        format!("{:.1}", 100.0 * level.accuracy),
        format!("{:.3}", level.nll),
        format!("{:.1}", 100.0 * level.ece),
        format!("{:.4}", level.epistemic),
        format!("{:.3}", level.total),
    ]
}

/// Writes `corruptions.json`, `report.html` and `corruptions.svg` into a folder.
///
/// # Errors
/// When the disk fails.
pub fn write(document: &Corruptions, out: &Path) -> Result<PathBuf> {
    write_json(&out.join("corruptions.json"), document)?;
    let drawn = drawn(document);
    write_atomically(&out.join("corruptions.svg"), drawn.standalone().as_bytes())?;
    let html = out.join("report.html");
    write_atomically(&html, page(&title(document), &body(document, &drawn)).as_bytes())?;
    Ok(html)
}

fn title(document: &Corruptions) -> String {
    format!("Corrupted images: {}", document.model)
}

fn drawn(document: &Corruptions) -> Drawing {
    let chart = |&(title, unit, value): &(&str, &str, Value)| {
        let curve = |levels: &[Level]| {
            let all = std::iter::once(&document.clean).chain(levels).enumerate();
            all.map(|(severity, level)| (severity as f64, value(level))).collect::<Vec<_>>()
        };
        let mut series = vec![("mean".to_owned(), curve(&document.mean))];
        series.extend(document.corruptions.iter().map(|one| (one.name.clone(), curve(&one.severities))));
        Chart::line_chart(title, Axis::new("severity"), Axis::new(unit), series).sized(620.0, 300.0)
    };
    let charts: Vec<_> = CURVES.iter().map(chart).collect();
    stacked("corruptions", &title(document), &charts)
        .captioned("Severity 0: the images as they are. An uncertainty that can be relied on rises as accuracy falls.")
}

fn body(document: &Corruptions, drawing: &Drawing) -> Markup {
    let intro = format!(
        "{} images of {}, seed {}. {}; {}. Commit {}. {}",
        document.images,
        document.set,
        document.seed,
        document.method,
        document.basis,
        document.commit,
        document.command.as_deref().unwrap_or_default()
    );
    let lead = "The protocol of CIFAR-C (Hendrycks & Dietterich 2019): five severities of each corruption. Formulas and \
                strengths are ours, so the numbers are not those of the published files.";
    let heads: Vec<_> = std::iter::once("severity").chain(HEADS).collect();
    let each = document.corruptions.iter().flat_map(|one| {
        let rows = one.severities.iter().enumerate();
        rows.map(|(place, level)| {
            let name = if place == 0 { one.name.clone() } else { String::new() };
            [name, (place + 1).to_string()].into_iter().chain(cells(level)).collect::<Vec<_>>()
        })
    });
    let long: Vec<_> = ["corruption", "severity"].into_iter().chain(HEADS).collect();
    let mean = html! { (grid(&heads, rows(document).into_iter())) (figures(std::slice::from_ref(drawing))) };
    let about = html! {
        (grid(&long, each))
        ul { @for one in &document.corruptions { li { (one.name) ": " (one.about) } } }
    };
    html! {
        header { h1 { (title(document)) } p { (intro) } }
        (section("mean", "Mean over the corruptions", lead, &mean))
        (section("each", "Each corruption", "", &about))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Hardware;
    use crate::record::corruptions::{CORRUPTIONS_SCHEMA, Corrupted};

    fn level(accuracy: f64) -> Level {
        Level { accuracy, nll: 1.0 - accuracy, ece: 0.1, total: 0.5, epistemic: 0.02 }
    }

    #[test]
    fn a_page_has_every_severity_beside_the_clean_images() {
        let severities: Vec<_> = (1..=5).map(|severity| level(0.8 - 0.1 * f64::from(severity))).collect();
        let other = severities.iter().map(|own| level(own.accuracy - 0.1)).collect::<Vec<_>>();
        let mean = severities.iter().zip(&other).map(|(a, b)| Level::mean(&[*a, *b]).unwrap()).collect();
        let one =
            |name: &str, severities: Vec<Level>| Corrupted { name: name.into(), about: "worse".into(), severities };
        let document = Corruptions {
            schema: CORRUPTIONS_SCHEMA,
            model: "m<odel".into(),
            weights_sha256: "0".into(),
            method: "fidgp".into(),
            basis: "weight draws: 8".into(),
            set: "cifar100".into(),
            images: 10,
            seed: 0,
            commit: "abc".into(),
            hardware: Hardware { cpu: "c".into(), threads: 1, memory_gib: 1.0, gpu: None, engine: "e".into() },
            command: None,
            seconds: 1.0,
            clean: level(0.8),
            corruptions: vec![one("fog", severities), one("jpeg", other)],
            mean,
        };
        let said = rows(&document);
        assert_eq!(said.len(), 6);
        assert_eq!((said[0][1].as_str(), said[1][1].as_str(), said[5][1].as_str()), ("80.0", "65.0", "25.0"));
        let place = tempfile::tempdir().unwrap();
        let html = std::fs::read_to_string(write(&document, place.path()).unwrap()).unwrap();
        assert!(html.contains("m&lt;odel") && html.contains("fog") && html.contains("<svg") && !html.contains("NaN"));
        assert!(place.path().join("corruptions.json").exists() && place.path().join("corruptions.svg").exists());
        assert_eq!(Level::mean(&[]), None);
    }
}
