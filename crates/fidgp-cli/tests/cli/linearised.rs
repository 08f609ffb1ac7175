//! The linearised posterior from a config, for what is trained already, exported, and refused.

use std::fs;

use serde_json::Value;

use crate::tables::{TRAIN, place};
use crate::{Place, json};

/// Rows within the data, and one far from them.
const ROWS: &str = "\"size, m2\",age\n0.5,0.5\n0.2,0.7\n12,-9\n";

fn predicted(place: &Place, model: &str) -> Vec<Value> {
    place.write("rows.csv", ROWS);
    let said = place.fidgp(&["predict", model, "rows.csv", "--device", "cpu", "--json"]).ends(0);
    let said: Value = serde_json::from_str(&said.out).unwrap();
    said["inputs"].as_array().unwrap().iter().map(|input| input["prediction"].clone()).collect()
}

fn epistemic(rows: &[Value]) -> Vec<f64> {
    rows.iter().map(|row| row["epistemic_sd"].as_f64().unwrap()).collect()
}

#[test]
fn what_is_trained_gets_one_keeps_it_when_exported_and_loses_it_when_asked() {
    let place = place();
    place.fidgp(&[&TRAIN[..], &["run"]].concat()).ends(0);
    let before = predicted(&place, "run");
    let fit =
        |more: &[&str]| place.fidgp(&[&["fit-posterior", "run", "--device", "cpu", "--data", "data"], more].concat());
    fit(&["--set", "posterior.prior_precision=evidence"]).ends(0);
    let record = json(&place.path("run/posterior.json"));
    assert_eq!(record["structure"], "dense");
    assert!(record["decided"].as_f64().unwrap() > 1.0 && record["prior_precision"].as_f64().unwrap() > 0.0, "{record}");
    let after = predicted(&place, "run");
    let sd = epistemic(&after);
    assert!(sd[2] > 5.0 * sd[0].max(sd[1]), "far from the data there is more uncertainty: {sd:?}");
    for (before, after) in before.iter().zip(&after).take(2) {
        let (a, b) = (before["mean"].as_f64().unwrap(), after["mean"].as_f64().unwrap());
        assert!((a - b).abs() < 30.0, "the mean is that of the trained network: {a} {b}");
    }
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    for (mine, theirs) in after.iter().zip(predicted(&place, "model")) {
        for field in ["mean", "epistemic_sd", "noise_sd"] {
            let (a, b) = (mine[field].as_f64().unwrap(), theirs[field].as_f64().unwrap());
            assert!((a - b).abs() <= 1e-6 * a.abs(), "{field}: {a} {b}");
        }
    }
    let low = ["--set", "posterior.structure=low-rank", "--set", "posterior.rank=3"];
    fit(&low).ends(0);
    assert!(json(&place.path("run/posterior.json"))["share"].as_f64().unwrap() < 1.0);
    fit(&["--set", "posterior.kind=flow"]).ends(0);
    assert!(!place.path("run/posterior.json").exists() && !place.path("run/posterior.safetensors").exists());
    assert_eq!(predicted(&place, "run"), before);
}

#[test]
fn a_config_that_asks_for_one_is_measured_with_it() {
    let place = place();
    let train = |out: &str, more: &[&str]| {
        place.fidgp(&[&TRAIN[..], &[out], more].concat()).ends(0);
        json(&place.path(&format!("{out}/results.json")))["metrics"].clone()
    };
    let (flow, linearised) = (train("flow", &[]), train("own", &["--set", "posterior.kind=linearised"]));
    assert_ne!(flow["reg/EpistemicSD"], linearised["reg/EpistemicSD"]);
    let again = place.fidgp(&["eval", "own", "--device", "cpu", "--data", "data", "--json"]).ends(0);
    let again: Value = serde_json::from_str(&again.out).unwrap();
    for name in ["reg/NLL", "reg/EpistemicSD", "validation/reg/NLL"] {
        let (a, b) = (again["metrics"][name].as_f64().unwrap(), linearised[name].as_f64().unwrap());
        assert!((a - b).abs() < 1e-4 * b.abs().max(1.0), "{name}: {a} {b}");
    }
}

