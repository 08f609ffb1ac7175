//! `fidgp wrap`

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use fidgp_lab::config::{self, DataConfig, Override, RunConfig, StartConfig};
use fidgp_lab::experiment::{self, WrapReport};
use fidgp_lab::run_folder::RunContext;
use fidgp_lab::{LabError, device};

use super::Outcome;
use super::train::{command_line, data_root, threads_for};
use crate::args::{Place, Wrap};

pub fn run(arguments: &Wrap) -> Outcome {
    let config = config_of(&arguments.config, arguments.weights.as_deref(), &arguments.overrides)?;
    let context = context_of(&config, &arguments.place, arguments.out.as_deref(), arguments.force)?;
    let report = experiment::wrap(&config, &context, arguments.out.is_some(), &mut |text| tell!("{text}"))?;
    if arguments.json {
        super::print_json(&report)?;
    } else {
        super::print(&table(&report))?;
        super::print_uncertainty(&report.uncertainty)?;
    }
    if let Some(why) = &report.statistics_kept {
        tell!("BatchNorm statistics are those of the file: {why}");
    }
    if let Some(why) = &report.posterior_missing {
        tell!(
            "no linearised posterior was fitted, weights are drawn: {why}; `fidgp fit-posterior` needs the training images"
        );
    }
    if let Some(run) = &arguments.out {
        tell!("\nrun: {}\ntrain it with: {}", run.display(), context.resume_command);
    }
    Ok(ExitCode::SUCCESS)
}

/// The config in a file, or around a graph, and the weights it starts at.
pub fn config_of(file: &Path, weights: Option<&Path>, overrides: &[Override]) -> Result<RunConfig, LabError> {
    let graph = config::is_graph(file);
    let mut config = if graph { config::around_graph(file, overrides)? } else { config::read(file, overrides)? };
    if let Some(weights) = weights {
        let statistics_images = config.start.as_ref().map_or_else(StartConfig::default_images, |s| s.statistics_images);
        let backbone = config.start.as_ref().is_some_and(|start| start.backbone);
        config.start = Some(StartConfig { weights: weights.to_owned(), statistics_images, backbone });
    }
    Ok(config)
}

/// Where a network that is not trained yet is measured and kept.
pub fn context_of(
    config: &RunConfig,
    place: &Place,
    out: Option<&Path>,
    force: bool,
) -> Result<RunContext<'static>, LabError> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    tch::set_num_threads(threads_for(config, place.threads)?);
    let run = out.unwrap_or(Path::new("")).to_owned();
    let (data_root, device) = (data_root(place.data.as_deref(), config)?, device::choose(&place.device)?);
    Ok(RunContext {
        force,
        command: Some(command_line()),
        resume_command: super::resume_command(&run, place),
        ..RunContext::new(run, data_root, device, &NEVER)
    })
}

fn table(report: &WrapReport) -> String {
    let mut text = format!("{}\n{}\n", report.weights, report.start);
    let width = report.stages.iter().map(|stage| stage.name.chars().count()).max().unwrap_or(0);
    let what = if matches!(report.config.data, DataConfig::Table(_)) { "rows" } else { "images" };
    let head = format!("{} test {what}", report.images);
    if report.stages.iter().any(|stage| stage.rmse.is_some()) {
        let _ = writeln!(text, "{head:<width$}        RMSE     NLL");
    } else {
        let _ = writeln!(text, "{head:<width$}  accuracy %     NLL  ECE(15) %");
    }
    for stage in &report.stages {
        let (name, nll) = (&stage.name, stage.nll);
        let _ = match (stage.rmse, stage.accuracy, stage.ece) {
            (Some(rmse), ..) => writeln!(text, "{name:<width$}  {rmse:>10.4}  {nll:>6.4}"),
            (_, accuracy, ece) => {
                let [accuracy, ece] = [accuracy, ece].map(|share| 100.0 * share.unwrap_or(f64::NAN));
                writeln!(text, "{name:<width$}  {accuracy:>10.2}  {nll:>6.4}  {ece:>9.2}")
            }
        };
    }
    text
}
