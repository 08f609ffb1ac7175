//! What goes wrong on the way: exit code 1, the place is named, what was there before is intact.

use std::fs;
use std::process::Stdio;

use crate::{Place, Said, contents};

/// A little UCI set in the standard layout: 40 rows, two features, two splits; one cell can be replaced.
pub fn write_uci(place: &Place, cell: Option<&str>) {
    let cell_of =
        |row: usize| if row == 12 { cell.map(str::to_owned) } else { None }.unwrap_or_else(|| format!("{}", row % 7));
    let rows = (0..40).map(|row| format!("{} {} {}", cell_of(row), (row * row) % 11, (row * 3) % 5));
    place.write("data/uci/yacht/data/data.txt", &rows.collect::<Vec<_>>().join("\n"));
    place.write("data/uci/yacht/data/index_features.txt", "0\n1\n");
    place.write("data/uci/yacht/data/index_target.txt", "2\n");
    place.write("data/uci/yacht/data/n_splits.txt", "2\n");
    let numbers = |rows: std::ops::Range<usize>| rows.map(|row| row.to_string()).collect::<Vec<_>>().join("\n");
    for (split, (train, test)) in [(0..36, 36..40), (4..40, 0..4)].into_iter().enumerate() {
        place.write(&format!("data/uci/yacht/data/index_train_{split}.txt"), &numbers(train));
        place.write(&format!("data/uci/yacht/data/index_test_{split}.txt"), &numbers(test));
    }
}

/// Training on that set, made tiny.
pub fn uci_training<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let yacht = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/uci-yacht.toml");
    let tiny = [
        "train.epochs=2",
        "train.kl={}",
        "train.schedule={kind=\"constant\"}",
        "network.hidden=[5]",
        "predict.draws=3",
    ];
    let tiny = tiny.into_iter().flat_map(|change| ["--set", change]);
    ["train", yacht, "--out", "run", "--device", "cpu"].into_iter().chain(tiny).chain(more.iter().copied()).collect()
}

#[test]
fn a_table_trains_split_by_split() {
    let place = Place::new();
    write_uci(&place, None);
    place.fidgp(&uci_training(&[])).ends(0);
    let results = crate::json(&place.path("run/results.json"));
    assert_eq!(results["splits"]["runs"].as_array().unwrap().len(), 2);
    assert!(results["splits"]["standard_error"]["reg/RMSE"].is_number());
    let said = place.fidgp(&uci_training(&["--splits", "2", "--force"])).ends(2);
    said.says(&["`--splits` 2 is not among the 2 splits, which count from 0"]);
}

/// A run is gone on with on the splits it was asked for; further ones are added, and the command says so.
#[test]
fn splits_are_remembered_and_added_to() {
    let place = Place::new();
    write_uci(&place, None);
    let splits = || {
        let results = crate::json(&place.path("run/results.json"));
        let runs: Vec<_> =
            results["splits"]["runs"].as_array().unwrap().iter().map(|run| run["split"].clone()).collect();
        (runs, results["command"].as_str().unwrap().split_once(" --splits ").unwrap().1.to_owned())
    };
    place.fidgp(&uci_training(&["--splits", "1"])).ends(0);
    assert_eq!(splits(), (vec![1.into()], "1".to_owned()));
    place.fidgp(&["train", "--resume", "run", "--device", "cpu"]).ends(0);
    assert_eq!(splits(), (vec![1.into()], "1".to_owned()));
    place.fidgp(&["train", "--resume", "run", "--device", "cpu", "--splits", "0"]).ends(0);
    assert_eq!(splits(), (vec![0.into(), 1.into()], "0,1".to_owned()));
    place.fidgp(&["train", "--resume", "run", "--device", "cpu", "--splits", "1"]).ends(0);
    assert_eq!(splits().0.len(), 2);
    place.fidgp(&uci_training(&["--splits", "1", "--force"])).ends(0);
    assert_eq!(splits().0.len(), 1);
    place.fidgp(&["train", "--resume", "run", "--device", "cpu", "--splits", "all"]).ends(0);
    assert_eq!(splits().0.len(), 2);
}