#[test]
fn a_posterior_whose_draws_do_not_differ_is_warned_of_in_words_and_on_record() {
    let place = place();
    let said = place.fidgp(&[&TRAIN[..], &["sound", "--set", "posterior.kind=linearised"]].concat()).ends(0);
    assert!(said.out.contains("of the predictive uncertainty (variance) on"), "{}", said.out);
    assert!(!said.err.contains("practically nil"), "{}", said.err);
    let sound = json(&place.path("sound/results.json"))["uncertainty"].clone();
    assert!(sound["share"].as_f64().unwrap() > 0.005 && sound["scrambled"].as_f64().is_some(), "{sound}");
    let tiny = ["init_sd_u=1e-7", "max_sd_u=1e-6", "init_lamda=1e-7", "max_lamda=1e-6"];
    let tiny: Vec<_> = tiny.iter().flat_map(|tiny| ["--set".to_owned(), format!("inducing.{tiny}")]).collect();
    let tiny: Vec<_> = tiny.iter().map(String::as_str).collect();
    let said = place.fidgp(&[&TRAIN[..], &["inert"], &tiny].concat()).ends(0);
    let words = ["warning: the epistemic uncertainty is practically nil", "fidgp fit-posterior", "inducing.max_sd_u"];
    assert!(words.iter().all(|word| said.err.contains(word)), "{}", said.err);
    let inert = json(&place.path("inert/results.json"))["uncertainty"].clone();
    assert!(inert["share"].as_f64().unwrap() < 1e-4, "{inert}");
    let again = place.fidgp(&["eval", "inert", "--device", "cpu", "--data", "data"]).ends(0);
    assert!(again.err.contains("practically nil"), "{}", again.err);
    place.fidgp(&["report", "inert"]).ends(0);
    let page = fs::read_to_string(place.path("inert/report.html")).unwrap();
    assert!(page.contains("Warning: the epistemic uncertainty is practically nil"));
}

#[test]
fn a_posterior_of_other_weights_or_damaged_is_named() {
    let place = place();
    let train = |out: &str, seed: &str| {
        let set = ["--set", "posterior.kind=linearised", "--set", "train.select=last", "--set", seed];
        place.fidgp(&[&TRAIN[..], &[out], &set[..]].concat()).ends(0);
    };
    train("run", "seed=0");
    place.write("rows.csv", ROWS);
    let (tensors, path) = (place.path("run/posterior.safetensors"), place.path("run/posterior.json"));
    let sound = fs::read(&tensors).unwrap();
    let step = json(&path)["step"].as_u64().unwrap();
    let predict = || place.fidgp(&["predict", "run", "rows.csv", "--device", "cpu"]);
    let changed = |from: &str, to: &str| fs::write(&tensors, in_header(&sound, from, to)).unwrap();
    changed(&format!("\\\"step\\\":{step}"), "\\\"step\\\":1");
    predict().ends(1).says(&["posterior.safetensors", "belongs to the weights of step 1", "fit-posterior"]);
    changed("\\\"dense\\\"", "\\\"sparse\\\"");
    predict().ends(1).says(&["posterior.safetensors", "sparse"]);
    fs::write(&tensors, &sound).unwrap();
    fs::remove_file(&path).unwrap(); // for people
    predict().ends(0);

    // of another run with as many steps
    train("other", "seed=9");
    fs::copy(place.path("other/posterior.safetensors"), &tensors).unwrap();
    predict().ends(1).says(&["posterior.safetensors", "belongs to other weights"]);

    // as it was written before: the record beside the tensors
    let mut record = json(&place.path("other/posterior.json"));
    let bytes = fs::read(place.path("other/posterior.safetensors")).unwrap();
    fs::write(&tensors, in_header(&bytes, "\"posterior\":", "\"posteriox\":")).unwrap();
    record["sha256"] = fidgp_data::file_sha256(&tensors).unwrap().into();
    record.as_object_mut().unwrap().remove("weights_sha256");
    fs::write(&path, record.to_string()).unwrap();
    predict().ends(1).says(&["posterior.json", &format!("belongs to the weights of step {step}")]);
    record["step"] = 0.into(); // as in a model folder
    fs::write(&path, record.to_string()).unwrap();
    predict().ends(1).says(&["these are of step"]);
    fs::write(&tensors, &sound).unwrap();
    fs::remove_file(&tensors).unwrap();
    predict().ends(1).says(&["posterior.safetensors"]);
}

