//! `fidgp cost`

use std::process::ExitCode;

use fidgp_lab::config;
use fidgp_lab::cost::ConfigCost;
use fidgp_lab::model::{Counting, Explained};

use super::Outcome;
use crate::args::Cost;

pub fn run(arguments: &Cost) -> Outcome {
    let config = config::read(&arguments.config, &arguments.overrides)?;
    let counting = if arguments.compat { Counting::Compat } else { Counting::Ours };
    let cost = ConfigCost::of(&config, counting)?;
    if arguments.json {
        super::print_json(&cost)?;
    } else if arguments.explain {
        super::print(&Explained(&cost.pass).to_string())?;
    } else {
        super::print(&format!("{cost}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
