//! `fidgp export`

use std::process::ExitCode;

use fidgp_decision::CALIBRATION_FILE;
use fidgp_lab::LabError;
use fidgp_lab::files::CONFIG_FILE;
use fidgp_lab::model_folder::{self, Weights};
use fidgp_lab::predict::Trained;
use tch::Device;

use super::Outcome;
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
            "is there already; choose another --out, or pass --force",
        ));
    }
    super::check_is_run(run)?;
    let data = arguments.data.clone().or_else(|| fidgp_data::catalogue::data_root().ok());
    let trained = Trained::of_run(run, Device::Cpu, data.as_deref())?;
    if arguments.format == Format::Torch {
        let count = model_folder::export_state_dict(&trained, out)?;
        super::print(&format!("{}\n", out.display()))?;
        tell!("{count} tensors of the posterior mean; in PyTorch: load_state_dict(safetensors.torch.load_file(...))");
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.draws.is_none() && trained.model.posterior.is_some() {
        let why = "is missing: the run predicts with its linearised posterior; --draws linearised writes that, --draws 8 draws of \
                   the weights instead, which are another prediction, and --draws mean none";
        return Err(LabError::config("--draws", why));
    }
    let weights = weights(arguments.draws.as_deref(), trained.config.predict.draws)?;
    if let Weights::Draws(count) = weights {
        tell!("{count} draws are up to {count} times the weights of the network");
    }
    let bytes = model_folder::export_graph(&trained, weights, dtype(arguments), out)?;
    super::print(&format!("{}\n", out.display()))?;
    tell!("{:.2} MB", bytes as f64 / 1e6);
    Ok(ExitCode::SUCCESS)
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

fn dtype(arguments: &Export) -> model_folder::Dtype {
    match arguments.dtype {
        args::Dtype::F32 => model_folder::Dtype::F32,
        args::Dtype::F16 => model_folder::Dtype::F16,
    }
}

fn folder(arguments: &Export) -> Outcome {
    let Export { run, out, force, .. } = arguments;
    if let Some(file) = model_folder::FILES.iter().find(|file| out.join(file).exists() && !force) {
        let why = format!("holds a {file} already; choose another --out, or pass --force to write over it");
        return Err(LabError::config(out.display().to_string(), why));
    }
    if out.join(CONFIG_FILE).exists() {
        let why = "holds a run, whose files a model would mix with; choose another --out";
        return Err(LabError::config(out.display().to_string(), why));
    }
    super::check_is_run(run)?;
    let data = arguments.data.clone().or_else(|| fidgp_data::catalogue::data_root().ok());
    let predictor = Trained::of_run(run, Device::Cpu, data.as_deref())?;
    let rounding = model_folder::export(run, &predictor, dtype(arguments), out)?;
    super::print(&format!("{}\n", out.display()))?;
    tell!("{:.2} MB of parameters", rounding.bytes as f64 / 1e6);
    if let Some((layer, change)) = &rounding.worst {
        tell!("rounding changes the mean weight of {layer} most, by {:.3} %", 100.0 * change);
    }
    if !rounding.kept.is_empty() {
        tell!("kept in f32, as rounding would change more than 1 %: {}", rounding.kept.join(", "));
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
