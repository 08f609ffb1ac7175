//! From a calibration to decisions, to a monitor: on tables and on pictures.

use std::fmt::Write;
use std::fs;

use serde_json::Value;

use crate::deploy::trained;
use crate::tables::{CONFIG, TRAIN, houses};
use crate::{Place, Said, fixture, json};

const CPU: [&str; 2] = ["--device", "cpu"];

/// A run on 800 houses, 256 of them kept for validation.
pub fn place() -> Place {
    let place = Place::new();
    place.write("houses.toml", &CONFIG.replace("validation_fraction = 0.2", "validation_fraction = 0.4"));
    place.write("data/houses.csv", &houses(800));
    train(&place, "run", "3");
    place
}

fn train(place: &Place, out: &str, seed: &str) {
    let seed = format!("seed={seed}");
    let more = [out, "--set", "train.epochs=30", "--set", "train.select=last", "--set", &seed];
    place.fidgp(&[&TRAIN[..], &more].concat()).ends(0);
}

fn calibrate(place: &Place, folder: &str, more: &[&str]) -> Said {
    place.fidgp(&[&["calibrate", folder, "--data", "data"][..], &CPU, more].concat())
}

fn lines(said: &Said) -> Vec<Value> {
    said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Houses that nobody has seen: sizes and ages between those of the others.
fn new_houses(rows: usize, shift: f64) -> (String, Vec<f64>) {
    let (mut text, mut prices) = ("\"size, m2\",age\n".to_owned(), Vec::new());
    for row in 0..rows {
        let part = |factor: usize| (row * factor % 997) as f64 / 997.0;
        let (size, age) = (0.99 * part(37) + shift, 0.99 * part(59));
        let _ = writeln!(text, "{size},{age}");
        prices.push(1000.0 + 300.0 * size - 100.0 * age + 50.0 * (part(83) - 0.5));
    }
    (text, prices)
}

#[test]
fn a_table_is_calibrated_and_its_predictions_decided() {
    let place = place();
    let said = calibrate(&place, "run", &["--wrong-beyond", "40", "--error", "0.1"]).ends(0);
    assert!(said.out.contains("rules from 205 examples of the validation part of houses.csv, checked on 51 others"));
    assert!(
        said.out.contains("the interval holds the number at level 95 %") && !said.out.contains("NOT"),
        "{}",
        said.out
    );
    let found = json(&place.path("run/calibration.json"));
    assert_eq!(found["examples"]["fitted"], 205);

    let (text, prices) = new_houses(400, 0.0);
    place.write("new.csv", &text);
    let predict = |words: &[&str]| place.fidgp(&[&["predict"][..], words, &CPU].concat()).ends(0);
    let inside = lines(&predict(&["run", "new.csv", "--jsonl"]));
    for (level, place) in [(0.9, 0), (0.95, 1)] {
        let holds = |(line, price): (&Value, &f64)| {
            let end = |name: &str| line["intervals"][place][name].as_f64().unwrap();
            end("lower") <= *price && *price <= end("upper")
        };
        let share = inside.iter().zip(&prices).filter(|&both| holds(both)).count() as f64 / 400.0;
        // of 205 examples and of 400: four standard errors of both
        let error = (level * (1.0 - level) * (1.0_f64 / 400.0 + 1.0 / 205.0)).sqrt();
        assert!((share - level).abs() < 4.0 * error, "{share} at {level}");
    }
    let accepted = inside.iter().filter(|line| line["decision"] == "accept").count();
    assert!(accepted > 300, "{accepted} of 400: {}", inside[0]);

    place.write("far.csv", "age,\"size, m2\"\n0.5,-500\n");
    let far = &lines(&predict(&["run", "far.csv", "--jsonl"]))[0];
    assert_eq!(far["decision"], "out-of-distribution");
    let reason = far["reason"].as_str().unwrap();
    assert!(reason.starts_with("size, m2 = -500 lies outside 0 … 0.9901 of the training data"), "{reason}");
    assert!(far["ood_p"].as_f64().unwrap() < 0.01 && far["out_of_range"][0].is_string(), "{far}");
    let table = predict(&["run", "far.csv"]).out;
    assert!(table.contains("out-of-distribution: size, m2 = -500"), "{table}");
    let csv = predict(&["run", "far.csv", "--csv"]).out;
    assert!(
        csv.starts_with("input,row,age,\"size, m2\",mean,sd,aleatoric,epistemic,lower_0.9,upper_0.9,")
            && csv.lines().count() == 2,
        "{csv}"
    );
}

#[test]
fn rules_go_with_their_weights_and_with_no_others() {
    let place = place();
    calibrate(&place, "run", &[]).ends(0);
    place.write("new.csv", &new_houses(3, 0.0).0);
    let predict = |model: &str| place.fidgp(&[&["predict", model, "new.csv", "--jsonl"][..], &CPU].concat());
    let mine = lines(&predict("run").ends(0));
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    for (mine, theirs) in mine.iter().zip(lines(&predict("model").ends(0))) {
        assert_eq!((&mine["decision"], &mine["intervals"]), (&theirs["decision"], &theirs["intervals"]));
    }
    let said = place.fidgp(&["export", "run", "--out", "half", "--dtype", "f16"]).ends(0);
    said.says(&["calibration.json stays behind", "fidgp calibrate half"]);
    assert!(lines(&predict("half").ends(0))[0]["decision"].is_null());
    calibrate(&place, "half", &[]).ends(0);
    assert!(lines(&predict("half").ends(0))[0]["decision"].is_string());

    train(&place, "other", "4");
    fs::copy(place.path("run/calibration.json"), place.path("other/calibration.json")).unwrap();
    predict("other").ends(1).says(&["calibration.json", "belongs to other weights", "fidgp calibrate"]);
    calibrate(&place, "other", &[]).ends(0); // a broken one does not stand in the way of a new one
    predict("other").ends(0);
    place.fidgp(&[&["fit-posterior", "other", "--data", "data"][..], &CPU].concat()).ends(0);
    predict("other").ends(1).says(&["another posterior"]);
    place.write("other/calibration.json", "{");
    predict("other").ends(1).says(&["calibration.json"]);
}

#[test]
fn what_cannot_be_promised_is_refused() {
    let place = place();
    let refused = |more: &[&str], words: &[&str]| drop(calibrate(&place, "run", more).ends(2).says(words));
    refused(&["--levels", "95"], &["--levels 95 must lie between 0 and 1", "0.95"]);
    refused(&["--error", "0"], &["--error 0"]);
    refused(&["--wrong-beyond=-1"], &["--wrong-beyond"]);
    refused(&["--ood-score", "confidence"], &["--ood-score must be one of total and epistemic"]);
    place.write("few.csv", "\"size, m2\",age,price\n0.5,0.5,1100\n");
    refused(&["--examples", "few.csv"], &["the examples are 1: too few"]);
    place.write("bare.csv", &new_houses(50, 0.0).0);
    calibrate(&place, "run", &["--examples", "bare.csv"]).ends(1).says(&["bare.csv", "no column `price`"]);
    assert!(!place.path("run/calibration.json").exists());
    let (text, prices) = new_houses(60, 0.0);
    let rows = text.lines().skip(1).zip(&prices).map(|(row, price)| format!("{row},{price}\n"));
    place.write("own.csv", &format!("\"size, m2\",age,price\n{}", rows.collect::<String>()));
    let said = calibrate(&place, "run", &["--examples", "own.csv"]).ends(0);
    assert!(said.out.contains("rules from 48 examples of own.csv, checked on 12 others"), "{}", said.out);
    let none = place.fidgp(
        &[
            &["calibrate", trained().to_str().unwrap(), "--data"][..],
            &[fixture("cifar100-small").to_str().unwrap()],
            &CPU,
        ]
        .concat(),
    );
    none.ends(2).says(&["data.validation_fraction", "--examples"]);
}

/// Rules for rows with other features than the examples: some of these are kept, or too few overlap.
#[test]
fn rules_for_shifted_rows_rest_on_examples_like_them() {
    let place = place();
    place.write("larger.csv", &new_houses(400, 0.3).0);
    place.write("elsewhere.csv", &new_houses(400, 50.0).0);
    let said = calibrate(&place, "run", &["--target-inputs", "larger.csv"]).ends(0);
    assert!(said.out.contains("of 256 examples kept, so that their features are distributed as those of the 400 rows"));
    let kept = json(&place.path("run/calibration.json"));
    let sizes = kept["reference"]["feature:size, m2"].as_array().unwrap();
    let mean = sizes.iter().filter_map(Value::as_f64).sum::<f64>() / sizes.len() as f64;
    assert!((30..200).contains(&sizes.len()) && mean > 0.6, "{mean} of {} sizes", sizes.len()); // of all examples 0.5
    calibrate(&place, "run", &["--target-inputs", "elsewhere.csv"]).ends(2).says(&[
        "--target-inputs",
        "elsewhere.csv: its rows differ so much from the 256 examples",
        "--examples",
    ]);
}

/// Quiet logs raise no alarm, shifted ones do; the exit code tells.
#[test]
fn a_monitor_tells_quiet_logs_from_others() {
    let place = place();
    calibrate(&place, "run", &[]).ends(0);
    let log = |name: &str, shift: f64, wrong: f64| {
        let (text, prices) = new_houses(600, shift);
        let stdin = place.path("rows.csv");
        fs::write(&stdin, text).unwrap();
        let mut command = place.command(&["predict", "run", "-", "--jsonl", "--device", "cpu"]);
        let output = command.stdin(fs::File::open(&stdin).unwrap()).output().unwrap();
        let said = Said::by(&output).ends(0);
        let labelled = |(mut line, price): (Value, &f64)| {
            line["label"] = (price + wrong).into();
            format!("{line}\n")
        };
        place.write(name, &lines(&said).into_iter().zip(&prices).map(labelled).collect::<String>());
    };
    log("quiet.jsonl", 0.0, 0.0);
    log("shifted.jsonl", 0.4, 0.0);
    log("wrong.jsonl", 0.0, 80.0);
    let quiet = place.fidgp(&["monitor", "run", "quiet.jsonl"]).ends(0);
    assert!(quiet.out.contains("Nothing has changed") && quiet.out.contains("600 lines"), "{}", quiet.out);
    let shifted = place.fidgp(&["monitor", "run", "quiet.jsonl", "shifted.jsonl", "--out", "page.html"]).ends(3);
    assert!(
        shifted.out.contains("feature:size, m2") && shifted.out.contains("changed, seen at line"),
        "{}",
        shifted.out
    );
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("<h1>Monitor: run</h1>") && page.contains("<svg"), "{page}");
    let wrong = place.fidgp(&["monitor", "run", "wrong.jsonl", "--json"]).ends(3);
    let wrong: Value = serde_json::from_str(&wrong.out).unwrap();
    assert_eq!(wrong["watched"][0]["broken"], true);
    let errors = wrong["series"].as_array().unwrap().iter().find(|series| series["name"] == "error").unwrap();
    assert!(errors["alarm_at"].is_u64(), "{errors}");
    // labels that came later, joined by input and row
    let bare = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("label").map(|label| (line.to_string() + "\n", line, label)).unwrap()
    };
    let text = fs::read_to_string(place.path("wrong.jsonl")).unwrap();
    let parts: Vec<_> = text.lines().map(bare).collect();
    place.write("bare.jsonl", &parts.iter().map(|(text, ..)| text.as_str()).collect::<String>());
    let rows = parts.iter().map(|(_, line, label)| format!("{},{label},{}\n", line["row"], line["input"]));
    place.write("labels.csv", &("row,label,input\n".to_owned() + &rows.collect::<String>()));
    place.fidgp(&["monitor", "run", "bare.jsonl"]).ends(0);
    let said = place.fidgp(&["monitor", "run", "bare.jsonl", "--labels", "labels.csv"]).ends(3);
    assert!(said.out.contains("\nerror ") && said.out.contains("no longer kept, seen at line"), "{}", said.out);
    place.write("broken.jsonl", "{}\n");
    place.fidgp(&["monitor", "run", "broken.jsonl"]).ends(2).says(&["broken.jsonl, line 1 has none of the fields"]);
    place.fidgp(&["monitor", "run", "nowhere"]).ends(1).says(&["nowhere"]);
    fs::remove_file(place.path("run/calibration.json")).unwrap();
    place.fidgp(&["monitor", "run", "quiet.jsonl"]).ends(2).says(&["fidgp calibrate run"]);
}

