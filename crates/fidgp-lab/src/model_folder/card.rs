//! The model card: what it is, how good it is, how to use it.

use std::fmt::Write;
use std::path::Path;

use fidgp_metrics::names;

use super::Dtype;
use crate::config::RunConfig;
use crate::error::{LabError, Result};
use crate::files::CARD_FILE;
use crate::predict::Trained;
use crate::record::{Results, write_atomically};
use crate::report::words::format::short;

/// Metrics of the card and what they are called there.
const SHOWN: [(&str, &str); 17] = [
    (names::CLS_ACC, "accuracy"),
    (names::CLS_NLL, "NLL of the mean prediction, nats"),
    (names::CLS_NLL_PER_DRAW, "mean of the draws' NLLs, nats"),
    (names::CLS_BRIER, "Brier score"),
    (names::CAL_ECE, "expected calibration error"),
    (names::CAL_ADAPTIVE_ECE, "the same, bins of equal mass"),
    (names::SC_AURC, "area under the risk-coverage curve"),
    (names::ENS_MI, "mean epistemic uncertainty, nats"),
    (names::SEG_MIOU, "mean intersection over union"),
    (names::SEG_MEAN_ACC, "mean pixel accuracy of the classes"),
    (names::SEG_PIXEL_ACC, "pixel accuracy"),
    (names::SEG_NLL, "NLL of a pixel, nats"),
    (names::REG_RMSE, "RMSE"),
    (names::REG_NLL, "NLL, nats"),
    (names::REG_CRPS, "CRPS"),
    (names::REG_COVERAGE, "coverage of the central interval"),
    ("reg/EpistemicSD", "mean epistemic deviation"),
];

/// The text of `README.md`.
pub fn card(predictor: &Trained, dtype: Dtype, results: Option<&Results>) -> String {
    let config = &predictor.config;
    let images = config.data.has_images();
    let task = match (images, predictor.segments()) {
        (true, true) => "image-segmentation",
        (true, false) => "image-classification",
        (false, _) if config.predicts_classes() => "tabular-classification",
        (false, _) => "tabular-regression",
    };
    let (network, data, method) = (config.network.name(), config.data.name(), config.method.name());
    let example = if images { "picture.png" } else { "rows.csv" };
    let stored = stored_in(dtype);
    let parameters = short(predictor.model.parameter_count() as f64);
    format!(
        "---\nlibrary_name: fidgp\npipeline_tag: {task}\ntags:\n- bayesian\n- uncertainty\n- {method}\n---\n\n# {name}\n\n\
         {what}: {network} on {data}, {parameters} parameters, stored in {stored}.\n\n\
         ```sh\nfidgp predict FOLDER {example}    # FOLDER: where this file lies\n```\n\n\
         {predicts}\n\n## Results\n\n{results}\n## How it was made\n\n\
         The whole config, seed {seed} included, is under `run` in `config.json`.{limits}\n",
        name = config.name,
        what = config.method.about().words,
        predicts = predicts(predictor),
        results = results.map_or("No results were recorded with the run.\n".to_owned(), table) + &tempered(predictor),
        seed = config.seed,
        limits = limits(config),
    )
}

/// The card of a model folder, for one that is stored in another type.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn of_another_type(card: &Path, dtype: Dtype) -> Result<String> {
    let text = fidgp_files::text(card).map_err(|error| LabError::file(card, &error))?;
    let said = |dtype| format!("stored in {}", stored_in(dtype));
    let before =
        [Dtype::F16, Dtype::Bf16, Dtype::Int8, Dtype::F32].map(said).into_iter().find(|said| text.contains(said));
    Ok(before.map_or_else(|| text.clone(), |before| text.replacen(&before, &said(dtype), 1)))
}

/// The type of what is stored, in words.
fn stored_in(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "f32",
        Dtype::F16 => "f16 (vectors in f32)",
        Dtype::Bf16 => "bf16 (vectors in f32)",
        Dtype::Int8 => "int8 (vectors in f32)",
    }
}

