//! Numbers at the edge: each training ends in a result that can be used, or in a refusal that names what is wrong. And memory that
//! stays as it is, however long a training or a list of predictions.

use std::fs;
use std::time::Duration;

use safetensors::SafeTensors;

use crate::child::Running;
use crate::tables::{TRAIN, place};
use crate::{Place, Said, json, words_of_training};

/// A result without a number that is none, or a refusal of some words.
#[track_caller]
fn result_or_refusal(what: &str, place: &Place, said: &Said, run: &str) {
    match said.code {
        Some(0) => {
            let results = json(&place.path(run).join("results.json"));
            let metrics = results["metrics"].as_object().unwrap_or_else(|| panic!("{what}: {results}"));
            assert!(metrics.values().all(serde_json::Value::is_number), "{what}: {metrics:?}");
        }
        Some(1 | 2) => {
            let error = said.err.split("error: ").nth(1).unwrap_or_else(|| panic!("{what}: {said:?}"));
            assert!(error.split_whitespace().count() > 4, "{what}: {said:?}");
        }
        _ => panic!("{what}: {said:?}"),
    }
}

#[test]
fn settings_at_their_bounds_end_in_a_result_or_a_named_refusal() {
    let place = Place::new();
    for changes in [
        &["inducing.max_lamda=1e-9", "inducing.init_lamda=1e-10"][..],
        &["inducing.max_lamda=1e6", "inducing.init_lamda=999999"],
        &["inducing.max_sd_u=1e-12", "inducing.init_sd_u=1e-13"],
        &["inducing.max_sd_u=1e17", "inducing.init_sd_u=1e16"],
        &["inducing.prior_sd=1e-15"],
        &["inducing.prior_sd=1e15"],
        &["inducing.jitter=0"],
        &["inducing.jitter=1e6"],
        &["inducing.init_d=1e-30"],
        &["inducing.init_d=1e15"],
        &["inducing.inducing_rows=1", "inducing.inducing_cols=1"],
        &["inducing.inducing_rows=64", "inducing.inducing_cols=64"],
        &["train.optimiser.learning_rate=3000"],
        &["train.optimiser.learning_rate=1e30"],
        &["train.optimiser.learning_rate=1e-38"],
        &["train.kl={weight=1e30}"],
        &["likelihood.noise={kind=\"fixed\", sd=1e-18}"],
        &["likelihood.noise={kind=\"fixed\", sd=1e18}"],
        &["data.train=1", "train.batch_size=1"],
        &["data.train=2", "data.test=1", "train.batch_size=1", "predict.draws=1"],
        &["network.hidden=[1]"],
        &["network.hidden=[1, 1, 1, 1, 1, 1, 1, 1]"],
    ] {
        let more: Vec<_> = ["--force"].into_iter().chain(changes.iter().flat_map(|change| ["--set", change])).collect();
        let said = place.train(&more);
        result_or_refusal(&changes.join(", "), &place, &said, "run");
    }
}

#[test]
fn tables_at_the_edge_end_in_a_result_or_a_named_refusal() {
    let place = place();
    let rows = |count: usize, row: &dyn Fn(usize) -> String| {
        let text: String = (0..count).map(|i| row(i) + "\n").collect();
        format!("street,\"size, m2\",price,age\n{text}")
    };
    for (what, text) in [
        ("one row", rows(1, &|_| "a,1,2,3".into())),
        ("two rows", rows(2, &|i| format!("a,{i},{i},{i}"))),
        ("constant features", rows(60, &|i| format!("a,7,{i},7"))),
        ("a constant target", rows(60, &|i| format!("a,{i},5,{}", i % 3))),
        ("all alike", rows(60, &|_| "a,1,2,3".into())),
        ("the same row but one", rows(60, &|i| if i == 0 { "a,9,9,9".into() } else { "a,1,2,3".into() })),
        ("equal columns", rows(60, &|i| format!("a,{i},{i},{i}"))),
        ("near the largest f32", rows(60, &|i| format!("a,{}e37,{}e37,{}", i % 30, i % 25, i))),
        ("beyond f32", rows(60, &|i| format!("a,{}e40,{}e40,{}", i % 30, i % 25, i))),
        ("below f32", rows(60, &|i| format!("a,{i}e-44,{i}e-44,{i}"))),
        ("of one in a million", rows(60, &|i| format!("a,1000000.{i:03},{i},1e9"))),
    ] {
        place.write("data/houses.csv", &text);
        let said = place.fidgp(&[&TRAIN[..], &["run", "--force", "--set", "train.epochs=3"]].concat());
        let used = said.code == Some(0);
        result_or_refusal(what, &place, &said, "run");
        if used {
            place.write("rows.csv", "\"size, m2\",age\n0.5,0.5\n1e30,-1e30\n");
            let said = place.fidgp(&["predict", "run", "rows.csv", "--device", "cpu", "--json"]);
            assert!(matches!(said.code, Some(0 | 1)) && !said.out.contains("null"), "{what}: {said:?}");
        }
    }
    // one class, and a class of one row
    let config =
        crate::mixed::CONFIG.replace("epochs = 40", "epochs = 2").replace("target = \"outcome\"", "target = \"c\"");
    place.write("classes.toml", &config);
    for (what, other) in [("one class", 99), ("a class of one row", 7)] {
        let rows: String =
            (0..60).map(|i| format!("{i},{},{}\n", i * i % 11, if i == other { "b" } else { "a" })).collect();
        place.write("data/customers.csv", &format!("x,y,c\n{rows}"));
        let words = ["train", "classes.toml", "--device", "cpu", "--data", "data", "--out", "run", "--force"];
        let said = place.fidgp(&words);
        result_or_refusal(what, &place, &said, "run");
    }
}

