//! `fidgp complexity`

use std::fmt::Write;
use std::process::ExitCode;

use fidgp_lab::complexity::{self, Options};
use fidgp_lab::device;
use fidgp_report::pages;
use fidgp_report::record::check_writable;
use fidgp_report::record::complexity::Row;
use fidgp_report::words::format;

use super::Outcome;
use crate::args::Complexity;

pub fn run(arguments: &Complexity) -> Outcome {
    let usual = Options::usual(device::choose(&arguments.device)?);
    let options = Options {
        inputs: arguments.batch.get().into(),
        passes: arguments.draws.get().into(),
        rounds: arguments.rounds.get(),
        command: Some(super::train::command_line()),
        ..usual
    };
    arguments.out.as_deref().map_or(Ok(()), check_writable)?;
    let table = complexity::run(&options)?;
    if let Some(out) = &arguments.out {
        tell!("wrote {}", pages::complexity::write(&table, out)?.display());
    }
    if arguments.json {
        super::print_json(&table)?;
    } else {
        super::print(&format!("{}\n{}", text(&table.by_width), text(&table.by_inducing)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<16} {:>5} {:>4}  {:>10} {:>10} {:>10}  {:>11} {:>10}  {:>8}\n",
        "", "d", "M", "printed", "mended", "counted", "MACs, paper", "MACs, ours", "ms"
    );
    for row in rows {
        let macs = [row.macs_paper, row.macs_ours].map(|macs| format::short(macs as f64));
        let _ = writeln!(
            text,
            "{:<16} {:>5} {:>4}  {:>10} {:>10} {:>10}  {:>11} {:>10}  {:>8.2}",
            row.method,
            row.width,
            row.inducing,
            row.storage_paper,
            row.storage_mended,
            row.storage_counted,
            macs[0],
            macs[1],
            row.measured_ms
        );
    }
    text
}