/// Fewer splits than a finished run has are compared on those, and the run keeps the others.
#[test]
fn a_comparison_of_fewer_splits_takes_none_away() {
    let place = Place::new();
    write_uci(&place, None);
    let words = uci_training(&["--seeds", "1", "--methods", "deterministic,mc-dropout"]);
    let compare = |splits: &str| {
        let words = [&["compare"], &words[1..], &["--splits", splits]].concat();
        place.fidgp(&words).ends(0);
        crate::json(&place.path("run/comparison.json"))["contenders"][0]["metrics"]["reg/NLL"]["mean"].clone()
    };
    let one = "run/uci-yacht-deterministic/seed-1/results.json";
    let kept = || crate::json(&place.path(one))["splits"]["runs"].clone();
    let both = compare("0,1");
    let before = kept();
    let first = compare("0");
    assert_ne!(first, both);
    assert_eq!(first, before[0]["metrics"]["reg/NLL"]);
    assert_eq!(kept(), before);
}

/// A split that fails is named.
#[test]
fn a_diverging_split_is_named() {
    let place = Place::new();
    write_uci(&place, None);
    let diverging = ["--splits", "1", "--set", "train.optimiser.learning_rate=1e30"];
    place.fidgp(&uci_training(&diverging)).ends(1).says(&["split 1: ", "in epoch"]);
}

/// A folder that another process trains in is left alone, also by `--force`; the lock goes with the process.
#[test]
fn a_run_folder_is_for_one_process() {
    let place = Place::new();
    place.train(&["--set", "train.epochs=2"]).ends(0);
    let before = contents(&place.path("run"));
    let lock = fs::File::open(place.path("run/.lock")).unwrap();
    lock.lock().unwrap();
    place.train(&["--set", "train.epochs=2", "--force"]).ends(2).says(&["run", "in use", "--out"]);
    assert!(contents(&place.path("run")) == before);
    drop(lock);
    place.train(&["--set", "train.epochs=2", "--force"]).ends(0);
}

/// A split that is done is not trained again, and its training counts all the same.
#[test]
fn the_time_of_a_table_is_that_of_all_its_splits() {
    let place = Place::new();
    write_uci(&place, None);
    place.fidgp(&uci_training(&["--splits", "0"])).ends(0);
    let path = place.path("run/splits/00.json");
    let mut first = crate::json(&path);
    assert!(first["train_seconds"].as_f64().unwrap() > 0.0, "{first}");
    first["train_seconds"] = 1000.0.into();
    fs::write(&path, first.to_string()).unwrap();
    let resume = ["train", "--resume", "run", "--splits", "0,1", "--device", "cpu"];
    let time = || crate::json(&place.path("run/results.json"))["time"]["train_seconds"].as_f64();
    place.fidgp(&resume).ends(0);
    let second = crate::json(&place.path("run/splits/01.json"))["train_seconds"].as_f64().unwrap();
    assert_eq!(time(), Some(1000.0 + second));
    first.as_object_mut().unwrap().remove("train_seconds"); // a split of before this was kept
    fs::write(&path, first.to_string()).unwrap();
    place.fidgp(&resume).ends(0);
    assert_eq!(time(), None);
}

#[test]
fn a_number_that_is_none_is_found_before_anything_is_written() {
    for bad in ["nan", "inf", "x"] {
        let place = Place::new();
        write_uci(&place, Some(bad));
        place.fidgp(&uci_training(&[])).ends(1).says(&["data.txt, line 13", bad]);
        assert!(!place.path("run").exists());
    }
}

#[test]
fn missing_data_are_named_and_the_run_can_begin_once_they_are_there() {
    let place = Place::new();
    place.fidgp(&uci_training(&[])).ends(1).says(&["no folder of data sets", "FIDGP_DATA"]);
    place.fidgp(&uci_training(&["--data", "nowhere"])).ends(2).says(&["--data", "`nowhere` is not there"]);
    place.write("elsewhere/other.txt", "");
    place.fidgp(&uci_training(&["--data", "elsewhere"])).ends(1).says(&["no folder `yacht` in it"]);
    assert!(!place.path("run").exists());
    write_uci(&place, None);
    place.fidgp(&uci_training(&["--splits", "0"])).ends(0);
}

