//! `fidgp predict`

mod pictures;
mod pixels;
mod rows;
mod rules;
mod write;

use std::path::PathBuf;
use std::process::ExitCode;

use fidgp::predict::{Effort, WeightDraws};
use fidgp_lab::predict::{Predictor, Trained};
use fidgp_lab::{LabError, device};
use serde_json::{Value, json};

use super::Outcome;
use super::threads::set_for;
use crate::args::Predict;
use rules::Rules;
use write::Writer;

/// A file and why nothing can be said about it.
type Failed = (PathBuf, LabError);

/// Predictions for people, and for programs where they are not written as they are made.
struct Said {
    table: String,
    json: Vec<Value>,
}

pub fn run(arguments: &Predict) -> Outcome {
    let device = device::choose(&arguments.device)?;
    set_for(&arguments.model, arguments.threads)?;
    let trained = Trained::open(&arguments.model, device)?;
    let effort = effort(arguments, &trained)?;
    let rules = Rules::open(&arguments.model, &trained, effort)?;
    let mut writer = Writer::new(arguments);
    let mut predictor = Predictor::new(trained, None, WeightDraws::MEMORY)?;
    let (said, failed) = if predictor.trained().segments() {
        pixels::run(&mut predictor, (arguments, &rules), effort, &mut writer)?
    } else if predictor.trained().view.is_some() {
        pictures::run(&mut predictor, (arguments, &rules), effort, &mut writer)?
    } else {
        rows::run(&mut predictor, (arguments, &rules), Effort { tolerance: None, ..effort }, &mut writer)?
    };
    if arguments.json {
        let model = arguments.model.display().to_string();
        let failed: Vec<_> = failed.iter().map(failure).collect();
        let draws = predictor.draws(effort);
        super::print_json(&json!({"model": model, "draws": draws, "inputs": said.json, "failed": failed}))?;
    } else if !writer.streams() {
        super::print(&said.table)?;
    }
    for (_, error) in &failed {
        tell!("error: {}", crate::words::without_trace(&error.to_string()));
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn effort(arguments: &Predict, trained: &Trained) -> Result<Effort, LabError> {
    let draws = arguments.draws.unwrap_or(trained.config.predict.draws);
    if draws == 0 {
        return Err(LabError::config("--draws", "0 must be at least 1; 8 is usual"));
    }
    fidgp_files::limits::SIZE
        .check(draws)
        .map_err(|exceeded| LabError::config("--draws", format!("is too large: {exceeded}")))?;
    Ok(Effort { draws: Some(draws), tolerance: arguments.tolerance })
}

fn failure((file, error): &Failed) -> Value {
    json!({"input": file.display().to_string(), "error": crate::words::without_trace(&error.to_string())})
}
