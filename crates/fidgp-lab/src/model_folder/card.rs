//! The model card: what it is, how good it is, how to use it.

use std::fmt::Write;

use fidgp_metrics::names;

use super::Dtype;
use crate::config::RunConfig;
use crate::predict::Trained;
use crate::record::Results;
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
    let stored = if dtype == Dtype::F16 { "f16 (vectors in f32)" } else { "f32" };
    let parameters = short(predictor.model.parameter_count() as f64);
    format!(
        "---\nlibrary_name: fidgp\npipeline_tag: {task}\ntags:\n- bayesian\n- uncertainty\n- {method}\n---\n\n# {name}\n\n\
         {what}: {network} on {data}, {parameters} parameters, stored in {stored}.\n\n\
         ```sh\nfidgp predict FOLDER {example}    # FOLDER: where this file lies\n```\n\n\
         Every prediction is the mean over weight draws; its uncertainty is split into what the data leaves open \
         (aleatoric) and what the weights leave open (epistemic).\n\n## Results\n\n{results}\n## How it was made\n\n\
         The whole config, seed {seed} included, is under `run` in `config.json`.{limits}\n",
        name = config.name,
        what = config.method.about().words,
        results = results.map_or("No results were recorded with the run.\n".to_owned(), table) + &tempered(predictor),
        seed = config.seed,
        limits = limits(config),
    )
}

/// What the numbers leave out of a network whose logits are divided by a temperature.
fn tempered(predictor: &Trained) -> String {
    let Some(temperature) = predictor.model.temperature else { return String::new() };
    format!(
        "\nThey are of the network as it was trained. This folder divides its logits by a temperature of {}, fitted to \
         validation examples: accuracy hardly changes, NLL and calibration do (`fidgp eval` measures them).\n",
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
    let draws =
        results.config.pointer("/predict/draws").map_or(String::new(), |draws| format!("{draws} weight draws, "));
    let machine = results.hardware.gpu.as_ref().unwrap_or(&results.hardware.cpu);
    let _ = writeln!(text, "\nMeasured before any rounding: {draws}commit `{}`, {machine}.", results.commit);
    if let Some(command) = &results.command {
        let _ = writeln!(text, "\n```sh\n{command}\n```");
    }
    text
}