/// Pictures: sets, a decision, as lines and as CSV, for a run without validation images.
#[test]
fn pictures_get_sets_and_a_decision() {
    let place = Place::new();
    crate::deploy::copied(&place);
    let data = fixture("cifar100-small");
    let at = ["--data", data.to_str().unwrap(), "--device", "cpu"];
    let words = ["calibrate", "run", "--examples", "test", "--levels", "0.8", "--sets", "aps", "--json"];
    let said = place.fidgp(&[&words[..], &at].concat()).ends(0);
    let found: Value = serde_json::from_str(&said.out).unwrap();
    assert!(found["calibration"]["reference"].is_null() && found["temperature"].is_null(), "{found}");
    assert_eq!(found["calibration"]["check"][0]["promised"], 0.8);
    let pictures = fixture("cifar100-pictures");
    let predict = |more: &[&str]| {
        place.fidgp(&[&["predict", "run", pictures.to_str().unwrap()][..], &CPU, more].concat()).ends(0)
    };
    let lines = lines(&predict(&["--jsonl"]));
    assert_eq!(lines.len(), 8);
    for line in &lines {
        let set = line["sets"][0]["classes"].as_array().unwrap();
        assert!(set.contains(&line["class"]) && line["reason"].is_string(), "{line}");
    }
    let csv = predict(&["--csv"]).out;
    assert!(csv.lines().next().unwrap().contains("set_0.8") && csv.lines().count() == 9, "{csv}");
    assert!(predict(&[]).out.contains("80 % {"));
    // examples in folders named after classes
    let labelled = place.path("labelled");
    for class in ["apple", "castle"] {
        fs::create_dir_all(labelled.join(class)).unwrap();
        for copy in 0..12 {
            fs::copy(pictures.join("apple.png"), labelled.join(class).join(format!("{copy}.png"))).unwrap();
        }
    }
    let own = ["calibrate", "run", "--examples", "labelled"];
    let said = place.fidgp(&[&own[..], &at].concat()).ends(0);
    assert!(said.out.contains("rules from 19 examples of labelled, checked on 5 others"), "{}", said.out);
    fs::rename(labelled.join("castle"), labelled.join("castel")).unwrap();
    place.fidgp(&[&own[..], &at].concat()).ends(1).says(&["`castel`", "no class of the model"]);
}