/// A safetensors file with a text of its header changed.
fn in_header(file: &[u8], from: &str, to: &str) -> Vec<u8> {
    let length = u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
    let header = std::str::from_utf8(&file[8..8 + length]).unwrap();
    assert!(header.contains(from), "`{from}` is not in {header}");
    let header = header.trim_end().replace(from, to);
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &file[8 + length..]].concat()
}

/// The tensors of a posterior in a model folder, of other shapes: refused by name when it is opened.
#[test]
fn a_posterior_of_other_shapes_is_refused() {
    use fidgp_lab::train::checkpoint::{load_with, sha256, write};
    use tch::{Device, Kind, Tensor};
    let place = place();
    place.write("rows.csv", ROWS);
    place.fidgp(&[&TRAIN[..], &["run"]].concat()).ends(0);
    let predict = || place.fidgp(&["predict", "run", "rows.csv", "--device", "cpu"]);
    for (structure, names) in [
        ("dense", &["features", "curvature", "eigenvalues", "precision"][..]),
        ("kronecker", &["0.row", "0.col", "1.eigenvalues", "precision"]),
        ("low-rank", &["basis", "eigenvalues", "share"]),
    ] {
        let structure = format!("posterior.structure={structure}");
        let fit = ["fit-posterior", "run", "--device", "cpu", "--data", "data", "--set", &structure];
        place.fidgp(&[&fit[..], &["--set", "posterior.rank=3"]].concat()).ends(0);
        predict().ends(0);
        let path = place.path("run/posterior.safetensors");
        let (sound, record) = load_with(&path, "posterior").unwrap();
        for name in names.iter().filter(|name| sound.tensors.contains_key(**name)) {
            for shape in [&[0_i64][..], &[7], &[3, 5], &[0, 4], &[2, 2, 2]] {
                let mut tensors: std::collections::BTreeMap<_, _> =
                    sound.tensors.iter().map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect();
                tensors.insert((*name).to_owned(), Tensor::ones(shape, (Kind::Double, Device::Cpu)));
                let mut record: Value = serde_json::from_str(record.as_ref().unwrap()).unwrap();
                record["sha256"] = sha256(&tensors).unwrap().into();
                let tensors: Vec<_> = tensors.into_iter().collect();
                write(&path, &tensors, ("posterior", record.to_string())).unwrap();
                let said = predict();
                assert!(
                    said.code == Some(1) && said.err.contains("posterior.safetensors"),
                    "{name} {shape:?}: {said:?}"
                );
            }
        }
    }
}

