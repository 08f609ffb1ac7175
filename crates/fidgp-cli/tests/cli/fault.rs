//! A disk that refuses, one write after the other: whatever write fails, every file is whole, nothing is mixed, and the same
//! command succeeds afterwards. Which write fails says `FIDGP_FAIL_WRITE`.

use std::fs;
use std::path::Path;

use safetensors::SafeTensors;

use crate::child::Running;
use crate::tables::{TRAIN, place};
use crate::{Place, Said, contents, json, words_of_training};

/// Writes in a row that may fail unnoticed, before all of them are believed to have been tried: those that only clear up.
const UNNOTICED: usize = 4;

/// Makes each write of a command fail in turn; `after` looks at what is left, `ended` says whether the command failed.
#[track_caller]
fn each_write_fails(place: &Place, words: &[&str], mut after: impl FnMut(usize, &Said)) -> usize {
    let (mut failures, mut unnoticed) = (0, 0);
    for write in 1.. {
        let mut command = place.command(words);
        command.env("FIDGP_FAIL_WRITE", write.to_string());
        let said = Running::start(command).said();
        assert!(matches!(said.code, Some(0 | 1)), "write {write} of {words:?}: {said:?}");
        let failed = said.code == Some(1);
        assert!(!failed || said.err.contains("FIDGP_FAIL_WRITE"), "write {write} of {words:?}: {said:?}");
        (failures, unnoticed) = if failed { (failures + 1, 0) } else { (failures, unnoticed + 1) };
        all_whole(place.0.path());
        after(write, &said);
        if unnoticed > UNNOTICED {
            break;
        }
    }
    println!("{}: {failures} writes failed in turn", words[0]);
    failures
}

/// Every file below a folder can be read as what its name says.
#[track_caller]
fn all_whole(folder: &Path) {
    for (path, bytes) in contents(folder) {
        let name = path.display().to_string();
        let text = || std::str::from_utf8(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("json") => {
                drop(serde_json::from_str::<serde_json::Value>(text()).unwrap_or_else(|e| panic!("{name}: {e}")));
            }
            Some("jsonl") => {
                let (whole, _cut) = text().rsplit_once('\n').unwrap_or(("", text())); // the last line may be cut
                whole.lines().for_each(|line| drop(serde_json::from_str::<serde_json::Value>(line).expect(&name)));
            }
            Some("toml") => drop(toml::from_str::<toml::Table>(text()).unwrap_or_else(|e| panic!("{name}: {e}"))),
            Some("safetensors") => drop(SafeTensors::deserialize(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"))),
            Some("tmp") => panic!("{name} is left over"),
            _ => {}
        }
    }
}

#[test]
fn a_training_whose_writes_fail_can_be_repeated() {
    let (place, whole) = (Place::new(), Place::new());
    let words = words_of_training(&["--force", "--set", "train.epochs=2", "--set", "train.checkpoint_every=1"]);
    whole.fidgp(&words).ends(0);
    let failures = each_write_fails(&place, &words, |write, said| {
        let run = place.path("run");
        if said.code == Some(1) && run.join("run.toml").exists() && write % 5 == 0 {
            place.fidgp(&["train", "--resume", "run", "--device", "cpu"]).ends(0);
            let metrics = |place: &Place| json(&place.path("run/results.json"))["metrics"].clone();
            assert_eq!(metrics(&place), metrics(&whole), "resumed after write {write} failed");
        }
    });
    assert!(failures >= 20, "{failures}");
    place.fidgp(&words).ends(0);
}

#[test]
fn an_export_a_calibration_and_a_fit_whose_writes_fail_leave_the_old_or_the_new() {
    let place = place();
    place
        .fidgp(&[&TRAIN[..], &["run", "--set", "train.epochs=2", "--set", "data.validation_fraction=0.4"]].concat())
        .ends(0);
    place.fidgp(&[&TRAIN[..], &["other", "--set", "train.epochs=2", "--set", "seed=9"]].concat()).ends(0);
    place.write("rows.csv", "\"size, m2\",age\n0.5,0.5\n0.2,0.7\n");
    let said = |folder: &str| {
        let out = place.fidgp(&["predict", folder, "rows.csv", "--device", "cpu", "--json"]).ends(0).out;
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["inputs"].to_string()
    };

    let known = [said("run"), said("other")];
    place.fidgp(&["export", "other", "--out", "model"]).ends(0);
    let export = ["export", "run", "--out", "model", "--force"];
    let failures = each_write_fails(&place, &export, |write, _| {
        let now = said("model");
        assert!(known.contains(&now), "export, write {write}: {now} is none of {known:?}");
    });
    assert!(failures > 10, "{failures}");

    let calibrate = ["calibrate", "run", "--data", "data", "--device", "cpu", "--wrong-beyond", "40", "--error", "0.2"];
    for folder in ["run", "model"] {
        let words = calibrate.map(|word| if word == "run" { folder } else { word });
        let words = [&words[..], if folder == "model" { &["--examples", "data/houses.csv"] } else { &[] }].concat();
        let before = said(folder);
        let mut ruled = None;
        let failures = each_write_fails(&place, &words, |write, ended| {
            let now = said(folder);
            if ended.code == Some(0) {
                ruled.get_or_insert_with(|| now.clone());
            }
            assert!(
                now == before || ended.code == Some(0) || now.contains("decision"),
                "calibrate, write {write}: {now}"
            );
        });
        assert!(failures > 5 && ruled.is_some(), "{failures}");
        assert_eq!(Some(said(folder)), ruled, "a repeat says the same");
        let hidden = fs::read_dir(place.path(folder)).unwrap().flatten();
        assert!(hidden.into_iter().all(|entry| entry.file_name() != ".calibration"));
    }

    for folder in ["run", "model"] {
        let _ = fs::remove_file(place.path(folder).join("calibration.json"));
        let _ = fs::remove_file(place.path(folder).join("trust.json"));
        let fit = ["fit-posterior", folder, "--data", "data", "--device", "cpu"];
        let failures = each_write_fails(&place, &fit, |_, _| drop(said(folder)));
        assert!(failures > 5, "{failures}");
    }
}
