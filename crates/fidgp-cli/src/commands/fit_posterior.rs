//! `fidgp fit-posterior`

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fidgp_lab::LabError;
use fidgp_lab::config::{self, Override};
use fidgp_lab::experiment::{self, FittedPosterior};
use fidgp_lab::predict::Trained;
use fidgp_lab::run_folder::RunContext;
use fidgp_torch::Group;
use tch::Device;

use super::threads::set_for;
use super::train::{command_line, data_root};
use super::{Outcome, processes};
use crate::args::FitPosterior;
use crate::progress::Clock;

/// What is asked for where nothing else is said.
const KIND: &str = "posterior.kind=linearised";

pub fn run(arguments: &FitPosterior) -> Outcome {
    if !arguments.overrides.iter().all(|one| one.sets("posterior")) {
        let why = "of other keys than posterior.… has no effect on a trained network: leave them out";
        return Err(LabError::config("--set", why));
    }
    set_for(&arguments.run, arguments.place.threads)?;
    processes::shared(&arguments.place.device, |device, group| fit(arguments, device, group))
}

fn fit(arguments: &FitPosterior, device: Device, group: Option<&Arc<Group>>) -> Outcome {
    let mut predictor = Trained::open_to_fit(&arguments.run, device)?;
    let mut config = predictor.config.clone();
    config.posterior = config.posterior.filter(config::PosteriorConfig::is_linearised);
    let kind = KIND.parse::<Override>()?;
    let overrides: Vec<_> = [kind].into_iter().chain(arguments.overrides.iter().cloned()).collect();
    let config = config::parse(&config.to_toml()?, &overrides)?;
    let (data, stop) = (data_root(arguments.place.data.as_deref(), &config)?, AtomicBool::new(false));
    let context = RunContext { command: Some(command_line()), ..RunContext::new(&arguments.run, data, device, &stop) };
    predictor.share(group)?;
    let is_first = processes::is_first(group);
    let clock = is_first.then(|| Clock::start("fitting the posterior"));
    let fitted = experiment::fit_posterior(&mut predictor, &config, &context, !arguments.no_eval)?;
    drop(clock);
    if !is_first {
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.json {
        super::print_json(&fitted.record)?;
    } else {
        said(&fitted, arguments)?;
    }
    if !fitted.outdated.is_empty() {
        let files = fitted.outdated.join(" and ");
        tell!(
            "warning: {files} held for the earlier predictions: run `fidgp calibrate {}` again",
            arguments.run.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn said(fitted: &FittedPosterior, arguments: &FitPosterior) -> Result<(), LabError> {
    let folder = arguments.run.display();
    if let Some(record) = &fitted.record {
        super::print(&format!(
            "{} posterior over {} layers: prior precision {:.4}, noise precision {:.4} of the trained one; the data decide \
             {:.1} of {} directions\n",
            record.structure,
            record.layers.len(),
            record.prior_precision,
            record.noise_precision,
            record.decided,
            record.dimensions
        ))?;
    }
    if let Some(results) = &fitted.results {
        super::print("\n")?;
        super::print_metrics(results)?;
        tell!("{folder}/results.json was measured again with this posterior");
    }
    if fitted.record.is_some() {
        tell!("`fidgp predict {folder}`, `eval`, `ood`, `serve`, `calibrate` and `export` now use the posterior");
    } else {
        tell!("{folder}: no linearised posterior any more, weights are drawn as they were trained");
    }
    Ok(())
}