/// A model folder has the digests of its posterior, one that is fitted there anew has new ones, and a kill between the steps
/// leaves a posterior that works.
#[test]
fn a_model_folder_knows_its_posterior() {
    let place = place();
    place.write("rows.csv", ROWS);
    place.fidgp(&[&TRAIN[..], &["run", "--set", "posterior.kind=linearised"]].concat()).ends(0);
    place.fidgp(&[&TRAIN[..], &["other", "--set", "posterior.kind=linearised", "--set", "seed=9"]].concat()).ends(0);
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    place.fidgp(&["export", "other", "--out", "else"]).ends(0);
    let predict = || place.fidgp(&["predict", "model", "rows.csv", "--device", "cpu"]);
    let sound = predict().ends(0).out;
    let copy = |from: &str, name: &str| fs::copy(place.path(from).join(name), place.path("model").join(name)).unwrap();
    fs::create_dir(place.path("kept")).unwrap();
    for name in ["posterior.json", "posterior.safetensors"] {
        fs::copy(place.path("model").join(name), place.path("kept").join(name)).unwrap();
        copy("else", name);
        predict().ends(1).says(&[&format!("model/{name}"), "SHA-256 differ", "a mixture"]);
        fs::remove_file(place.path("model").join(name)).unwrap();
        predict().ends(1).says(&[&format!("model/{name}"), "is missing"]);
        copy("kept", name);
    }
    // as a kill leaves it: the digests are gone from the config, the posterior is old or new
    let config = place.path("model/config.json");
    let whole = fs::read(&config).unwrap();
    let mut without = json(&config);
    without["sha256"].as_object_mut().unwrap().retain(|part, _| !part.starts_with("posterior"));
    fs::write(&config, without.to_string()).unwrap();
    assert_eq!(predict().ends(0).out, sound);
    copy("else", "posterior.safetensors");
    predict().ends(1).says(&["model/posterior.safetensors", "belongs to other weights"]);
    copy("kept", "posterior.safetensors");
    fs::write(&config, whole).unwrap();
    let fit = ["fit-posterior", "model", "--device", "cpu", "--data", "data", "--set", "posterior.prior_precision=9"];
    place.fidgp(&fit).ends(0);
    assert_ne!(predict().ends(0).out, sound);
    assert!(json(&config)["sha256"]["posterior.safetensors"].is_string());
}

#[test]
fn what_cannot_have_one_is_refused() {
    let place = place();
    let refused = |overrides: &[&str], words: &[&str]| {
        let set: Vec<_> = overrides.iter().flat_map(|o| ["--set", o]).collect();
        place.fidgp(&[&TRAIN[..], &["run"], &set].concat()).ends(2).says(words);
    };
    refused(&["posterior.kind=linearised", "posterior.rank=0"], &["posterior.rank", "at least 1"]);
    refused(
        &["posterior.kind=linearised", "posterior.prior_precision=-1"],
        &["posterior.prior_precision", "greater than 0"],
    );
    refused(&["posterior.kind=sometimes"], &["posterior"]);
    refused(
        &["posterior.kind=linearised", "posterior.layers=[\"fc9\"]", "train.epochs=1", "train.select=last"],
        &["fc9", "fc1"],
    );
}

/// The reference of a tiny network: the dense posterior is the exact Gaussian process, and what is no such network is refused.
#[test]
fn a_run_is_compared_with_reference_posteriors() {
    let place = Place::new();
    let config =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/regression-small.toml")).unwrap();
    place.write("small.toml", &config);
    let tiny = ["data.train=12", "network.hidden=[3]", "train.epochs=20", "train.batch_size=12"];
    let set: Vec<_> = tiny.iter().flat_map(|change| ["--set", change]).collect();
    place.fidgp(&[&["train", "small.toml", "--out", "run", "--device", "cpu"], &set[..]].concat()).ends(0);
    let short = ["reference", "run", "--chains", "2", "--draws", "40", "--warmup", "60"];
    let said = place.fidgp(&[&short[..], &["--json"]].concat()).ends(0);
    let found: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(found["weights"], 10);
    assert!(found["dense_error"].as_f64().unwrap() < 1e-6, "{found}");
    assert!(found["chains"]["r_hat"].as_f64().unwrap() >= 1.0);
    let sd = |row: usize| found["posteriors"][row]["metrics"]["reg/EpistemicSD_outside"].as_f64().unwrap();
    assert_eq!(found["posteriors"].as_array().unwrap().len(), 4);
    assert!((sd(2) - sd(3)).abs() < 1e-6 * sd(2), "the run predicts with the dense posterior of its inducing space");
    assert!(sd(1) >= sd(2) - 1e-6, "all weights know at least as much as the inducing matrices");
    place.fidgp(&short).ends(0);
    let set = ["--set", "network.batch_norm=true"];
    place
        .fidgp(
            &[&["train", "small.toml", "--out", "normed", "--device", "cpu", "--set", "train.epochs=2"], &set[..]]
                .concat(),
        )
        .ends(0);
    place.fidgp(&["reference", "normed"]).ends(2).says(&["batch_norm = false"]);
}

