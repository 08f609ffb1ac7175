//! Out-of-distribution scores of a real, small model: the table, the refusal, and what cannot be meant.

use std::fs;
use std::path::Path;

use fidgp_data::split;

use crate::configs::changed;
use crate::deploy::trained;
use crate::{Place, Said, fixture, json};

/// `fidgp ood` on the small model, with real ID images, in a folder of its own.
fn ood(place: &Place, data: &Path, more: &[&str]) -> Said {
    let data = data.to_str().expect("a readable path");
    crate::deploy::copied(place);
    let start = ["ood", "run", "--device", "cpu", "--data", data, "--out", "ood", "--batch", "16", "--draws", "0"];
    place.fidgp(&start.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
}

#[test]
fn a_model_is_benchmarked_controls_first() {
    let place = Place::new();
    let pictures = fixture("cifar100-pictures");
    let pictures = pictures.to_str().unwrap();
    let said = ood(
        &place,
        &fixture("cifar100-small"),
        &["--ood", pictures, "--choose-on", "noise,mixed,heldout", "--near", pictures],
    );
    let said = said.ends(0).says(&["the same images twice", "re-batched", "two halves", "held"]);
    for name in [
        "msp",
        "max-logit",
        "energy",
        "entropy",
        "gen",
        "odin",
        "gradnorm",
        "react",
        "scale",
        "ash",
        "mahalanobis",
        "relative-mahalanobis",
        "knn",
        "vim",
        "compat-residual",
        "residual",
        "variance+energy",
        "leverage+near",
        "chosen",
    ] {
        assert!(said.out.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name}\n{}", said.out);
    }
    assert!(said.out.contains("chosen on noise, mixed, heldout among"), "{}", said.out);
    let document = json(&place.path("ood/ood.json"));
    assert_eq!(document["schema"], "fidgp-ood/1");
    assert_eq!((&document["controls_skipped"], &document["sets"][0]["group"]), (&false.into(), &"nearood".into()));
    for what in ["forward", "variance", "residual"] {
        assert!(document["cost"][what].as_f64().unwrap() > 0.0, "{}", document["cost"]);
    }
    assert!(said.out.contains("cost in forward passes: variance"), "{}", said.out);
    for control in document["controls"].as_array().unwrap() {
        assert_eq!(control["passed"], true, "{control}");
    }
    for score in document["scores"].as_array().unwrap() {
        let metrics = &score["sets"]["cifar100-pictures"];
        let (auroc, interval) = (metrics["AUROC"].as_f64().unwrap(), &metrics["interval"]);
        assert!((0.0..=1.0).contains(&auroc), "{score}");
        assert!(interval["lo"].as_f64().unwrap() <= auroc && auroc <= interval["hi"].as_f64().unwrap(), "{score}");
    }
    let page = fs::read_to_string(place.path("ood/report.html")).unwrap();
    assert!(page.contains("Controls") && page.contains("<svg") && !page.contains("WARNING"), "{page}");
    assert!(fs::read_to_string(place.path("ood/ood.csv")).unwrap().starts_with("score,set,FPR@95 (OoD caught)"));
    let scores = fs::read(place.path("ood/scores/id.safetensors")).unwrap();
    assert!(String::from_utf8_lossy(&scores).contains("variance/layer1.0.conv1"));
}

/// The released procedure fails its own null control, in the table, the page and the document; the lemma stands beside it.
#[test]
fn the_released_procedure_fails_in_public_and_the_lemma_is_measured() {
    let place = Place::new();
    let pictures = fixture("cifar100-pictures");
    let more = ["--ood", pictures.to_str().unwrap(), "--limit", "24", "--paper-protocol", "--spectral"];
    let said = ood(&place, &fixture("cifar100-small"), &more).ends(0);
    let null = said.out.lines().find(|line| line.starts_with("null: ID against ID")).unwrap();
    assert!(null.contains("must be 50: FAILED"), "{null}");
    assert!(said.out.contains("S > 2|E|") && said.out.contains("guarantees nothing"), "{}", said.out);
    let document = json(&place.path("ood/ood.json"));
    let paper = &document["paper_protocol"];
    assert_eq!(paper["passed"], false);
    let numbers = |values: &serde_json::Value| -> Vec<f64> {
        values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    };
    let null = numbers(&paper["null"]);
    assert!(null.len() == 5 && null.iter().any(|auroc| (auroc - 0.5).abs() > 1e-9), "{null:?}");
    assert_eq!(numbers(&paper["sets"][0][1]).len(), 5);
    let layers = document["spectral"]["layers"].as_array().unwrap();
    assert!(layers.len() > 5, "{layers:?}");
    for layer in layers {
        let of = |name: &str| layer[name].as_f64().unwrap();
        assert!(of("noise_measured") > 0.0 && of("noise_measured") < 1.3 * of("noise_bound"), "{layer}");
        let (set, d) = (&layer["sets"][0], numbers(&layer["id"]["d"]));
        let least = set["residuals"]["s_least"].as_f64().unwrap();
        assert_eq!(set["inequality"], least > 2.0 * of("noise_measured"));
        assert!(d.is_sorted() && d[0] >= 0.0, "{d:?}");
    }
    let page = fs::read_to_string(place.path("ood/report.html")).unwrap();
    assert!(page.contains("The null control FAILED") && page.contains("lemma, as measured"));
}

/// Fitted once: the second benchmark reads what the first one kept and gives the same table; other weights fit again.
#[test]
#[expect(clippy::disallowed_methods, reason = "the file is ours")]
fn statistics_are_fitted_once_and_again_for_other_weights() {
    let place = Place::new();
    let run = crate::deploy::copied(&place);
    let (data, pictures) = (fixture("cifar100-small"), fixture("cifar100-pictures"));
    let (data, pictures) = (data.to_str().unwrap(), pictures.to_str().unwrap());
    let words = ["ood", "run", "--device", "cpu", "--data", data, "--ood", pictures, "--draws", "0", "--json"];
    let words = [words.as_slice(), &["--choose-on", "mixed", "--batch", "16", "--limit", "40"]].concat();
    let scores = |said: &Said| serde_json::from_str::<serde_json::Value>(&said.out).unwrap()["scores"].clone();
    let first = place.fidgp(&words).ends(0).says(&["fitted on", "ood-statistics.safetensors"]);
    let second = place.fidgp(&words).ends(0).says(&["read, not fitted again"]);
    assert_eq!(scores(&first), scores(&second));
    place.fidgp(&[words.as_slice(), &["--fresh"]].concat()).ends(0).says(&["fitted on"]);
    let smaller = |more: &[&str]| place.fidgp(&[words.as_slice(), more].concat()).ends(0);
    smaller(&["--forward-only"]).says(&["read, not fitted again"]);
    smaller(&["--fit", "24"]).says(&["fitted on 24", "holds fuller statistics"]);
    smaller(&[]).says(&["read, not fitted again"]);
    let path = run.join("checkpoint/last.safetensors");
    let mut tensors = tch::Tensor::read_safetensors(&path).unwrap();
    for (name, tensor) in &mut tensors {
        if name.ends_with("inducing_mean") {
            *tensor = &*tensor * 1.01;
        }
    }
    tch::Tensor::write_safetensors(&tensors, &path).unwrap();
    let third = place.fidgp(&words).ends(0).says(&["fitted on"]);
    assert!(!third.err.contains("not fitted again"), "{}", third.err);
}

/// A plain network has no U to draw, and every score that needs none.
#[test]
fn a_plain_network_has_scores_and_no_released_procedure() {
    let place = Place::new();
    place.write("plain.toml", &changed(&crate::wrap::PLAIN, "train.epochs = 1"));
    let (data, pictures) = (fixture("cifar100-small"), fixture("cifar100-pictures"));
    let (data, pictures) = (data.to_str().unwrap(), pictures.to_str().unwrap());
    place.fidgp(&["train", "plain.toml", "--device", "cpu", "--data", data, "--out", "run"]).ends(0);
    let words = ["ood", "run", "--device", "cpu", "--data", data, "--ood", pictures, "--batch", "16"];
    let said = place.fidgp(&words).ends(0);
    for name in ["odin", "ash", "subspace", "leverage+near"] {
        assert!(said.out.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name}\n{}", said.out);
    }
    assert!(json(&place.path("run/ood/ood.json"))["spectral"].is_null());
    place.fidgp(&[words.as_slice(), &["--paper-protocol"]].concat()).ends(2).says(&["--paper-protocol", "without a U"]);
}

/// The same command gives the same document, but for the time it took.
#[test]
fn the_same_command_gives_the_same_numbers() {
    let place = Place::new();
    let pictures = fixture("cifar100-pictures");
    let numbers = || {
        let more = ["--ood", pictures.to_str().unwrap(), "--json", "--forward-only", "--draw", "1", "--limit", "20"];
        let said = ood(&place, &fixture("cifar100-small"), &more).ends(0);
        let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(document["u"], "draw 1");
        document["scores"].clone()
    };
    assert_eq!(numbers(), numbers());
}

/// The arrays that a benchmark leaves are the input of one without a model, and give the same numbers.
#[test]
#[expect(clippy::disallowed_methods, reason = "the file is ours")]
fn arrays_give_the_scores_of_the_model_they_came_from() {
    let place = Place::new();
    let pictures = fixture("cifar100-pictures");
    let more = ["--ood", pictures.to_str().unwrap(), "--json", "--forward-only"];
    let of_model: serde_json::Value =
        serde_json::from_str(&ood(&place, &fixture("cifar100-small"), &more).ends(0).out).unwrap();
    let read = |set: &str| {
        let all = tch::Tensor::read_safetensors(place.path(&format!("ood/scores/{set}.safetensors"))).unwrap();
        move |name: &str| all.iter().find(|(found, _)| found == name).unwrap().1.shallow_clone()
    };
    let (id, set) = (read("id"), read("cifar100-pictures"));
    for (file, what) in [("l.safetensors", "logits"), ("f.safetensors", "features")] {
        tch::Tensor::write_safetensors(&[("id", id(what)), ("pictures", set(what))], place.path(file)).unwrap();
    }
    let words = ["ood", "--logits", "l.safetensors", "--features", "f.safetensors", "--ood", "pictures", "--json"];
    let said = place.fidgp(&[words.as_slice(), &["--batch", "7"]].concat()).ends(0).says(&["no tensor `fit`"]);
    let of_arrays: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let auroc = |document: &serde_json::Value, score: &str, set: &str| {
        let scores = document["scores"].as_array().unwrap().clone();
        scores.iter().find(|own| own["name"] == score).unwrap()["sets"][set]["AUROC"].as_f64().unwrap()
    };
    for score in ["msp", "energy", "gradnorm"] {
        let (a, b) = (auroc(&of_model, score, "cifar100-pictures"), auroc(&of_arrays, score, "pictures"));
        assert!((a - b).abs() < 0.01, "{score}: {a} {b}"); // one pair of 256 may change sides by rounding
    }
    place
        .fidgp(&["ood", "--logits", "l.safetensors", "--ood", "svhn"])
        .ends(1)
        .says(&["l.safetensors", "`svhn` is missing"]);
    place.fidgp(&["ood", "--features", "f.safetensors", "--ood", "svhn"]).ends(2).says(&["--logits"]);
}

/// An ID set whose two halves, as the fixed split cuts them, are noise and flat colour.
fn two_populations(place: &Place) {
    let real = fixture("cifar100-small/cifar-100-binary");
    let folder = place.path("data/cifar-100-binary");
    fs::create_dir_all(&folder).unwrap();
    for file in ["train.bin", "fine_label_names.txt"] {
        fs::copy(real.join(file), folder.join(file)).unwrap();
    }
    let mut rows = vec![Vec::new(); 60];
    for (place, row) in split::epoch_order(60, 2, 0).into_iter().enumerate() {
        let pixel = |i: usize| if place < 30 { (i * 97 % 251) as u8 } else { 128 };
        rows[row] = [0, 0].into_iter().chain((0..3072).map(|i| pixel(i * (row + 1)))).collect();
    }
    fs::write(folder.join("test.bin"), rows.concat()).unwrap();
}

#[test]
fn a_failed_control_refuses_the_table() {
    let place = Place::new();
    two_populations(&place);
    let pictures = fixture("cifar100-pictures");
    let more = ["--ood", pictures.to_str().unwrap(), "--forward-only"];
    let said = ood(&place, &place.path("data"), &more).ends(1);
    let said =
        said.says(&["no table: a control failed", "two halves of the ID set", "FAILED", "--unsafe-skip-controls"]);
    assert!(said.out.is_empty() && !place.path("ood").exists(), "{said:?}");
    let more = [more.as_slice(), &["--unsafe-skip-controls"]].concat();
    let said = ood(&place, &place.path("data"), &more).ends(0);
    assert!(said.out.starts_with("WARNING"), "{}", said.out);
    assert!(
        fs::read_to_string(place.path("ood/report.html"))
            .unwrap()
            .contains("WARNING: controls failed and were skipped")
    );
    assert_eq!(json(&place.path("ood/ood.json"))["controls_skipped"], true);
}

#[test]
fn what_cannot_be_meant_is_said() {
    let place = Place::new();
    let data = fixture("cifar100-small");
    for (more, named) in [
        (["--ood", "svhn", "--choose-on", "svhn"].as_slice(), "must not be reported on it"),
        (&["--ood", "cifar100"], "is the ID set itself"),
        (&["--ood", "noise,noise"], "is named twice"),
        (&["--ood", "a/val,b/val"], "`--ood b/val` is the second set called `val`"),
        (&["--ood", "a/id"], "`--ood a/id` has the name under which the ID set's own scores are kept"),
        (&["--ood", "nowhere"], "neither a known set nor a folder of pictures"),
        (&["--ood", "svhn", "--near", "mnist"], "is not among the --ood sets"),
        (&[], "--ood"),
    ] {
        ood(&place, &data, more).ends(2).says(&[named]);
    }
    let pictures = fixture("cifar100-pictures");
    let model = trained().to_str().unwrap();
    let data = data.to_str().unwrap();
    let words = ["ood", model, "--ood", pictures.to_str().unwrap(), "--data", data, "--device", "cpu", "--draws", "1"];
    place.fidgp(&words).ends(2).says(&["--draws 1", "at least 2"]);
    ood(&place, Path::new(data), &["--ood", "svhn"]).ends(1).says(&["svhn"]); // known, but not there
    let regression = Place::new();
    regression.train(&[]).ends(0);
    regression.fidgp(&["ood", "run", "--ood", "svhn", "--data", data]).ends(2).says(&["rows of a table"]);
}
