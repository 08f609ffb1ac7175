//! `fidgp predict` of pictures.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use fidgp::predict::Effort;
use fidgp_lab::LabError;
use fidgp_lab::predict::{self, ClassPrediction, Predictor};
use serde_json::{Value, json};

use super::rules::{Rules, add};
use super::write::Writer;
use super::{Failed, Said};
use crate::args::Predict;
use crate::progress::ExampleBar;

pub fn run(
    predictor: &mut Predictor,
    (arguments, rules): (&Predict, &Rules),
    effort: Effort,
    writer: &mut Writer,
) -> Result<(Said, Vec<Failed>), LabError> {
    let (files, mut failed) = files(&listed(&arguments.inputs)?);
    let (mut parts, mut bar, top) = (Vec::new(), ExampleBar::new("pictures"), arguments.top.get());
    let (classes, all) = (predictor.trained().classes.clone(), files.len());
    let (mut done, mut wrong) = (0, Ok(()));
    predict::files::classify_each(predictor, &files, effort, &mut |part| {
        done += part.len();
        bar.show(done, all);
        let mut sound = Vec::new();
        for (file, prediction) in part {
            match prediction {
                Ok(prediction) => sound.push((file, prediction)),
                Err(error) => failed.push((file, error)),
            }
        }
        if wrong.is_ok() && writer.streams() {
            let lines: Vec<_> = sound.iter().map(|(file, said)| json_of((&classes, rules), file, said, top)).collect();
            wrong = writer.rows(&lines);
        } else {
            parts.push(sound);
        }
    })?;
    wrong?;
    drop(bar);
    let sound = parts.concat();
    warn_of_errors(&sound, arguments.tolerance);
    let json = sound.iter().map(|(file, said)| json_of((&classes, rules), file, said, top)).collect();
    Ok((Said { table: class_table(predictor, &sound, (top, rules)), json }, failed))
}

/// With the names that standard input lists in place of `-`.
pub(super) fn listed(inputs: &[PathBuf]) -> Result<Vec<PathBuf>, LabError> {
    let mut all = Vec::new();
    for input in inputs {
        if input.as_os_str() == "-" {
            let text = crate::commands::standard_input()?;
            all.extend(text.lines().filter(|line| !line.trim().is_empty()).map(PathBuf::from));
        } else {
            all.push(input.clone());
        }
    }
    Ok(all)
}

/// Says where all draws there are were not enough for the bound.
fn warn_of_errors(said: &[(PathBuf, ClassPrediction)], tolerance: Option<f64>) {
    let Some(bound) = tolerance else { return };
    let left = said.iter().filter_map(|(_, said)| Some((said.error?, said.draws)));
    let Some((error, draws)) = left.filter(|(error, _)| *error > bound).max_by(|(a, _), (b, _)| a.total_cmp(b)) else {
        return;
    };
    tell!(
        "warning: --tolerance {bound} is missed: after {draws} draws, the most there are, probabilities are off by up to {error:.2e}"
    );
}

/// The pictures that are meant, and the inputs that are none.
pub(super) fn files(inputs: &[PathBuf]) -> (Vec<PathBuf>, Vec<Failed>) {
    let (mut files, mut failed) = (Vec::new(), Vec::new());
    for input in inputs {
        match pictures_of(input) {
            Ok(found) => files.extend(found),
            Err(error) => failed.push((input.clone(), error)),
        }
    }
    (files, failed)
}

/// A picture itself, or the pictures inside a folder and the folders in it.
fn pictures_of(input: &Path) -> Result<Vec<PathBuf>, LabError> {
    if !input.is_dir() {
        return Ok(vec![input.to_owned()]);
    }
    let found = fidgp_data::pictures_below(input)?;
    if found.is_empty() {
        let why = "holds no .jpg, .jpeg, .png or .webp files, nor do the folders inside".to_owned();
        return Err(LabError::File { path: input.to_owned(), why });
    }
    Ok(found)
}

fn json_of((classes, rules): (&[String], &Rules), file: &Path, said: &ClassPrediction, top: usize) -> Value {
    let mut json = json!({"input": file.display().to_string()});
    add(&mut json, class_fields(classes, said, top));
    if let Some(verdict) = rules.of_class(&said.evidence()) {
        add(&mut json, verdict.fields);
    }
    json
}

/// A prediction of classes.
pub(super) fn class_fields(classes: &[String], said: &ClassPrediction, top: usize) -> Value {
    let class = |(index, probability): (usize, f64)| json!({"class": classes[index], "index": index, "probability": probability});
    let ClassPrediction { total, aleatoric, epistemic, draws, .. } = said;
    let mut json = said.top(1).into_iter().map(class).next().unwrap_or_default();
    let top: Vec<_> = said.top(top).into_iter().map(class).collect();
    add(&mut json, json!({"top": top, "total": total, "aleatoric": aleatoric, "epistemic": epistemic, "draws": draws}));
    for (name, value) in [("log_density", said.log_density), ("error", said.error)] {
        if let Some(value) = value {
            json[name] = value.into();
        }
    }
    json
}

/// One line for each class shown; file and uncertainty stand beside the first.
fn class_table(predictor: &Predictor, said: &[(PathBuf, ClassPrediction)], (top, rules): (usize, &Rules)) -> String {
    if said.is_empty() {
        return String::new();
    }
    let trained = predictor.trained();
    let widest = |names: &mut dyn Iterator<Item = usize>| names.max().unwrap_or(0);
    let files: Vec<String> = said.iter().map(|(file, _)| file.display().to_string()).collect();
    let file_width = widest(&mut files.iter().map(|file| file.chars().count())).max(7);
    let shown = said.iter().flat_map(|(_, said)| said.top(top));
    let class_width = widest(&mut shown.map(|(index, _)| trained.classes[index].chars().count())).max(5);
    let mut text = format!(
        "{:<file_width$}  {:<class_width$}  {:>7}  {:<10}  {:>6}  {:>9}  {:>9}\n",
        "picture", "class", "prob.", "", "total", "aleatoric", "epistemic"
    );
    for (file, (_, said)) in files.iter().zip(said) {
        for (place, (index, probability)) in said.top(top).into_iter().enumerate() {
            let (file, class) = (if place == 0 { file } else { "" }, &trained.classes[index]);
            let line = format!(
                "{file:<file_width$}  {class:<class_width$}  {:>5.1} %  {:<10}",
                100.0 * probability,
                bar(probability)
            );
            let density = said.log_density.map_or(String::new(), |density| format!("  log density {density:.1}"));
            let doubt = format!("  {:>6.3}  {:>9.3}  {:>9.3}{density}", said.total, said.aleatoric, said.epistemic);
            let _ = writeln!(text, "{}", if place == 0 { line + &doubt } else { line }.trim_end());
        }
        for line in rules.of_class(&said.evidence()).into_iter().flat_map(|verdict| verdict.lines) {
            let _ = writeln!(text, "{:<file_width$}  {line}", "");
        }
    }
    let classes = trained.classes.len();
    let most = (classes as f64).ln();
    let draws = said.iter().map(|(_, said)| said.draws).max().unwrap_or(0);
    let basis = predictor.basis(draws);
    let _ = writeln!(text, "\nuncertainty in nats, at most {most:.2} for {classes} classes; {basis}");
    text
}

/// A probability as a bar of at most ten cells.
fn bar(probability: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (80.0 * probability.clamp(0.0, 1.0)).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}
