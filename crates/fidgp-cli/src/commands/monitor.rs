//! `fidgp monitor`

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use fidgp_decision::decide::{number, percent};
use fidgp_decision::monitor::{Monitor, monitor_model};
use fidgp_decision::{CALIBRATION_FILE, Calibration};
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
    let logs =
        arguments.logs.iter().map(|log| Ok((log.as_path(), read(log)?))).collect::<Result<Vec<_>, LabError>>()?;
    let lines = logs.iter().flat_map(|(log, text)| {
        let filled = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        filled.map(|(number, line)| (format!("{}, line {}", log.display(), number + 1), line))
    });
    let found = monitor_model(&calibration, lines, alarms, arguments.name.as_deref())?;
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

fn read(log: &Path) -> Result<String, LabError> {
    if log.as_os_str() == "-" {
        return super::standard_input();
    }
    fidgp_files::text(log).map_err(|error| LabError::file(log, &error))
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
        let broken = if watched.broken { "; no longer kept" } else { "" };
        let _ = writeln!(text, "{}: {share} of {} labelled lines ({lo} … {hi}){broken}", watched.what, watched.seen);
    }
    text
}
