//! `fidgp compress`

use std::process::ExitCode;

use fidgp_lab::experiment::compress::{Asked, FIGURE, compress};
use fidgp_lab::record::{write_atomically, write_json};

use super::Outcome;
use super::wrap::{config_of, context_of};
use crate::args::Compress;

pub fn run(arguments: &Compress) -> Outcome {
    let config = config_of(&arguments.model, arguments.weights.as_deref(), &arguments.overrides)?;
    let context = context_of(&config, &arguments.place, arguments.out.as_deref(), arguments.force)?;
    let asked = Asked { budget: arguments.budget, curve: arguments.curve.clone(), images: arguments.images.get() };
    let report = compress(&config, &asked, &context, arguments.out.is_some(), &mut |text| tell!("{text}"))?;
    if arguments.json {
        super::print_json(&report)?;
    } else {
        super::print(&report.to_string())?;
    }
    if let Some(run) = &arguments.out {
        write_json(&run.join(format!("{FIGURE}.json")), &report)?;
        write_atomically(&run.join(format!("{FIGURE}.svg")), report.figure().standalone().as_bytes())?;
        tell!("\nrun: {}\ntrain it with: {}", run.display(), context.resume_command);
    }
    Ok(ExitCode::SUCCESS)
}
