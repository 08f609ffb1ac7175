//! `fidgp demo`

use std::path::Path;
use std::process::ExitCode;

use fidgp_lab::config::TrainConfig;
use fidgp_lab::device;
use fidgp_lab::experiment;
use fidgp_lab::files::COMMAND_FILE;
use fidgp_lab::run_folder::RunContext;
use fidgp_lab::{config, report};

use super::Outcome;
use crate::args::Demo;
use crate::progress::EpochBar;

/// The demo is the repository's own config, so that `fidgp train` gives the same run.
const CONFIG: &str = include_str!("../../../../configs/demo.toml");

pub fn run(arguments: &Demo) -> Outcome {
    let overrides = [format!("seed={}", arguments.seed).parse()?];
    let config = config::parse(CONFIG, &overrides)?;
    let TrainConfig { epochs, batch_size, .. } = &config.train;
    tell!("Training a Bayesian network on a curve with a gap: {batch_size} points, {epochs} epochs.");
    tch::set_num_threads(1);
    let (device, stop) = (device::choose(&arguments.device)?, super::stop_on_interrupt());
    let context = RunContext {
        force: is_demo(&arguments.out),
        command: Some(format!("fidgp demo --seed {}", arguments.seed)),
        resume_command: format!("fidgp train --resume {}", super::quoted(&arguments.out.display().to_string())),
        ..RunContext::new(&arguments.out, "data", device, stop)
    };
    let mut bar = EpochBar::new(&config);
    let results = experiment::run(&config, &context, &mut bar)?;
    drop(bar);
    results.iter().try_for_each(super::print_metrics)?;
    let page = report::write_report(&[report::Run::read(&arguments.out)?], &arguments.out.join("report.html"))?.html;
    tell!(
        "\nLook at {}\nThe band is narrow where there are points, and grows in the gap and on either side: that is the whole idea.",
        page.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Whether a folder holds an earlier demo, which may be made again.
fn is_demo(folder: &Path) -> bool {
    let command = fidgp_files::text(&folder.join(COMMAND_FILE));
    command.is_ok_and(|command| command.starts_with("fidgp demo"))
}
