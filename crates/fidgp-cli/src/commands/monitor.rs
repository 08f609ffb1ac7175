//! `fidgp monitor`

use std::fmt::Write;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::ExitCode;

use fidgp_data::Sheet;
use fidgp_decision::decide::{number, percent};
use fidgp_decision::monitor::{Labels, Monitor, Reading};
use fidgp_decision::{CALIBRATION_FILE, Calibration};
use fidgp_files::limits::TEXT_BYTES;
use fidgp_lab::LabError;
use fidgp_report::pages;

use super::Outcome;
use crate::args;

/// The exit code of an alarm.
const ALARM: u8 = 3;

pub fn run(arguments: &args::Monitor) -> Outcome {
    let alarms = arguments.false_alarms;
    if !(alarms > 0.0 && alarms < 1.0) {
        return Err(LabError::config(
            "--false-alarms",
            format!("{alarms} must lie between 0 and 1; write 5 % as 0.05"),
        ));
    }
    let Some(calibration) = Calibration::read(&arguments.model, None)? else {
        let folder = arguments.model.display().to_string();
        let why = format!("has no {CALIBRATION_FILE} to compare with; make it with: fidgp calibrate {folder}");
        return Err(LabError::config(folder, why));
    };
    let mut reading = Reading::new(&calibration, alarms, arguments.name.as_deref())?;
    if let Some(file) = &arguments.labels {
        reading = reading.with_labels(labels(file)?);
    }
    for log in &arguments.logs {
        read(log, &mut reading)?;
    }
    let found = reading.finish()?;
    if let Some(out) = &arguments.out {
        pages::monitor::write(&found, &arguments.model.display().to_string(), out)?;
        tell!("{}", out.display());
    }
    if arguments.json {
        super::print_json(&found)?;
    } else {
        super::print(&said(&found))?;
    }
    Ok(if found.alarm() { ExitCode::from(ALARM) } else { ExitCode::SUCCESS })
}

/// Gives the test one line after the other; only one is held in memory.
fn read(log: &Path, reading: &mut Reading) -> Result<(), LabError> {
    let failed = |error: io::Error| LabError::file(log, &error);
    let mut file: Box<dyn BufRead> = if log.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(fidgp_files::open(log).map_err(failed)?))
    };
    let most = TEXT_BYTES.most();
    let (mut line, mut number) = (Vec::new(), 0_usize);
    loop {
        line.clear();
        if file.by_ref().take(most.saturating_add(1)).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Ok(());
        }
        number += 1;
        let place = format!("{}, line {number}", log.display());
        TEXT_BYTES
            .check(line.len() as u64)
            .map_err(|exceeded| LabError::File { path: log.to_owned(), why: format!("line {number}: {exceeded}") })?;
        let text = std::str::from_utf8(&line)
            .map_err(|_| LabError::File { path: log.to_owned(), why: format!("line {number} is not UTF-8 text") })?;
        if !text.trim().is_empty() {
            reading.line(&place, text)?;
        }
    }
}

/// Labels that came later: a table with a column `label` and columns that name lines of the log.
fn labels(file: &Path) -> Result<Labels, LabError> {
    let sheet = Sheet::open(file)?;
    let names = sheet.names().to_vec();
    let cells = sheet.cells(&(0..names.len()).collect::<Vec<_>>())?;
    let rows = (0..cells.rows()).map(|row| (0..names.len()).map(|column| cells.text(row, column).to_owned()).collect());
    Ok(Labels::new(&names, rows)?)
}

fn said(found: &Monitor) -> String {
    let [accept, abstain, foreign] = found.verdicts;
    let mut text = format!(
        "{}\n{} lines: {accept} accept, {abstain} abstain, {foreign} out-of-distribution\n\n",
        pages::monitor::verdict(found),
        found.lines
    );
    let width = found.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0).max(6);
    let _ = writeln!(
        text,
        "{:<width$}  {:>10}  {:>10}  evidence (log10 e, limit {:.2})",
        "series", "before", "now", found.log10_limit
    );
    for series in &found.series {
        let alarm = series.alarm_at.map_or(String::new(), |line| format!("  changed, seen at line {line}"));
        let now = if series.seen > 0 { number(series.mean_now) } else { "–".to_owned() };
        let _ = writeln!(
            text,
            "{:<width$}  {:>10}  {now:>10}  {:.2}{alarm}",
            series.name,
            number(series.mean_before),
            series.log10_e
        );
    }
    if let (Some(estimate), Some(before)) = (&found.accuracy, found.accuracy_before) {
        let (lo, hi) = (percent(estimate.interval.lo), percent(estimate.interval.hi));
        let (now, before) = (percent(estimate.accuracy), percent(before));
        let _ = writeln!(
            text,
            "\naccuracy, estimated without labels: {now} ({lo} … {hi}); of the calibration examples {before}"
        );
    }
    for watched in &found.watched {
        let (lo, hi, share) = (percent(watched.interval.lo), percent(watched.interval.hi), percent(watched.share));
        let promised = watched.promised.map_or(String::new(), |share| format!(", guaranteed {}", percent(share)));
        let broken = watched.alarm_at.map_or(String::new(), |line| format!("; no longer kept, seen at line {line}"));
        let (what, seen) = (&watched.what, watched.seen);
        let _ = writeln!(text, "{what}: {share} of {seen} labelled lines ({lo} … {hi}{promised}){broken}");
    }
    if found.unused_labels > 0 {
        let _ = writeln!(text, "labels that belong to no line of the logs: {}", found.unused_labels);
    }
    text
}
