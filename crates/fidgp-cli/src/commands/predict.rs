//! `fidgp predict`

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fidgp::predict::{Effort, WeightDraws};
use fidgp_lab::predict::{self, ClassPrediction, NumberPrediction, Predictor, Trained};
use fidgp_lab::{LabError, device};
use serde_json::{Value, json};

use super::Outcome;
use super::train::threads_for;
use crate::args::Predict;

/// A file and why nothing can be said about it.
pub(super) type Failed = (PathBuf, LabError);

pub fn run(arguments: &Predict) -> Outcome {
    let trained = Trained::open(&arguments.model, device::choose(&arguments.device)?)?;
    tch::set_num_threads(threads_for(&trained.config, arguments.threads)?);
    let draws = arguments.draws.unwrap_or(trained.config.predict.draws);
    if draws == 0 {
        return Err(LabError::config("--draws", "0 must be at least 1; 8 is usual"));
    }
    fidgp_files::limits::SIZE
        .check(draws)
        .map_err(|exceeded| LabError::config("--draws", format!("is too large: {exceeded}")))?;
    let effort = Effort { draws: Some(draws), tolerance: arguments.tolerance };
    let mut predictor = Predictor::new(trained, None, WeightDraws::MEMORY)?;
    let (said, failed) = if predictor.trained().segments() {
        super::predict_pixels::run(&mut predictor, arguments, effort)?
    } else if predictor.trained().view.is_some() {
        pictures(&mut predictor, arguments, effort)?
    } else {
        tables(&mut predictor, arguments, Effort { tolerance: None, ..effort })?
    };
    if arguments.json {
        let failed: Vec<_> = failed
            .iter()
            .map(|(file, error)| json!({"input": file.display().to_string(), "error": crate::words::without_trace(&error.to_string())}))
            .collect();
        super::print_json(
            &json!({"model": arguments.model.display().to_string(), "draws": draws, "inputs": said.json, "failed": failed}),
        )?;
    } else {
        super::print(&said.table)?;
    }
    for (_, error) in &failed {
        tell!("error: {}", crate::words::without_trace(&error.to_string()));
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Predictions for people and for programs.
pub(super) struct Said {
    pub table: String,
    pub json: Vec<Value>,
}

fn pictures(predictor: &mut Predictor, arguments: &Predict, effort: Effort) -> Result<(Said, Vec<Failed>), LabError> {
    let (files, mut failed) = files(&arguments.inputs);
    let mut sound = Vec::new();
    for (file, prediction) in predict::files::classify(predictor, &files, effort)? {
        match prediction {
            Ok(prediction) => sound.push((file, prediction)),
            Err(error) => failed.push((file, error)),
        }
    }
    let top = arguments.top.get();
    let json = sound.iter().map(|(file, prediction)| class_json(predictor.trained(), file, prediction, top)).collect();
    warn_of_errors(&sound, arguments.tolerance);
    Ok((Said { table: class_table(predictor.trained(), &sound, top), json }, failed))
}

/// Says where all draws there are were not enough for the bound.
fn warn_of_errors(said: &[(PathBuf, ClassPrediction)], tolerance: Option<f64>) {
    let Some(bound) = tolerance else { return };
    let left = said.iter().filter_map(|(_, said)| Some((said.error?, said.draws)));
    let Some((error, draws)) = left.filter(|(error, _)| *error > bound).max_by(|(a, _), (b, _)| a.total_cmp(b)) else {
        return;
    };
    tell!(
        "warning: --tolerance {bound} is missed: after {draws} weight draws, the most there are, probabilities are off by up to {error:.2e}"
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

fn class_json(trained: &Trained, file: &Path, said: &ClassPrediction, top: usize) -> Value {
    let class = |(index, probability): (usize, f64)| json!({"class": trained.classes[index], "index": index, "probability": probability});
    let ClassPrediction { total, aleatoric, epistemic, draws, .. } = said;
    let top: Vec<_> = said.top(top).into_iter().map(class).collect();
    let mut json = json!({"input": file.display().to_string(), "top": top, "total": total, "aleatoric": aleatoric, "epistemic": epistemic, "draws": draws});
    for (name, value) in [("log_density", said.log_density), ("error", said.error)] {
        if let Some(value) = value {
            json[name] = value.into();
        }
    }
    json
}

/// One line for each class shown; file and uncertainty stand beside the first.
fn class_table(trained: &Trained, said: &[(PathBuf, ClassPrediction)], top: usize) -> String {
    if said.is_empty() {
        return String::new();
    }
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
    }
    let classes = trained.classes.len();
    let most = (classes as f64).ln();
    let draws = said.iter().map(|(_, said)| said.draws).max().unwrap_or(0);
    let _ = writeln!(text, "\nuncertainty in nats, at most {most:.2} for {classes} classes; weight draws: {draws}");
    text
}

/// A probability as a bar of at most ten cells.
fn bar(probability: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (80.0 * probability.clamp(0.0, 1.0)).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

fn tables(predictor: &mut Predictor, arguments: &Predict, effort: Effort) -> Result<(Said, Vec<Failed>), LabError> {
    let (mut said, mut failed) = (Said { table: String::new(), json: Vec::new() }, Vec::new());
    for file in &arguments.inputs {
        match predict::files::regress(predictor, file, effort) {
            Ok(rows) => {
                said.table += &number_table(file, &rows);
                let row = |(row, prediction): (usize, &NumberPrediction)| json!({"input": file.display().to_string(), "row": row, "prediction": prediction});
                said.json.extend(rows.iter().enumerate().map(row));
            }
            Err(error @ (LabError::Data(_) | LabError::File { .. })) => failed.push((file.clone(), error)),
            Err(error) => return Err(error),
        }
    }
    if !said.table.is_empty() {
        let _ = writeln!(
            said.table,
            "\n± is one deviation of a new observation; weight draws: {}",
            effort.draws.unwrap_or_default()
        );
    }
    Ok((said, failed))
}

fn number_table(file: &Path, rows: &[NumberPrediction]) -> String {
    let features = |row: &NumberPrediction| row.features.iter().map(|x| format!("{x}")).collect::<Vec<_>>().join(", ");
    let width = rows.iter().map(|row| features(row).len()).max().unwrap_or(0).max(8);
    let mut text = format!(
        "{}\n{:>width$}  {:>10}  {:>8}  {:>9}  {:>9}\n",
        file.display(),
        "features",
        "mean",
        "±",
        "epistemic",
        "noise"
    );
    for row in rows {
        let NumberPrediction { mean, sd, epistemic_sd, noise_sd, .. } = row;
        let _ =
            writeln!(text, "{:>width$}  {mean:>10.4}  {sd:>8.4}  {epistemic_sd:>9.4}  {noise_sd:>9.4}", features(row));
    }
    text
}
