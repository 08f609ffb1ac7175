//! `fidgp eval`

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use fidgp_lab::experiment::{self, CONFIG_FILE, Setting};
use fidgp_lab::{config, device};

use super::Outcome;
use super::train::{command_line, data_root, threads_for};
use crate::args::Eval;

pub fn run(arguments: &Eval) -> Outcome {
    let mut config = config::read(&arguments.run.join(CONFIG_FILE), &[])?;
    config.predict.draws = arguments.draws.unwrap_or(config.predict.draws);
    tch::set_num_threads(threads_for(&config) as i32);
    let setting = Setting {
        device: device::choose(&arguments.place.device)?,
        data_root: data_root(arguments.place.data.as_deref(), &config)?,
        run: arguments.run.clone(),
        resume: true,
        force: false,
        splits: Vec::new(),
        parallel: 1,
        stop: &AtomicBool::new(false),
        command: Some(command_line()),
    };
    let results = experiment::evaluate(&config, &setting)?;
    if arguments.json {
        super::print_json(&results)?;
    } else {
        super::print_metrics(&results)?;
    }
    Ok(ExitCode::SUCCESS)
}