/// Two inducing rows alike make a covariance singular: jitter bears it.
#[test]
fn duplicated_inducing_rows_are_borne_or_named() {
    let place = Place::new();
    place.train(&[]).ends(0);
    place.write("points.csv", "0.6\n1.3\n");
    let path = place.path("run/checkpoint/last.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let (head, _) = SafeTensors::read_metadata(&bytes).unwrap();
    let names: Vec<_> = {
        let file = SafeTensors::deserialize(&bytes).unwrap();
        file.names().into_iter().filter(|name| name.ends_with("z_row")).map(str::to_owned).collect()
    };
    assert!(!names.is_empty());
    for name in names {
        let (start, row) = {
            let file = SafeTensors::deserialize(&bytes).unwrap();
            let tensor = file.tensor(&name).unwrap();
            let start = tensor.data().as_ptr() as usize - bytes.as_ptr() as usize;
            (start, tensor.data().len() / tensor.shape()[0])
        };
        assert!(start > head);
        let first = bytes[start..start + row].to_vec();
        bytes[start + row..start + 2 * row].copy_from_slice(&first);
    }
    fs::write(&path, &bytes).unwrap();
    let said = place.fidgp(&["predict", "run", "points.csv", "--device", "cpu", "--json"]);
    assert!(matches!(said.code, Some(0 | 1)) && !said.out.contains("null"), "{said:?}");
    assert!(said.code == Some(0) || said.err.contains("fc"), "the layer is named: {said:?}");
}

/// Resident memory of a command, in MB, at each tenth of a second it runs.
#[track_caller]
fn resident(place: &Place, words: &[&str]) -> Vec<f64> {
    let child = Running::start(place.command(words));
    let status = format!("/proc/{}/status", child.id());
    let mut seen = Vec::new();
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let now = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let now = now.and_then(|now| now.trim().trim_end_matches(" kB").parse::<f64>().ok());
        match now {
            Some(kilobytes) => seen.push(kilobytes / 1024.0),
            None => break, // it ended
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.said().ends(0);
    seen
}

/// More than from a third of the way on is a leak: the first third is for what the libraries set up.
#[track_caller]
fn flat(what: &str, seen: &[f64]) {
    let third = seen[..=seen.len() / 3].iter().copied().fold(0.0, f64::max);
    let last = seen.iter().copied().fold(0.0, f64::max);
    assert!(last < third + 24.0, "{what}: {third:.0} MB after a third, {last:.0} MB later: {seen:?}");
}

/// A thousand steps of training, 400,000 predictions: fewer are over before libraries have set up.
#[test]
fn memory_stays_flat() {
    let place = Place::new();
    let train = ["--set", "train.epochs=200", "--set", "train.batch_size=10", "--set", "train.checkpoint_every=50"];
    flat("1,000 steps", &resident(&place, &words_of_training(&train)));
    let rows: String = (0..400_000).map(|i| format!("{}\n", f64::from(i) / 200_000.0)).collect();
    place.write("points.csv", &rows);
    let predict = ["predict", "run", "points.csv", "--device", "cpu", "--jsonl"];
    flat("400,000 predictions", &resident(&place, &predict));
}
