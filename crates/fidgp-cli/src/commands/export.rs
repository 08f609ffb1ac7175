//! `fidgp export`

use std::process::ExitCode;

use fidgp_lab::LabError;
use fidgp_lab::experiment::CONFIG_FILE;
use fidgp_lab::model_folder;
use fidgp_lab::predict::Predictor;
use tch::Device;

use super::Outcome;
use crate::args::{self, Export};

pub fn run(arguments: &Export) -> Outcome {
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
    let dtype = match arguments.dtype {
        args::Dtype::F32 => model_folder::Dtype::F32,
        args::Dtype::F16 => model_folder::Dtype::F16,
    };
    let data = arguments.data.clone().or_else(|| fidgp_data::catalogue::data_root().ok());
    let predictor = Predictor::of_run(run, Device::Cpu, data.as_deref())?;
    let rounding = model_folder::export(run, &predictor, dtype, out)?;
    super::print(&format!("{}\n", out.display()))?;
    tell!("{:.2} MB of parameters", rounding.bytes as f64 / 1e6);
    if let Some((layer, change)) = &rounding.worst {
        tell!("rounding changes the mean weight of {layer} most, by {:.3} %", 100.0 * change);
    }
    if !rounding.kept.is_empty() {
        tell!("kept in f32, as rounding would change more than 1 %: {}", rounding.kept.join(", "));
    }
    tell!("try it with: fidgp predict {} INPUT", super::quoted(&out.display().to_string()));
    Ok(ExitCode::SUCCESS)
}
