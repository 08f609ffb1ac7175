//! `fidgp verify`

use std::process::ExitCode;

use fidgp_lab::verify::{self, GOLDEN, Precision};
use fidgp_lab::{LabError, device};

use super::Outcome;
use crate::args::{self, Verify};

pub fn run(arguments: &Verify) -> Outcome {
    let device = device::choose(&arguments.device)?;
    let precision = match arguments.precision {
        args::Precision::F64 => Precision::F64,
        args::Precision::F32 => Precision::F32,
    };
    let text = match &arguments.file {
        Some(path) => {
            fidgp_files::text(path).map_err(|error| LabError::config(path.display().to_string(), error.to_string()))?
        }
        None => GOLDEN.to_owned(),
    };
    let rows = verify::verify(&text, precision, device)?;
    super::print(&verify::render(&rows))?;
    Ok(if rows.iter().any(verify::Row::failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