/// What is said of a run is of what predicts: results, page, predictions, card; and what was measured before is gone.
#[test]
fn everything_says_that_the_posterior_predicts() {
    let place = place();
    place.fidgp(&[&TRAIN[..], &["run"]].concat()).ends(0);
    let before = json(&place.path("run/results.json"));
    assert!(before["predicts_with"].is_null());
    fs::create_dir_all(place.path("run/ood")).unwrap();
    place.write("run/ood/ood.json", "{}");
    let fit = |model: &str, more: &[&str]| {
        place.fidgp(&[&["fit-posterior", model, "--device", "cpu", "--data", "data"], more].concat())
    };
    fit("run", &["--set", "data.path=other.csv"]).ends(2).says(&["posterior.", "no effect"]);
    fit("run", &["--no-eval"]).ends(0);
    assert_eq!(json(&place.path("run/results.json")), before);
    assert!(!place.path("run/ood/ood.json").exists(), "it was of weight draws");
    let said = fit("run", &[]).ends(0);
    assert!(said.out.contains("predicted with the linearised posterior (dense, 2 layers)"), "{}", said.out);
    let after = json(&place.path("run/results.json"));
    assert_ne!(after["metrics"]["reg/EpistemicSD"], before["metrics"]["reg/EpistemicSD"]);
    assert_eq!(after["time"]["train_seconds"], before["time"]["train_seconds"]);
    let command = after["command"].as_str().unwrap();
    assert!(command.starts_with("fidgp train") && command.contains("&& fidgp fit-posterior run"), "{command}");
    place.fidgp(&["report", "run"]).ends(0);
    let page = fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(page.contains("Predicted with the linearised posterior"));
    place.write("rows.csv", ROWS);
    let said = place.fidgp(&["predict", "run", "rows.csv", "--device", "cpu"]).ends(0);
    assert!(said.out.contains("in closed form") && !said.out.contains("weight draws"), "{}", said.out);
    let said = place.fidgp(&["predict", "run", "rows.csv", "--device", "cpu", "--json"]).ends(0);
    assert_eq!(serde_json::from_str::<Value>(&said.out).unwrap()["draws"], 0);
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    let card = |model: &str| fs::read_to_string(place.path(&format!("{model}/README.md"))).unwrap();
    assert!(card("model").contains("in closed form") && !card("model").contains("weight draws"), "{}", card("model"));
    fit("run", &["--set", "posterior.kind=flow"]).ends(0);
    let sd = |results: &Value| results["metrics"]["reg/EpistemicSD"].as_f64().unwrap();
    let (again, first) = (sd(&json(&place.path("run/results.json"))), sd(&before));
    assert!((again - first).abs() < 1e-5 * first, "{again} {first}");
    place.fidgp(&["export", "run", "--out", "drawn"]).ends(0);
    assert!(card("drawn").contains("mean over weight draws"));
    fit("drawn", &[]).ends(0);
    assert!(card("drawn").contains("in closed form") && card("drawn").contains("measured with weight draws"));
    fit("drawn", &["--set", "posterior.kind=flow"]).ends(0);
    assert!(card("drawn").contains("mean over weight draws") && !card("drawn").contains("before it was fitted"));
}

/// What has no effect is refused: evidence and conditional of features, a noise level of classes.
#[test]
fn settings_without_effect_are_refused() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/cifar100-fidgp-all-pretrained.toml");
    let segmented = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/camvid-fidgp-four.toml");
    let place = Place::new();
    let refused = |config: &str, set: &str, words: &[&str]| {
        let line = ["train", config, "--dry-run", "--set", "posterior.kind=linearised", "--set", set];
        place.fidgp(&line).ends(2).says(words);
    };
    refused(config, "posterior.prior_precision=evidence", &["posterior.prior_precision", "posterior.variance"]);
    refused(config, "posterior.conditional=kept", &["posterior.conditional", "gradients"]);
    refused(config, "posterior.noise=evidence", &["posterior.noise", "classes"]);
    refused(segmented, "posterior.rank=3", &["posterior.kind", "masks", "flow"]);
}
