//! `fidgp eval`

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fidgp_files::write;
use fidgp_lab::LabError;
use fidgp_lab::corruptions::{CorruptionSettings, corrupted};
use fidgp_lab::experiment;
use fidgp_lab::files::CORRUPTIONS_FOLDER;
use fidgp_lab::predict::Trained;
use fidgp_lab::run_folder::RunContext;
use fidgp_report::pages::corruptions;
use fidgp_report::record::check_writable;
use fidgp_torch::Group;
use tch::Device;

use super::threads::set_for;
use super::train::{command_line, data_root};
use super::{Outcome, processes};
use crate::args::Eval;
use crate::progress::Clock;

pub fn run(arguments: &Eval) -> Outcome {
    set_for(&arguments.run, arguments.place.threads)?;
    processes::shared(&arguments.place.device, |device, group| measure(arguments, device, group))
}

fn measure(arguments: &Eval, device: Device, group: Option<&Arc<Group>>) -> Outcome {
    let mut predictor = Trained::open(&arguments.run, device)?;
    let config = &mut predictor.config;
    config.predict.draws = arguments.draws.unwrap_or(config.predict.draws);
    config.check()?;
    let (data_root, stop) = (data_root(arguments.place.data.as_deref(), config)?, AtomicBool::new(false));
    let context = RunContext::new(&arguments.run, data_root, device, &stop);
    let context = RunContext { resume: true, command: Some(command_line()), ..context };
    if let Some(names) = &arguments.corrupt {
        if group.is_some() {
            return Err(LabError::config("--corrupt", "is work for one process: start it once, without the launcher"));
        }
        return corrupt(arguments, names, predictor, context);
    }
    predictor.share(group)?;
    let is_first = processes::is_first(group);
    let clock = is_first.then(|| Clock::start("evaluating"));
    let results = experiment::evaluate(&mut predictor, &context)?;
    drop(clock);
    if !is_first {
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.json {
        super::print_json(&results)?;
    } else {
        super::print_metrics(&results)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures on corrupted test images, and writes the document, the page and its figure.
fn corrupt(arguments: &Eval, names: &str, trained: Trained, context: RunContext) -> Outcome {
    let out = arguments.out.clone().unwrap_or_else(|| arguments.run.join(CORRUPTIONS_FOLDER));
    if arguments.out.is_none() {
        let refused = write::refuse_links(&arguments.run, &[CORRUPTIONS_FOLDER]);
        refused.map_err(|error| LabError::file(&out, &error))?;
    }
    check_writable(&out)?;
    let settings = CorruptionSettings {
        model: arguments.run.display().to_string(),
        names: names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        root: context.data_root,
        limit: arguments.limit.map_or(usize::MAX, std::num::NonZero::get),
        seed: arguments.seed,
        command: context.command,
    };
    let document = corrupted(trained, &settings, &mut |text| tell!("{text}"))?;
    let page = corruptions::write(&document, &out)?;
    if arguments.json {
        super::print_json(&document)?;
    } else {
        let line = |cells: &[String]| {
            let cells = cells.iter().skip(1).map(|cell| format!("  {cell:>10}"));
            cells.collect::<String>()
        };
        let heads: Vec<_> = std::iter::once("severity").chain(corruptions::HEADS).map(str::to_owned).collect();
        let mut text = format!("{:<8}{}\n", heads[0], line(&heads));
        for row in corruptions::rows(&document) {
            _ = writeln!(text, "{:>8}{}", row[0], line(&row));
        }
        let count = document.corruptions.len();
        _ = writeln!(text, "means over {count} corruptions of {} test images; {}", document.images, document.basis);
        super::print(&text)?;
    }
    tell!("wrote {}", page.display());
    Ok(ExitCode::SUCCESS)
}
