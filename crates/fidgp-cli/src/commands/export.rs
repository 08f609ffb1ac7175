//! `fidgp export`

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use fidgp_decision::CALIBRATION_FILE;
use fidgp_lab::config::DataConfig;
use fidgp_lab::files::{CONFIG_FILE, MODEL_CONFIG_FILE};
use fidgp_lab::model::{self, PlainBytes};
use fidgp_lab::model_folder::{self, Dtype, GraphRequest, Rounding, Weights};
use fidgp_lab::predict::Trained;
use fidgp_lab::run_folder::RunContext;
use fidgp_lab::{LabError, device, experiment};
use serde_json::{Value, json};
use tch::Device;

use super::Outcome;
use super::threads::set_for;
use super::train::data_root;
use crate::args::{self, Export, Format};

pub fn run(arguments: &Export) -> Outcome {
    match arguments.format {
        Format::Folder => folder(arguments),
        Format::Onnx | Format::Torch => file(arguments),
    }
}

fn file(arguments: &Export) -> Outcome {
    let Export { run, out, force, .. } = arguments;
    if out.exists() && !force {
        return Err(LabError::config(
            out.display().to_string(),
            "exists already; choose another --out, or pass --force",
        ));
    }
    if let Some(option) = [("--measure", arguments.measure), ("--json", arguments.json)].iter().find(|(_, set)| *set) {
        return Err(LabError::config(option.0, "is for --format folder; leave it out"));
    }
    let trained = opened(arguments, Device::Cpu)?;
    if arguments.format == Format::Torch {
        let draws = arguments.draws.as_deref().is_some_and(|draws| draws != "mean");
        refuse(&[("--draws", draws), ("--normalised", arguments.normalised)], "--format onnx")?;
        let count = model_folder::export_state_dict(&trained, arguments.draw, out)?;
        super::print(&format!("{}\n", out.display()))?;
        let which = arguments.draw.map_or_else(|| "the posterior mean".to_owned(), |k| format!("draw {k}"));
        tell!("{count} tensors of {which}; in PyTorch: load_state_dict(safetensors.torch.load_file(...))");
        return Ok(ExitCode::SUCCESS);
    }
    refuse(&[("--draw", arguments.draw.is_some())], "--format torch")?;
    if arguments.draws.is_none() && trained.model.posterior.is_some() {
        let why = "is missing: the run predicts with its linearised posterior; --draws linearised writes that, --draws 8 draws of \
                   the weights instead, which are another prediction, and --draws mean none";
        return Err(LabError::config("--draws", why));
    }
    let weights = weights(arguments.draws.as_deref(), trained.config.predict.draws)?;
    let request = GraphRequest { weights, dtype: dtype(arguments), normalised: arguments.normalised };
    let bytes = model_folder::graph_bytes(&trained, &request)?;
    tell!("{}: about {bytes} bytes ({:.2} MB)", held(weights), bytes as f64 / 1e6);
    let written = model_folder::export_graph(run, &trained, &request, out)?;
    super::print(&format!("{}\n", out.display()))?;
    tell!("{} bytes; outputs: {}", written.bytes, written.outputs.join(", "));
    if let Some(why) = written.without_rules {
        tell!("{CALIBRATION_FILE} is not in it: {why}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Options that are for another format.
fn refuse(options: &[(&str, bool)], format: &str) -> Result<(), LabError> {
    match options.iter().find(|(_, set)| *set) {
        Some((option, _)) => Err(LabError::config(*option, format!("is for {format}; leave it out"))),
        None => Ok(()),
    }
}

fn held(weights: Weights) -> String {
    match weights {
        Weights::Mean => "the posterior mean".to_owned(),
        Weights::Draws(1) => "1 draw of the weights".to_owned(),
        Weights::Draws(count) => format!("{count} draws of the weights"),
        Weights::Linearised => "the posterior mean with the linearised posterior".to_owned(),
    }
}

/// The model of a run folder or a model folder.
fn opened(arguments: &Export, device: Device) -> Result<Trained, LabError> {
    let run = &arguments.run;
    let data = arguments.place.data.clone().or_else(|| fidgp_data::catalogue::data_root().ok());
    let is_run = run.join(CONFIG_FILE).exists() || !run.join(MODEL_CONFIG_FILE).exists();
    if is_run {
        super::check_is_run(run)?;
        return Trained::of_run(run, device, data.as_deref());
    }
    Trained::open(run, device)
}

fn weights(given: Option<&str>, usual: u64) -> Result<Weights, LabError> {
    match given {
        None => Ok(Weights::Draws(usual)),
        Some("mean") => Ok(Weights::Mean),
        Some("linearised") => Ok(Weights::Linearised),
        Some(text) => {
            let count = text.parse().ok().filter(|count| *count > 0);
            let wrong = || {
                LabError::config(
                    "--draws",
                    format!("= {text} must be `mean`, `linearised`, or a number of draws, such as 8"),
                )
            };
            count.map(Weights::Draws).ok_or_else(wrong)
        }
    }
}

fn dtype(arguments: &Export) -> Dtype {
    match arguments.dtype {
        args::Dtype::F32 => Dtype::F32,
        args::Dtype::F16 => Dtype::F16,
        args::Dtype::Bf16 => Dtype::Bf16,
        args::Dtype::Int8 => Dtype::Int8,
    }
}

fn folder(arguments: &Export) -> Outcome {
    let Export { run, out, force, place, .. } = arguments;
    if let Some(file) = model_folder::FILES.iter().find(|file| out.join(file).exists() && !force) {
        let why = format!("holds a {file} already; choose another --out, or pass --force to write over it");
        return Err(LabError::config(out.display().to_string(), why));
    }
    if out.join(CONFIG_FILE).exists() {
        let why = "holds a run, whose files a model would mix with; choose another --out";
        return Err(LabError::config(out.display().to_string(), why));
    }
    if is_same(run, out) {
        return Err(LabError::config(out.display().to_string(), "is the model itself; choose another --out"));
    }
    let others = [
        ("--draws", arguments.draws.is_some()),
        ("--normalised", arguments.normalised),
        ("--draw", arguments.draw.is_some()),
    ];
    refuse(&others, "the formats onnx and torch")?;
    let device = device::choose(&place.device)?;
    set_for(run, place.threads)?;
    let mut trained = opened(arguments, device)?;
    let before = arguments.measure.then(|| measured(&mut trained, run, arguments)).transpose()?;
    let rounding = model_folder::export(run, &trained, dtype(arguments), out)?;
    let after = arguments.measure.then(|| measured(&mut Trained::open(out, device)?, out, arguments)).transpose()?;
    let (measured, plain) = (before.zip(after), plain(&trained));
    if arguments.json {
        super::print_json(&document(out, &rounding, plain, measured.as_ref()))?;
        return Ok(ExitCode::SUCCESS);
    }
    super::print(&format!("{}\n", out.display()))?;
    if let Some((before, after)) = &measured {
        super::print(&compared(before, after))?;
    }
    let mb = |bytes: f64| format!("{:.2} MB", bytes / 1e6);
    let beside = plain.map_or_else(String::new, |PlainBytes { f32, int8 }| {
        format!("; the plain network takes {} in f32 and {} in int8", mb(f32 as f64), mb(int8 as f64))
    });
    tell!("{} of parameters{beside}", mb(rounding.bytes as f64));
    if let Some((layer, change)) = &rounding.worst {
        tell!("rounding changes the mean weight of {layer} most, by {:.3} %", 100.0 * change);
    }
    if !rounding.kept.is_empty() {
        tell!("kept in f32, as rounding would change too much: {}", rounding.kept.join(", "));
    }
    if run.join(CALIBRATION_FILE).exists() && !out.join(CALIBRATION_FILE).exists() {
        let folder = super::quoted(&out.display().to_string());
        tell!(
            "{CALIBRATION_FILE} stays behind: its rules are for weights that are not rounded; fidgp calibrate {folder}"
        );
    }
    tell!("try it with: fidgp predict {} INPUT", super::quoted(&out.display().to_string()));
    Ok(ExitCode::SUCCESS)
}

/// What the plain network would take on disk; none where the config alone does not say what the network is like.
fn plain(trained: &Trained) -> Option<PlainBytes> {
    let mut config = trained.config.clone();
    if let (DataConfig::Table(table), Ok(Some(columns))) = (&mut config.data, trained.columns()) {
        table.inputs.get_or_insert(columns);
    }
    let classes = Some(trained.classes.len()).filter(|count| *count > 0);
    model::plain_bytes(&config, classes).ok()
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Test metrics by name.
type Metrics = BTreeMap<String, Option<f64>>;

/// What `fidgp eval` would say of a folder.
fn measured(trained: &mut Trained, folder: &Path, arguments: &Export) -> Result<Metrics, LabError> {
    let data = data_root(arguments.place.data.as_deref(), &trained.config)?;
    let (device, stop) = (device::choose(&arguments.place.device)?, AtomicBool::new(false));
    let context = RunContext { resume: true, ..RunContext::new(folder, data, device, &stop) };
    let metrics = experiment::evaluate(trained, &context)?.metrics;
    Ok(metrics.into_iter().filter(|(name, _)| !name.starts_with("validation/")).collect())
}

/// Every metric before and after, and how far it moved.
fn compared(before: &Metrics, after: &Metrics) -> String {
    let width = before.keys().map(String::len).max().unwrap_or(0);
    let mut text = format!("\n{:<width$}      before       after      change\n", "");
    for (name, before) in before {
        let after = after.get(name).copied().flatten();
        if let (Some(before), Some(after)) = (before, after) {
            let _ = writeln!(text, "{name:<width$}  {before:>10.4}  {after:>10.4}  {:>+10.4}", after - before);
        }
    }
    text
}

fn document(
    out: &Path,
    rounding: &Rounding,
    plain: Option<PlainBytes>,
    measured: Option<&(Metrics, Metrics)>,
) -> Value {
    let worst = rounding.worst.as_ref().map(|(layer, change)| json!({"layer": layer, "change": change}));
    let mut document = json!({"folder": out, "bytes": rounding.bytes, "kept": rounding.kept, "worst": worst});
    if let Some(plain) = plain {
        document["plain_bytes"] = json!(plain);
    }
    if let Some((before, after)) = measured {
        (document["before"], document["after"]) = (json!(before), json!(after));
    }
    document
}