const DRAWN: &str = "Every prediction is the mean over weight draws; its uncertainty is split into what the data leaves open \
                     (aleatoric) and what the weights leave open (epistemic).";
const LOGITS: &str = "Every prediction is the mean over draws of the logits from the linearised posterior in `posterior.json`, \
                      one pass of the network; its uncertainty is split into what the data leaves open (aleatoric) and what \
                      the weights leave open (epistemic).";
const CLOSED: &str = "Every prediction is that of the linearised posterior in `posterior.json`, in closed form; its uncertainty \
                      is split into what the data leaves open (aleatoric) and what the weights leave open (epistemic).";
/// What is said of results that were measured before the posterior was fitted.
const EARLIER: &str = " The results below were measured with weight draws, before it was fitted.";

/// What a prediction is.
fn predicts(predictor: &Trained) -> &'static str {
    match (&predictor.model.posterior, predictor.model.likelihood.reading().numbers()) {
        (None, _) => DRAWN,
        (Some(_), None) => LOGITS,
        (Some(_), Some(_)) => CLOSED,
    }
}

/// Says on the card of a model folder what predicts now, in place of what predicted before. A card without these words, which
/// people may write, stays as it is.
///
/// # Errors
/// When the disk fails.
pub(crate) fn says_what_predicts(folder: &Path, predictor: &Trained) -> Result<()> {
    let path = folder.join(CARD_FILE);
    if !path.exists() {
        return Ok(());
    }
    let text =
        fidgp_files::text(&path).map_err(|error| LabError::File { path: path.clone(), why: error.to_string() })?;
    let now = predicts(predictor);
    let Some(before) = [DRAWN, LOGITS, CLOSED].into_iter().find(|words| text.contains(words)) else { return Ok(()) };
    let is_of_draws = before == DRAWN || text.contains(EARLIER);
    let told = if is_of_draws && now != DRAWN { now.to_owned() + EARLIER } else { now.to_owned() };
    let text = text.replace(EARLIER, "").replacen(before, &told, 1);
    write_atomically(&path, text.as_bytes()).map_err(Into::into)
}

/// What the numbers leave out of a network whose logits are divided by a temperature.
fn tempered(predictor: &Trained) -> String {
    let Some(temperature) = predictor.model.temperature else { return String::new() };
    let map = predictor.model.recalibration.as_ref();
    let and = map.map_or(String::new(), |map| format!(", and maps probabilities by {}", map.kind().name()));
    format!(
        "\nThey are of the network as it was trained. This folder divides its logits by a temperature of {}, fitted to \
         validation examples{and}: accuracy hardly changes, NLL and calibration do (`fidgp eval` measures them).\n",
        short(temperature)
    )
}

fn limits(config: &RunConfig) -> String {
    let weight = config.train.kl.weight;
    if !config.method.about().has_kl || (weight - 1.0).abs() < 1e-12 {
        return String::new();
    }
    format!(" The KL was weighted {weight}: this is a tempered posterior.")
}

fn table(results: &Results) -> String {
    let mut text = "| on the test data | |\n|---|---|\n".to_owned();
    for (name, words) in SHOWN {
        let Some(value) = results.metrics.get(name) else { continue };
        let notes = results.metric_notes.get(name).into_iter().flatten();
        let notes = notes.fold(String::new(), |text, (key, value)| text + &format!(", {key} {value}"));
        let value = value.map_or("not finite".to_owned(), |value| format!("{value:.4}"));
        let _ = writeln!(text, "| {words}{notes} | {value} |");
    }
    let drawn = || results.config.pointer("/predict/draws").map(|draws| format!("{draws} weight draws"));
    let draws = results.predicts_with.clone().or_else(drawn).map_or(String::new(), |draws| draws + ", ");
    let machine = results.hardware.gpu.as_ref().unwrap_or(&results.hardware.cpu);
    let _ = writeln!(text, "\nMeasured before any rounding: {draws}commit `{}`, {machine}.", results.commit);
    if let Some(command) = &results.command {
        let _ = writeln!(text, "\n```sh\n{command}\n```");
    }
    text
}
