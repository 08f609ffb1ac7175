//! `fidgp calibrate`

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use fidgp_decision::decide::{number, percent};
use fidgp_decision::kept::Kept;
use fidgp_decision::trust::{Foreign, Trust};
use fidgp_decision::{CALIBRATION_FILE, Calibration};
use fidgp_lab::calibrate::{self, Fitted, Request};
use fidgp_lab::run_folder::{Temperature, Tried};
use fidgp_lab::{LabError, predict::Trained};
use fidgp_metrics::recalibration::Recalibration;
use fidgp_torch::Group;
use serde_json::{Value, json};
use tch::Device;

use super::threads::set_for;
use super::train::data_root;
use super::{Outcome, processes};
use crate::args::Calibrate;
use crate::progress::ExampleBar;

/// Said where the best temperature is an end of its range.
const EDGE: &str = "The best temperature lies beyond the range that is searched, 1/20 to 20, so none is used: there are few \
    examples, or the network is far from trained.\n";

pub fn run(arguments: &Calibrate) -> Outcome {
    arguments.asked().check()?;
    let config = Trained::config_of(&arguments.folder)?;
    set_for(&arguments.folder, arguments.place.threads)?;
    let data = data_root(arguments.place.data.as_deref(), &config)?;
    processes::shared(&arguments.place.device, |device, group| fit(arguments, data, device, group))
}

