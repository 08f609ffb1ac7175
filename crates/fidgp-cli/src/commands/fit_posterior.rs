//! `fidgp fit-posterior`

use std::process::ExitCode;

use fidgp_lab::config::{self, Override};
use fidgp_lab::files::{CONFIG_FILE, TEMPERATURE_FILE};
use fidgp_lab::predict::Trained;
use fidgp_lab::{device, experiment};

use super::Outcome;
use super::train::{data_root, threads_for};
use crate::args::FitPosterior;

/// What is asked for where nothing else is said.
const KIND: &str = "posterior.kind=linearised";

pub fn run(arguments: &FitPosterior) -> Outcome {
    let device = device::choose(&arguments.place.device)?;
    let mut predictor = if arguments.run.join(CONFIG_FILE).exists() {
        Trained::as_trained(&arguments.run, device, arguments.place.data.as_deref())?
    } else {
        Trained::open(&arguments.run, device)?
    };
    let mut config = predictor.config.clone();
    config.posterior = config.posterior.filter(config::PosteriorConfig::is_linearised);
    let kind = KIND.parse::<Override>()?;
    let overrides: Vec<_> = [kind].into_iter().chain(arguments.overrides.iter().cloned()).collect();
    let config = config::parse(&config.to_toml()?, &overrides)?;
    tch::set_num_threads(threads_for(&config, arguments.place.threads)?);
    let data = data_root(arguments.place.data.as_deref(), &config)?;
    let was_tempered = arguments.run.join(TEMPERATURE_FILE).exists();
    let record = experiment::fit_posterior(&mut predictor, &config, &arguments.run, &data)?;
    if arguments.json {
        super::print_json(&record)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(record) = record else {
        tell!("{}: no linearised posterior any more, weights are drawn as they were trained", arguments.run.display());
        return Ok(ExitCode::SUCCESS);
    };
    super::print(&format!(
        "{} posterior over {} layers: prior precision {:.4}, noise precision {:.4} of the trained one; the data decide {:.1} \
         of {} directions\n",
        record.structure,
        record.layers.len(),
        record.prior_precision,
        record.noise_precision,
        record.decided,
        record.dimensions
    ))?;
    if was_tempered {
        tell!("{TEMPERATURE_FILE} is removed: it was fitted to weight draws");
    }
    tell!("`fidgp eval {0}` and `fidgp predict {0}` now use it", arguments.run.display());
    Ok(ExitCode::SUCCESS)
}
