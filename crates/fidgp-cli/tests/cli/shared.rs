//! What is trained is measured, calibrated and scored by several processes as by one.

use std::fs;

use serde_json::Value;

use crate::decisions;
use crate::tables::houses;
use crate::{Place, Said, contents, fixture, json};

/// By one process, then by two.
const LAUNCHERS: [&[&str]; 2] = [&[], &["launch", "-n", "2"]];

/// A small network for pictures, in batches of eight.
fn pictures() -> Place {
    let place = Place::new();
    let toml = crate::deploy::copied(&place).join("run.toml");
    let text = fs::read_to_string(&toml).unwrap();
    let batches = text.lines().find(|line| line.starts_with("batch_size") && text.contains("[predict]"));
    assert!(batches.is_some(), "{text}");
    let (head, predict) = text.split_once("[predict]").unwrap();
    let predict = predict.lines().map(|line| if line.starts_with("batch_size") { "batch_size = 8" } else { line });
    fs::write(&toml, format!("{head}[predict]{}\n", predict.collect::<Vec<_>>().join("\n"))).unwrap();
    place
}

fn both(make: impl Fn() -> Place, words: &[&str]) -> [(Place, Said); 2] {
    LAUNCHERS.map(|launcher| {
        let place = make();
        let mut command = place.command(&[launcher, words].concat());
        command.env("OMP_NUM_THREADS", "1").env("FIDGP_GROUP_TIMEOUT", "120");
        let said = crate::Running::start(command).said().ends(0);
        (place, said)
    })
}

#[track_caller]
fn near(one: &Value, other: &Value, gap: f64, what: &str) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            assert!(one.keys().eq(other.keys()), "{what}: {one:?} {other:?}");
            one.iter().for_each(|(name, value)| near(value, &other[name], gap, &format!("{what}.{name}")));
        }
        (Value::Array(one), Value::Array(other)) => {
            assert_eq!(one.len(), other.len(), "{what}");
            one.iter().zip(other).for_each(|(one, other)| near(one, other, gap, what));
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= gap * a.abs().max(1.0), "{what}: {a} {b}");
        }
        (one, other) => assert_eq!(one, other, "{what}"),
    }
}

#[test]
fn an_evaluation_is_that_of_one_process() {
    let data = fixture("cifar100-small");
    let words = ["eval", "run", "--device", "cpu", "--data", data.to_str().unwrap(), "--json"];
    let [alone, together] = both(pictures, &words).map(|(_, said)| serde_json::from_str::<Value>(&said.out).unwrap());
    assert!(alone["metrics"].as_object().unwrap().len() > 5, "{alone}");
    assert_eq!(alone["metrics"], together["metrics"], "bit for bit");
    assert_eq!(alone["figures"], together["figures"]);
}

#[test]
fn scores_are_those_of_one_process() {
    let (data, foreign) = (fixture("cifar100-small"), fixture("cifar100-pictures"));
    let words = ["ood", "run", "--device", "cpu", "--data", data.to_str().unwrap(), "--ood", foreign.to_str().unwrap()];
    let [alone, together] = both(pictures, &[&words[..], &["--batch", "16", "--draws", "0"]].concat());
    let document = |place: &Place| json(&place.path("run/ood/ood.json"));
    for field in ["scores", "accuracy", "id_images", "fit_images", "sets"] {
        near(&document(&alone.0)[field], &document(&together.0)[field], 1e-12, field);
    }
    let kept = |place: &Place| fs::read(place.path("run/ood-statistics.safetensors"));
    assert_eq!(kept(&alone.0).ok(), kept(&together.0).ok(), "what is fitted");
    let files = |place: &Place| contents(&place.path("run")).len();
    assert_eq!(files(&alone.0), files(&together.0));
}

#[test]
fn pictures_are_calibrated_as_by_one_process() {
    let make = || {
        let place = pictures();
        for (class, all) in [("apple", ["apple", "castle"]), ("castle", ["castle", "apple"])] {
            fs::create_dir_all(place.path("labelled").join(class)).unwrap();
            for (copy, name) in (0..40).flat_map(|copy| all.map(|name| (copy, name))).take(72) {
                let from = fixture("cifar100-pictures").join(format!("{name}.png"));
                let from = if from.exists() { from } else { fixture("cifar100-pictures").join("apple.png") };
                fs::copy(from, place.path("labelled").join(class).join(format!("{copy:02}-{name}.png"))).unwrap();
            }
        }
        place
    };
    let data = fixture("cifar100-small");
    let words = ["calibrate", "run", "--examples", "labelled", "--device", "cpu", "--data", data.to_str().unwrap()];
    let [alone, together] = both(make, &words);
    assert_eq!(alone.1.out, together.1.out);
    let rules = |place: &Place| json(&place.path("run/calibration.json"));
    assert_eq!(rules(&alone.0)["reference"], rules(&together.0)["reference"]);
    assert_eq!(rules(&alone.0)["rules"], rules(&together.0)["rules"]);
}

#[test]
fn a_table_is_calibrated_and_fitted_as_by_one_process() {
    let make = || {
        let place = decisions::place();
        place.write("own.csv", &houses(9000));
        place
    };
    let words = ["calibrate", "run", "--examples", "own.csv", "--device", "cpu", "--data", "data"];
    let [alone, together] = both(make, &words);
    assert_eq!(alone.1.out, together.1.out);
    let rules = |place: &Place| json(&place.path("run/calibration.json"));
    assert_eq!(rules(&alone.0)["rules"], rules(&together.0)["rules"]);

    let fit = |place: Place, launcher: &[&str]| {
        let toml = fs::read_to_string(place.path("run/run.toml")).unwrap();
        let (head, predict) = toml.split_once("[predict]").unwrap();
        let predict: Vec<_> = predict.lines().filter(|line| !line.starts_with("batch_size")).collect();
        fs::write(place.path("run/run.toml"), format!("{head}[predict]\nbatch_size = 64{}\n", predict.join("\n")))
            .unwrap();
        place.fidgp(&[launcher, &["fit-posterior", "run", "--device", "cpu", "--data", "data"]].concat()).ends(0);
        let record = json(&place.path("run/posterior.json"));
        (record, json(&place.path("run/results.json"))["metrics"].clone())
    };
    let (one, measured) = fit(alone.0, LAUNCHERS[0]);
    let (two, again) = fit(together.0, LAUNCHERS[1]);
    near(&one["decided"], &two["decided"], 1e-6, "decided");
    near(&one["prior_precision"], &two["prior_precision"], 1e-6, "prior precision");
    near(&measured, &again, 1e-4, "metrics");
}

/// A process with another model is refused, and so is one that fails alone.
#[test]
fn processes_that_differ_are_refused() {
    let place = pictures();
    let other = pictures();
    let toml = fs::read_to_string(other.path("run/run.toml")).unwrap();
    fs::write(other.path("run/run.toml"), toml.replace("draws = 4", "draws = 3")).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let data = fixture("cifar100-small");
    let words = ["eval", "run", "--device", "cpu", "--data", data.to_str().unwrap()];
    let children = [&place, &other].into_iter().zip(["0", "1"]).map(|(place, rank)| {
        let mut command = place.command(&words);
        command.envs([("RANK", rank), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", &port)]);
        command.env("FIDGP_GROUP_TIMEOUT", "60");
        crate::Running::start(command)
    });
    for child in children.collect::<Vec<_>>() {
        child.said().ends(1).says(&["the config of rank 1 of 2", "is not that of rank 0"]);
    }
}
