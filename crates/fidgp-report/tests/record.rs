//! `results.json` and `metrics.jsonl`: what is written is read back, and what cannot be read says why.

mod made_up;

use std::{fs, io::Write, path::Path};

use fidgp_report::record::{
    EpochRecord, EpochWriter, RESULTS_FILE, Results, SplitMetrics, Splits, built_from, commit, read_epochs,
    write_atomically,
};
use serde_json::{Value, json};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Writes `value` as a document and returns the error of reading it.
fn complaint(text: &str) -> String {
    let folder = folder();
    let path = folder.path().join(RESULTS_FILE);
    fs::write(&path, text).expect("writable");
    Results::read(&path).expect_err("must not be read").to_string()
}

fn without(field: &str) -> String {
    let mut value = serde_json::to_value(made_up::full()).expect("serialisable");
    value.as_object_mut().expect("an object").remove(field);
    value.to_string()
}

#[test]
fn what_is_written_is_read_back() {
    let folder = folder();
    let path = folder.path().join("new/folder").join(RESULTS_FILE);
    for results in [made_up::full(), made_up::bare("plain", "deterministic")] {
        results.write(&path).expect("writable");
        assert_eq!(Results::read(&path).expect("readable"), results);
    }
    let names: Vec<_> = fs::read_dir(path.parent().expect("a parent")).expect("listable").flatten().collect();
    assert_eq!(names.len(), 1, "no temporary file stays behind: {names:?}");
}

#[test]
fn numbers_that_are_not_finite_are_said_to_be_so() {
    let results = made_up::bare("diverged", "fidgp");
    let value = serde_json::to_value(&results).expect("serialisable");
    assert_eq!(value["metrics"]["reg/CRPS"], "not finite");
    assert_eq!(results.metrics["reg/CRPS"], None);
    let mut figure = made_up::regression();
    figure.grid.mean[3] = f64::INFINITY;
    let back: fidgp_report::record::Regression1d =
        serde_json::from_str(&serde_json::to_string(&figure).expect("serialisable")).expect("readable");
    assert!(back.grid.mean[3].is_nan());
}

#[test]
fn another_version_is_refused_by_name() {
    let mut value = serde_json::to_value(made_up::full()).expect("serialisable");
    value["schema"] = json!("fidgp-results/7");
    let said = complaint(&value.to_string());
    assert!(said.contains("results.json has schema `fidgp-results/7`"), "{said}");
    assert!(said.contains("reads `fidgp-results/1`; `fidgp train --resume`"), "{said}");
    assert!(complaint(&without("schema")).contains("schema (none)"));
    assert!(complaint("{\"schema\": 3}").contains("schema 3"));
}

#[test]
fn a_missing_field_is_named() {
    for field in ["name", "method", "seed", "commit", "hardware", "config", "metrics", "cost", "time"] {
        let said = complaint(&without(field));
        assert!(
            said.contains(&format!("missing field `{field}`")) && said.contains("docs/results-schema.md"),
            "{said}"
        );
    }
}

#[test]
fn half_a_document_is_not_json() {
    let text = serde_json::to_string(&made_up::full()).expect("serialisable");
    assert!(complaint(&text[..text.len() / 2]).contains("not complete JSON"));
    let said = Results::read(Path::new("/no/such/results.json")).expect_err("no such file").to_string();
    assert!(said.contains("/no/such/results.json") && said.contains("pass a run folder"), "{said}");
}

#[test]
fn a_failed_write_leaves_the_old_file_alone() {
    let folder = folder();
    let path = folder.path().join("taken");
    fs::create_dir(&path).expect("creatable"); // a folder of that name: the rename must fail
    fs::write(path.join("inside"), "old").expect("writable");
    assert!(write_atomically(&path, b"new").is_err());
    assert_eq!(fs::read_to_string(path.join("inside")).expect("readable"), "old");
    assert_eq!(fs::read_dir(folder.path()).expect("listable").count(), 1);
}

#[test]
fn one_split_has_no_standard_error_and_a_missing_value_no_mean() {
    let split = |split, value: Option<f64>| SplitMetrics {
        split,
        metrics: [("reg/NLL".to_owned(), value)].into(),
        train_seconds: value,
    };
    let one = Splits::new(vec![split(0, Some(1.0))]);
    assert_eq!((one.mean["reg/NLL"], one.standard_error["reg/NLL"]), (Some(1.0), None));
    let holed = Splits::new(vec![split(1, None), split(0, Some(1.0))]);
    assert_eq!((holed.mean["reg/NLL"], holed.runs[0].split), (None, 0));
}

