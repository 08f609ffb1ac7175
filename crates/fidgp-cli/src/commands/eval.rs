//! `fidgp eval`

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use fidgp_lab::device;
use fidgp_lab::experiment::{self, Setting};
use fidgp_lab::predict::Predictor;

use super::Outcome;
use super::train::{command_line, data_root, threads_for};
use crate::args::Eval;

pub fn run(arguments: &Eval) -> Outcome {
    let device = device::choose(&arguments.place.device)?;
    let mut predictor = Predictor::open(&arguments.run, device)?;
    let config = &mut predictor.config;
    config.predict.draws = arguments.draws.unwrap_or(config.predict.draws);
    config.check()?;
    tch::set_num_threads(threads_for(config, arguments.place.threads)?);
    let setting = Setting {
        device,
        data_root: data_root(arguments.place.data.as_deref(), config)?,
        run: arguments.run.clone(),
        resume: true,
        force: false,
        member: None,
        splits: None,
        parallel: 1,
        stop: &AtomicBool::new(false),
        command: Some(command_line()),
        go_on: String::new(),
    };
    let results = experiment::evaluate(&mut predictor, &setting)?;
    if arguments.json {
        super::print_json(&results)?;
    } else {
        super::print_metrics(&results)?;
    }
    Ok(ExitCode::SUCCESS)
}
