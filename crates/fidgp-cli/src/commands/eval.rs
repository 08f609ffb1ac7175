//! `fidgp eval`

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use fidgp_lab::device;
use fidgp_lab::experiment;
use fidgp_lab::predict::Trained;
use fidgp_lab::run_folder::RunContext;

use super::Outcome;
use super::threads::set_for;
use super::train::{command_line, data_root};
use crate::args::Eval;

pub fn run(arguments: &Eval) -> Outcome {
    let device = device::choose(&arguments.place.device)?;
    set_for(&arguments.run, arguments.place.threads)?;
    let mut predictor = Trained::open(&arguments.run, device)?;
    let config = &mut predictor.config;
    config.predict.draws = arguments.draws.unwrap_or(config.predict.draws);
    config.check()?;
    let (data_root, stop) = (data_root(arguments.place.data.as_deref(), config)?, AtomicBool::new(false));
    let context = RunContext::new(&arguments.run, data_root, device, &stop);
    let context = RunContext { resume: true, command: Some(command_line()), ..context };
    let results = experiment::evaluate(&mut predictor, &context)?;
    if arguments.json {
        super::print_json(&results)?;
    } else {
        super::print_metrics(&results)?;
    }
    Ok(ExitCode::SUCCESS)
}
