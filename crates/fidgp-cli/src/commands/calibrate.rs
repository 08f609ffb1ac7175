//! `fidgp calibrate`

use std::process::ExitCode;

use fidgp_lab::files::CONFIG_FILE;
use fidgp_lab::{calibrate, config, device};

use super::Outcome;
use super::train::{data_root, threads_for};
use crate::args::Calibrate;

/// Said of a temperature that is an end of its range.
const EDGE: &str = "That is an end of the range it is looked for in, 1/20 to 20: the validation NLL falls further beyond it, \
    which few validation examples or a network far from trained may cause. Do not trust it.\n";

pub fn run(arguments: &Calibrate) -> Outcome {
    super::check_is_run(&arguments.run)?;
    let config = config::read(&arguments.run.join(CONFIG_FILE), &[])?;
    tch::set_num_threads(threads_for(&config, arguments.place.threads)?);
    let data = data_root(arguments.place.data.as_deref(), &config)?;
    let found = calibrate::run(&config, &arguments.run, &data, device::choose(&arguments.place.device)?)?;
    if arguments.json {
        super::print_json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    super::print(&format!(
        "temperature {:.4}, on {} validation examples: NLL {:.4} before, {:.4} after; ECE {:.4} before, {:.4} after\n",
        found.temperature, found.examples, found.nll_before, found.nll_after, found.ece_before, found.ece_after
    ))?;
    if found.at_edge {
        super::print(EDGE)?;
    }
    tell!("`fidgp eval {0}` and `fidgp predict {0}` now use it", arguments.run.display());
    Ok(ExitCode::SUCCESS)
}
