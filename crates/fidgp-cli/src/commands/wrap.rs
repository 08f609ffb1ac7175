//! `fidgp wrap`

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use fidgp_lab::config::{self, StartConfig};
use fidgp_lab::device;
use fidgp_lab::experiment::{self, WrapReport};
use fidgp_lab::run_folder::RunContext;

use super::Outcome;
use super::train::{command_line, data_root, threads_for};
use crate::args::Wrap;

pub fn run(arguments: &Wrap) -> Outcome {
    let mut config = config::read(&arguments.config, &arguments.overrides)?;
    if let Some(weights) = &arguments.weights {
        let statistics_images = config.start.as_ref().map_or_else(StartConfig::default_images, |s| s.statistics_images);
        let backbone = config.start.as_ref().is_some_and(|start| start.backbone);
        config.start = Some(StartConfig { weights: weights.clone(), statistics_images, backbone });
    }
    tch::set_num_threads(threads_for(&config, arguments.place.threads)?);
    let context = RunContext {
        device: device::choose(&arguments.place.device)?,
        data_root: data_root(arguments.place.data.as_deref(), &config)?,
        run: arguments.out.clone().unwrap_or_default(),
        resume: false,
        force: arguments.force,
        member: None,
        splits: None,
        parallel: 1,
        stop: &AtomicBool::new(false),
        command: Some(command_line()),
        resume_command: super::resume_command(&arguments.out.clone().unwrap_or_default(), &arguments.place),
    };
    let report = experiment::wrap(&config, &context, arguments.out.is_some(), &mut |text| tell!("{text}"))?;
    if arguments.json {
        super::print_json(&report)?;
    } else {
        super::print(&table(&report))?;
    }
    if let Some(why) = &report.statistics_kept {
        tell!("BatchNorm statistics are those of the file: {why}");
    }
    if let Some(run) = &arguments.out {
        tell!("\nrun: {}\ntrain it with: {}", run.display(), context.resume_command);
    }
    Ok(ExitCode::SUCCESS)
}

fn table(report: &WrapReport) -> String {
    let mut text = format!("{}\n{}\n", report.weights, report.start);
    let width = report.stages.iter().map(|stage| stage.name.chars().count()).max().unwrap_or(0);
    let _ = writeln!(text, "{:<width$}  accuracy %     NLL  ECE(15) %", format!("{} test images", report.images));
    for stage in &report.stages {
        let (accuracy, ece) = (100.0 * stage.accuracy, 100.0 * stage.ece);
        let _ = writeln!(text, "{:<width$}  {accuracy:>10.2}  {:>6.4}  {ece:>9.2}", stage.name, stage.nll);
    }
    text
}