#[test]
fn a_run_is_only_given_up_for_one_that_can_begin() {
    let place = Place::new();
    place.write("t.toml", &crate::wrap::PLAIN);
    let data = crate::fixture("cifar100-small");
    let begin = |out: &str, more: &[&str]| {
        let words = ["train", "t.toml", "--device", "cpu", "--data", data.to_str().unwrap(), "--out", out];
        place.fidgp(&[&words, more].concat())
    };
    begin("run", &["--set", "train.epochs=1"]).ends(0);
    place.fidgp(&["report", "run"]).ends(0);
    let before = contents(&place.path("run"));
    assert!(before.iter().any(|(path, _)| path.extension().is_some_and(|ending| ending == "svg")));
    for (change, said) in
        [("data.limit=0", "`data.limit` 0"), ("likelihood.smoothing=1.5", "`likelihood.smoothing` 1.5")]
    {
        begin("run", &["--force", "--set", change]).ends(2).says(&[said]);
        assert!(contents(&place.path("run")) == before, "{change} cost the earlier run a file");
        begin("new", &["--set", change]).ends(2).says(&[said]);
        assert!(!place.path("new").exists(), "{change} left a folder");
    }
    // and when it is given up, its report goes with it; what is not of a run stays
    place.write("run/mine.svg", "<svg/>");
    begin("run", &["--force", "--set", "train.epochs=1"]).ends(0);
    let left = contents(&place.path("run"));
    let is_drawn =
        |path: &&std::path::PathBuf| path.extension().is_some_and(|ending| ending == "svg" || ending == "html");
    let drawn: Vec<_> =
        left.iter().map(|(path, _)| path).filter(is_drawn).filter_map(|path| path.file_name()).collect();
    assert_eq!(drawn, ["mine.svg"]);
}

#[test]
fn splits_that_are_not_there_cost_nothing() {
    let place = Place::new();
    write_uci(&place, None);
    place.fidgp(&uci_training(&[])).ends(0);
    let before = contents(&place.path("run"));
    place.fidgp(&uci_training(&["--splits", "2", "--force"])).ends(2).says(&["2 is not among the 2 splits"]);
    assert!(contents(&place.path("run")) == before);
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let place = Place::new();
    place.write("file", "in the way");
    place.train(&["--set", "seed=1"]).ends(0);
    let toml = fs::read_to_string(place.path("run/run.toml")).unwrap();
    place.write("config.toml", &toml);
    place
        .fidgp(&["train", "config.toml", "--out", "file/run"])
        .ends(1)
        .says(&["file/run: nothing can be written there"]);
    place.fidgp(&["report", "run", "--out", "file/report.html"]).ends(1).says(&["cannot write file/"]);
    assert_eq!(fs::read_to_string(place.path("file")).unwrap(), "in the way");
}

#[test]
fn a_report_needs_results() {
    let place = Place::new();
    place.fidgp(&["report", "nowhere"]).ends(2).says(&["`nowhere` is no run folder"]);
    fs::create_dir(place.path("empty")).unwrap();
    place.fidgp(&["report", "empty"]).ends(2).says(&["holds no results.json"]);
    place.write("cut/results.json", "{\"schema\": \"fidgp-results/1\",");
    place.fidgp(&["report", "cut"]).ends(1).says(&["cut/results.json is not complete JSON"]);
    place.write("old/results.json", "{\"schema\": \"fidgp-results/0\"}");
    place.fidgp(&["report", "old"]).ends(1).says(&["has schema `fidgp-results/0`"]);
}

/// Standard output on a full disk is an error, not a panic; a reader that has gone is none.
#[test]
#[cfg(target_os = "linux")]
fn a_full_standard_output_is_an_error() {
    let place = Place::new();
    for words in [&["data"][..], &["doctor"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = place.command(words).stdout(full).stderr(Stdio::piped()).output().unwrap();
        Said::by(&output).ends(1).says(&["standard output: No space left"]);
    }
}

/// Standard error that cannot be written, or that nobody reads, ends nothing.
#[test]
#[cfg(target_os = "linux")]
fn a_full_standard_error_ends_nothing() {
    let place = Place::new();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let words = crate::words_of_training(&[]);
    let output = place.command(&words).env("FIDGP_LOG", "info").stdout(Stdio::null()).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(place.path("run/results.json").is_file());
    let output = place.command(&["report", "nowhere"]).stdout(Stdio::null()).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
