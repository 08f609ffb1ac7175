//! `fidgp compare`

use std::fmt::Write;
use std::process::ExitCode;

use fidgp_lab::compare::{self, Plan};
use fidgp_lab::config::{self, DataConfig, Override, RunConfig};
use fidgp_lab::train::Watch;
use fidgp_lab::{LabError, device};
use fidgp_report::pages::comparison::{TEMPERED, verdict};
use fidgp_report::record::comparison::{Comparison, Spread};
use fidgp_report::words::format;

use super::threads::{cores, threads_of_one};
use super::train::{command_line, data_root, splits};
use super::{Outcome, processes};
use crate::args::Compare;
use crate::progress::{EpochBar, SplitBar};

/// What the table on the terminal shows, where it was measured; the page shows all.
const SHOWN: [&str; 7] = ["cls/Acc", "cls/NLL", "seg/mIoU", "seg/NLL", "cal/ECE", "reg/RMSE", "reg/NLL"];

/// Scores out of distribution on the terminal, where there are any.
const OOD_SHOWN: [&str; 4] = ["msp", "energy", "mutual-information", "ddu"];

pub fn run(arguments: &Compare) -> Outcome {
    let configs = configs(arguments)?;
    let first = configs.first().ok_or_else(|| LabError::config("CONFIG", "is missing: give at least one"))?;
    let launched = processes::launched()?;
    processes::end_with_launcher();
    tch::set_num_threads(threads_of_one(first, arguments.place.threads, launched.as_ref())?);
    let device = device::choose(&processes::device_name(&arguments.place.device, launched.as_ref()))?;
    let here = launched.as_ref().map_or(1, |launched| launched.local_size);
    let plan = Plan {
        device,
        data_root: data_root(arguments.place.data.as_deref(), first)?,
        out: arguments.out.clone(),
        seeds: arguments.seeds.get(),
        splits: splits(&arguments.splits)?,
        parallel: arguments.parallel.map_or_else(|| (cores() / here).max(1), std::num::NonZero::get),
        ood: arguments.ood.clone(),
        ood_limit: arguments.ood_limit.map(std::num::NonZero::get),
        temperature: arguments.temperature,
        stop: super::stop_on_interrupt(),
        command: Some(command_line()),
        writes: launched.as_ref().is_none_or(|launched| launched.rank == 0),
    };
    let mut watcher = |config: &RunConfig| -> Box<dyn Watch + Send> {
        tell!("{}, seed {}", config.name, config.seed);
        match config.data {
            DataConfig::Uci { .. } => Box::new(SplitBar::new()),
            _ => Box::new(EpochBar::new(config)),
        }
    };
    let comparison = compare::run(&configs, &plan, &mut watcher).map_err(|error| match error {
        LabError::Interrupted { .. } => LabError::ComparisonInterrupted,
        other => other,
    })?;
    if !plan.writes {
        return Ok(if comparison.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }); // the first process tells
    }
    if arguments.json {
        super::print_json(&comparison)?;
    } else {
        super::print(&table(&comparison))?;
    }
    tell!("\nreport: {}", comparison.page.display());
    for failed in &comparison.failed {
        tell!("not compared: {}, seed {}: {}", failed.name, failed.seed, failed.why);
    }
    Ok(if comparison.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every config, or every config with every method.
fn configs(arguments: &Compare) -> Result<Vec<RunConfig>, LabError> {
    let mut all = Vec::new();
    for path in &arguments.configs {
        if arguments.methods.is_empty() {
            all.push(config::read(path, &arguments.overrides)?);
        }
        for method in &arguments.methods {
            let method: Override = format!("method={method}").parse()?;
            let overrides: Vec<_> = arguments.overrides.iter().cloned().chain([method]).collect();
            let config = config::read(path, &overrides)?;
            all.push(RunConfig { name: format!("{}-{}", config.name, config.method.name()), ..config });
        }
    }
    Ok(all)
}

fn table(comparison: &Comparison) -> String {
    let all = &comparison.contenders;
    let width = all.iter().map(|contender| contender.name.chars().count()).max().unwrap_or(0).max(6);
    let metrics: Vec<_> =
        SHOWN.into_iter().filter(|metric| all.iter().any(|one| one.metrics.contains_key(*metric))).collect();
    let mut text =
        format!("{:<width$}  {:>10}  {:>6}  {:>9}  {:>8}", "config", "parameters", "passes", "MACs", "training");
    for metric in &metrics {
        let _ = write!(text, "  {metric:>19}");
    }
    text.push('\n');
    for one in all {
        let training = one.relative_training.map_or("–".to_owned(), |times| format!("{times:.2}×"));
        let (parameters, macs) = (format::short(one.parameters as f64), format::short(one.macs as f64));
        let _ = write!(text, "{:<width$}  {parameters:>10}  {:>6}  {macs:>9}  {training:>8}", one.name, one.passes);
        for metric in &metrics {
            let value = one.metrics.get(*metric).map_or("–".to_owned(), Spread::to_string);
            let _ = write!(text, "  {value:>19}");
        }
        text.push('\n');
    }
    for (one, with) in all.iter().filter_map(|one| Some((one, one.tempered.as_ref()?))) {
        let said = TEMPERED.iter().filter_map(|metric| Some(format!("{metric} {}", with.metrics.get(*metric)?)));
        let said: Vec<_> = said.collect();
        let edge = if with.at_edge { " (none: the best is beyond its range)" } else { "" };
        let _ = writeln!(text, "{:<width$}  temperature {}{edge}: {}", one.name, with.temperature, said.join(", "));
    }
    for (one, (set, scores)) in all.iter().flat_map(|one| one.ood.iter().map(move |of_set| (one, of_set))) {
        let said = OOD_SHOWN.iter().filter_map(|score| Some((*score, scores.get(*score)?)));
        let said: Vec<_> = said.map(|(score, auroc)| format!("{score} {:.2}", 100.0 * auroc.mean)).collect();
        let _ = writeln!(text, "{:<width$}  AUROC % on {set}: {}", one.name, said.join(", "));
    }
    let keys: Vec<_> = comparison.settings.iter().map(|one| one.key.as_str()).collect();
    if !keys.is_empty() {
        let _ = writeln!(text, "\nsettings that differ: {} (values are in the report)", keys.join(", "));
    }
    if let Some(first) = comparison.differences.first() {
        let _ = writeln!(
            text,
            "\nagainst {}, 95 % intervals over splits or test examples (chance of the data) and over seeds (chance of the training):",
            first.reference
        );
    }
    for one in &comparison.differences {
        let interval =
            one.interval.map_or(String::new(), |interval| format!(" [{:+.4}, {:+.4}]", interval.lo, interval.hi));
        let (name, metric, pairs, units) = (&one.name, &one.metric, one.pairs, one.units.word());
        let _ =
            writeln!(text, "{name:<width$}  {metric:<9} {:+.4}{interval}  {pairs} {units}: {}", one.mean, verdict(one));
    }
    text
}