#[test]
fn the_report_of_a_calibrated_model_begins_with_a_verdict() {
    let place = place();
    place.write("foreign.csv", "\"size, m2\",age\n500,0.5\n0.5,-70\n0.5,0.5\n");
    let said = calibrate(&place, "run", &["--coverage", "0.8", "--ood-inputs", "foreign.csv"]).ends(0);
    let counted = "out-of-distribution inputs, foreign.csv: 66.67 % of 3 called out-of-distribution";
    assert!(said.out.contains(counted) && said.out.contains("80 % of the inputs ("), "{}", said.out);
    let report = |folder: &str| place.fidgp(&["report", folder]);
    let page = |folder: &str| fs::read_to_string(place.path(&format!("{folder}/report.html"))).unwrap();
    report("run").ends(0);
    let first = page("run");
    let [verdict, metrics] =
        ["May I act on its predictions?", "Results on houses.csv"].map(|one| first.find(one).unwrap());
    assert!(verdict < metrics && first.contains("recognises 66.67\u{a0}% of foreign.csv"));
    assert!(place.path("run/trust-coverage.svg").exists());

    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    report("model").ends(0);
    assert!(page("model").contains("Its predictions are off by "));
    place.fidgp(&["report", "model", "run"]).ends(2).says(&["`model` is a model folder"]);
    fs::remove_file(place.path("model/trust.json")).unwrap();
    report("model").ends(2).says(&["`model` has no trust.json", "fidgp calibrate model"]);

    train(&place, "other", "4"); // what was seen of other weights is not told of these
    for file in ["trust.json", "calibration.json"] {
        fs::copy(place.path(&format!("run/{file}")), place.path(&format!("other/{file}"))).unwrap();
    }
    report("other").ends(0).says(&["warning: no verdict", "belongs to other weights"]);
    assert!(!page("other").contains("May I act on"));
    place.write("run/trust.json", "{");
    report("run").ends(0).says(&["warning: no verdict", "trust.json"]);
    calibrate(&place, "run", &["--coverage", "0.8", "--error", "0.1"]).ends(2);
}
