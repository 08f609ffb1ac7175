//! `fidgp bench`

use std::fmt::Write;
use std::process::ExitCode;

use fidgp_lab::bench::growth::grow;
use fidgp_lab::bench::{self, BenchOptions, Benchmark};
use fidgp_lab::config::Override;
use fidgp_lab::{LabError, config, device};
use fidgp_report::pages::growth;
use fidgp_report::record::check_writable;
use fidgp_report::record::growth::Growth;
use tch::Device;

use super::Outcome;
use super::threads::threads_for;
use super::train::command_line;
use crate::args::Bench;

pub fn run(arguments: &Bench) -> Outcome {
    let device = device::choose(&arguments.device)?;
    if !arguments.grow.is_empty() {
        return growth(arguments, device);
    }
    let mut table = String::new();
    let mut all = Vec::new();
    for path in &arguments.configs {
        let config = config::read(path, &arguments.overrides)?;
        tch::set_num_threads(threads_for(&config, None)?);
        let (batch, draws) = (arguments.batch.get() as usize, arguments.draws.get());
        let options = BenchOptions { batch, draws, rounds: arguments.rounds.get(), parts: arguments.parts, device };
        let Benchmark { times, train_bytes, counted } = bench::run(&config, &options)?;
        let _ = writeln!(table, "{} ({}), batch {batch}", config.name, config.method.name());
        for time in &times {
            let (what, median) = (&time.what, time.median_ms);
            let _ = writeln!(table, "  {what:<36} {median:>9.2} ms   {:.2} … {:.2}", time.least_ms, time.largest_ms);
        }
        if let Some(bytes) = train_bytes {
            let _ = writeln!(table, "  {:<36} {:>9.0} MiB", "memory of training", bytes as f64 / f64::from(1 << 20));
        }
        let _ = writeln!(
            table,
            "  {:<36} {:>9.3} G",
            "MACs of a prediction of one input",
            counted.prediction_macs as f64 / 1e9
        );
        all.push(serde_json::json!({
            "config": config.name, "method": config.method.name(), "batch": batch, "draws": draws, "times": times,
            "train_bytes": train_bytes, "counted": counted,
        }));
    }
    if arguments.json {
        table = serde_json::to_string_pretty(&all).map_err(|error| LabError::config("--json", error.to_string()))?;
        table.push('\n');
    }
    super::print(&table)?;
    Ok(ExitCode::SUCCESS)
}

/// `fidgp bench --grow`
fn growth(arguments: &Bench, device: Device) -> Outcome {
    let [path] = arguments.configs.as_slice() else {
        return Err(LabError::config("--grow", "takes one config at a time"));
    };
    let read = |more: &[Override]| config::read(path, &[arguments.overrides.as_slice(), more].concat());
    tch::set_num_threads(threads_for(&read(&[])?, None)?);
    let (batch, draws) = (arguments.batch.get() as usize, arguments.draws.get());
    let options = BenchOptions { batch, draws, rounds: arguments.rounds.get(), parts: false, device };
    arguments.out.as_deref().map_or(Ok(()), check_writable)?;
    let growth = grow(&read, &arguments.grow, &options, Some(command_line()), &mut |line| tell!("{line}"))?;
    if let Some(out) = &arguments.out {
        tell!("wrote {}", growth::write(&growth, out)?.display());
    }
    if arguments.json {
        super::print_json(&growth)?;
    } else {
        super::print(&text(&growth))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(growth: &Growth) -> String {
    let mut text = format!("{} ({}), batch {}, K = {}\n", growth.name, growth.method, growth.batch, growth.draws);
    for line in &growth.axes {
        let head = std::iter::once(line.axis.name()).chain(growth::HEADS).map(str::to_owned).collect();
        text.push('\n');
        for cells in std::iter::once(head).chain(growth::rows(line)) {
            let cells: Vec<_> = cells.iter().map(|cell| format!("{cell:>11}")).collect();
            let _ = writeln!(text, "{}", cells.join(" "));
        }
    }
    text
}