fn fit(arguments: &Calibrate, data: PathBuf, device: Device, group: Option<&Arc<Group>>) -> Outcome {
    let request = Request {
        folder: arguments.folder.clone(),
        data,
        device,
        from: arguments.from(),
        asked: arguments.asked(),
        ood_score: arguments.score(),
        recalibrate: arguments.maps(),
        target_inputs: arguments.target_inputs.clone(),
        foreign: arguments.foreign.clone(),
        group: group.cloned(),
    };
    if !processes::is_first(group) {
        return calibrate::calibrate(&request, &mut |_, _| {}).map(|_| ExitCode::SUCCESS);
    }
    let mut bar = ExampleBar::new("examples");
    let found = calibrate::calibrate(&request, &mut |done, all| bar.show(done, all))?;
    drop(bar);
    if arguments.json {
        super::print_json(&document(&found)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    super::print(&said(&found))?;
    let folder = super::quoted(&arguments.folder.display().to_string());
    match found.calibration {
        Some(_) => {
            tell!("kept in {CALIBRATION_FILE}; `fidgp predict {folder} INPUT` now says what to do with a prediction");
            if found.trust.is_some() {
                tell!("how far to trust it, as a page: fidgp report {folder}");
            }
        }
        None => {
            tell!(
                "too few examples for rules beside it; `fidgp eval {folder}` and `fidgp predict {folder}` now use it"
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The temperature's fields, and the rules without the examples they rest on.
fn document(found: &Fitted) -> Result<Value, LabError> {
    let unwritable = |error: serde_json::Error| LabError::config("--json", error.to_string());
    let mut document =
        found.temperature.as_ref().map_or_else(|| Ok(json!({})), serde_json::to_value).map_err(unwritable)?;
    if let Some(map) = found.temperature.as_ref().and_then(|found| found.recalibration.as_ref()) {
        document["recalibration"] = json!({"kind": map.kind()}); // its numbers stand in the folder
    }
    let mut rules = serde_json::to_value(&found.calibration).map_err(unwritable)?;
    if let Some(rules) = rules.as_object_mut() {
        rules.remove("reference");
    }
    document["calibration"] = rules;
    document["foreign"] = found.trust.as_ref().map_or_else(|| json!([]), |trust| json!(trust.foreign));
    Ok(document)
}

fn said(found: &Fitted) -> String {
    let mut text = String::new();
    if let Some(temperature) = &found.temperature {
        text += &of_temperature(temperature);
    }
    if let Some(calibration) = &found.calibration {
        text += &of_rules(calibration);
    }
    if let Some(trust) = &found.trust {
        text += &of_foreign(trust);
    }
    text
}

fn of_temperature(found: &Temperature) -> String {
    let edge = if found.at_edge { EDGE } else { "" };
    let text = format!(
        "temperature {:.4}, on {} examples: NLL {:.4} before, {:.4} after; ECE {:.4} before, {:.4} after\n{edge}",
        found.temperature, found.examples, found.nll_before, found.nll_after, found.ece_before, found.ece_after
    );
    text + &found.recalibrations.as_ref().map_or(String::new(), |tried| of_maps(tried, found.recalibration.as_ref()))
}

/// Which map of probabilities is used, and how those that were tried do.
fn of_maps(tried: &Tried, used: Option<&Recalibration>) -> String {
    if tried.maps.is_empty() {
        return String::new();
    }
    let said: Vec<_> = tried.maps.iter().map(|map| format!("{:.4} with {}", map.nll, map.kind.name())).collect();
    let used = used.map_or("none is used: none is better by more than its standard error".to_owned(), |map| {
        format!("{} is used", map.kind().name())
    });
    format!(
        "maps of the probabilities, NLL on held-back examples: {:.4} without, {}; {used}\n",
        tried.nll,
        said.join(", ")
    )
}

fn of_rules(found: &Calibration) -> String {
    let examples = &found.examples;
    let mut text = format!(
        "rules from {} examples of {}, checked on {} others:\n\n",
        examples.fitted,
        fidgp_files::shown(&examples.source),
        examples.held_back
    );
    let width = found.check.iter().map(|kept| kept.promise.chars().count()).max().unwrap_or(0);
    let _ = writeln!(text, "{:<width$}  guarantee     seen  95 % interval", "");
    for kept in &found.check {
        let _ = writeln!(text, "{}", line(kept, width));
    }
    text.push('\n');
    for (name, rule) in rules(found) {
        let _ = writeln!(text, "{name:<22} {rule}");
    }
    text += &ranked(found).unwrap_or_default();
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// How well each uncertainty puts wrong predictions last, the best first.
fn ranked(found: &Calibration) -> Option<String> {
    let rules = &found.rules;
    let of_abstention = rules.abstention.as_ref().map(|abstention| (abstention.score, &abstention.ranked));
    let (used, all) =
        of_abstention.or(rules.answering.as_ref().map(|answering| (answering.score, &answering.ranked)))?;
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by(|a, b| a.aurc.total_cmp(&b.aurc));
    let said: Vec<_> = all.iter().map(|one| format!("{} {}", one.name, number(one.aurc))).collect();
    let line = format!("{}; used: {}", said.join(", "), used.name());
    (!said.is_empty()).then(|| format!("{:<22} {line}\n", "AURC, low is good"))
}

/// How many of the inputs that are known to be out-of-distribution the rules find.
fn of_foreign(found: &Trust) -> String {
    let line = |set: &Foreign| {
        let [found, accepted] = [set.found, set.accepted].map(|count| percent(count as f64 / set.inputs.max(1) as f64));
        let source = fidgp_files::shown(&set.source);
        format!(
            "out-of-distribution inputs, {source}: {found} of {} called out-of-distribution, {accepted} accepted\n",
            set.inputs
        )
    };
    found.foreign.iter().map(line).collect()
}

/// A promise and what was seen of it.
fn line(kept: &Kept, width: usize) -> String {
    if kept.examples == 0 {
        return format!("{:<width$}  {:>9} {:>8}  nothing to check", kept.promise, percent(kept.promised), "–");
    }
    let interval = format!("{} … {}", percent(kept.interval.lo), percent(kept.interval.hi));
    let verdict = if kept.kept { "kept" } else { "NOT KEPT" };
    let size = kept.mean_size.map_or(String::new(), |size| format!(", mean size {}", number(size)));
    let (promised, seen) = (percent(kept.promised), percent(kept.seen));
    format!("{:<width$}  {promised:>9} {seen:>8}  {interval:<18} {verdict}{size}", kept.promise)
}

/// The rules in words.
fn rules(found: &Calibration) -> Vec<(&'static str, String)> {
    let abstention = found.rules.abstention.iter().filter_map(|abstention| {
        let rule = abstention.rule.as_ref()?;
        let threshold =
            rule.threshold.map_or("always".to_owned(), |t| format!("{} below {}", abstention.score, number(t)));
        let wrong = abstention.wrong_beyond.map_or(String::new(), |off| format!(" by more than {off}"));
        let (risk, sure) = (percent(abstention.risk), percent(abstention.confidence));
        Some((
            "answered",
            format!(
                "where {threshold}: {} of the examples; at most {risk} of the answers are wrong{wrong} ({sure} sure)",
                percent(rule.answered)
            ),
        ))
    });
    let answering = found.rules.answering.iter().map(|answering| {
        let (rule, score) = (&answering.rule, answering.score);
        let threshold =
            rule.threshold.map_or("always".to_owned(), |t| format!("where {score} is at most {}", number(t)));
        let (lo, hi) = (percent(rule.interval.lo), percent(rule.interval.hi));
        (
            "answered",
            format!("{threshold}: {} of the inputs ({lo} … {hi}); no error rate is guaranteed", percent(rule.share)),
        )
    });
    let outlier = found.rules.outlier.iter().map(|outlier| {
        let alarms = percent(outlier.rule.alarms);
        ("out of distribution", format!("where the p-value of the {} is at most {alarms}", outlier.score))
    });
    let pixels = found.rules.pixels.iter().filter(|sets| sets.class.is_none()).map(|sets| {
        let threshold = sets
            .threshold
            .map_or("all classes".to_owned(), |t| format!("classes with probability {} or more", number(t)));
        (
            "set of a pixel",
            format!("{threshold} at level {}: on average over pictures it holds that share", percent(sets.level)),
        )
    });
    abstention.chain(answering).chain(outlier).chain(pixels).collect()
}
