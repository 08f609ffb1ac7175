//! `fidgp cost`

use std::process::ExitCode;

use fidgp_lab::model::{self, Counting};
use fidgp_lab::{LabError, config};

use super::Outcome;
use crate::args::Cost;

pub fn run(arguments: &Cost) -> Outcome {
    let config = config::read(&arguments.config, &arguments.overrides)?;
    let counting = if arguments.compat { Counting::Compat } else { Counting::Ours };
    let cost = model::cost(&config, counting)?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&cost).map_err(|error| LabError::config("--json", error.to_string()))?
    } else {
        cost.to_string()
    };
    super::print(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}