#[test]
fn epochs_survive_a_crash_and_a_resume() {
    let folder = folder();
    let path = folder.path().join("metrics.jsonl");
    assert!(read_epochs(&path).expect("no log, no lines").is_empty());
    let epochs = made_up::epochs();
    let mut writer = EpochWriter::create(&path).expect("creatable");
    epochs[..3].iter().for_each(|epoch| writer.append(epoch).expect("appendable"));
    let torn = &serde_json::to_string(&epochs[3]).expect("serialisable")[..40];
    fs::OpenOptions::new().append(true).open(&path).expect("there").write_all(torn.as_bytes()).expect("writable");
    assert_eq!(read_epochs(&path).expect("readable"), epochs[..3]);

    let mut writer = EpochWriter::append_to(&path).expect("openable");
    epochs[2..].iter().for_each(|epoch| writer.append(epoch).expect("appendable")); // epoch 3 again, as after a resume
    assert_eq!(read_epochs(&path).expect("readable"), epochs);
    let lines = |path| fs::read_to_string(path).expect("readable").lines().count();
    assert_eq!(lines(&path), epochs.len(), "one line an epoch");
    EpochWriter::append_to(&path).and_then(|mut writer| writer.append(&epochs[1])).expect("appendable"); // from further back
    assert_eq!(read_epochs(&path).expect("readable"), epochs[..2]);
    fs::write(&path, "{}\n").expect("writable");
    assert!(EpochWriter::append_to(&path).is_err(), "a line that is no record is not thrown away");
}

/// A link in a stranger's folder is not followed.
#[test]
#[cfg(unix)]
fn a_log_that_is_a_link_is_refused_or_replaced() {
    let folder = folder();
    let (precious, path) = (folder.path().join("precious"), folder.path().join("metrics.jsonl"));
    fs::write(&precious, "mine").expect("writable");
    std::os::unix::fs::symlink(&precious, &path).expect("a link");
    let said = EpochWriter::append_to(&path).expect_err("a link").to_string();
    assert!(said.contains("`metrics.jsonl` is a link"), "{said}");
    EpochWriter::create(&path).and_then(|mut writer| writer.append(&made_up::epochs()[0])).expect("replaced");
    assert_eq!(fs::read(&precious).expect("readable"), b"mine");
}

#[test]
fn a_diverged_epoch_is_kept_and_a_wrong_line_is_named() {
    let folder = folder();
    let path = folder.path().join("metrics.jsonl");
    let diverged = EpochRecord { epoch: 1, loss: f64::NAN, ..EpochRecord::default() };
    EpochWriter::create(&path).and_then(|mut writer| writer.append(&diverged)).expect("writable");
    assert!(read_epochs(&path).expect("readable")[0].loss.is_nan());
    fs::write(&path, "{\"epoch\": 1}\n").expect("writable");
    let said = read_epochs(&path).expect_err("fields are missing").to_string();
    assert!(said.contains("metrics.jsonl, line 1: missing field `step`"), "{said}");
}

/// Records of before called the total uncertainty of a classification by the name of its aleatoric part.
#[test]
fn entropies_of_old_records_are_read_by_their_names() {
    let (place, mut results) = (folder(), made_up::bare("old", "fidgp"));
    let path = place.path().join(RESULTS_FILE);
    results.metrics = [("cls/Acc", 0.5), ("test/ens_Entropy", 1.1), ("test/ens_MI", 0.2)]
        .map(|(name, value)| (name.to_owned(), Some(value)))
        .into();
    results.write(&path).unwrap();
    let read = Results::read(&path).unwrap();
    assert_eq!(read.metrics["cls/Entropy"], Some(1.1));
    assert!((read.metrics["test/ens_Entropy"].unwrap() - 0.9).abs() < 1e-12);
    read.write(&path).unwrap();
    assert_eq!(Results::read(&path).unwrap().metrics, read.metrics); // once
}

#[test]
fn the_commit_is_the_one_the_program_was_built_from() {
    assert_eq!(commit(), "unknown");
    built_from("0123456789ab");
    built_from("another");
    assert_eq!(commit(), "0123456789ab");
}

/// Field names of a document, except below keys that hold free names.
fn field_names(value: &Value, into: &mut Vec<String>) {
    const FREE: [&str; 5] = ["config", "metrics", "metric_notes", "mean", "standard_error"];
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, inner)| {
            into.push(name.clone());
            if inner.is_array() || !FREE.contains(&name.as_str()) {
                field_names(inner, into);
            }
        }),
        Value::Array(items) => items.iter().for_each(|item| field_names(item, into)),
        _ => {}
    }
}

#[test]
fn the_page_describes_every_field() {
    let page = include_str!("../../../docs/results-schema.md");
    let mut names = Vec::new();
    field_names(&serde_json::to_value(made_up::full()).expect("serialisable"), &mut names);
    field_names(&serde_json::to_value(&made_up::epochs()[0]).expect("serialisable"), &mut names);
    assert!(names.len() > 60, "the made-up run must use every field, found {}", names.len());
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "docs/results-schema.md does not describe `{name}`");
    }
    assert!(page.contains(fidgp_report::record::SCHEMA));
}
