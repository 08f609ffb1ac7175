//! An ImageNet-layout folder from pictures to metrics, with the shipped recipes.

use std::fs;

use image::{Rgb, RgbImage};

use crate::{Place, json};

const CLASSES: [&str; 3] = ["blue", "green", "red"];

/// Pictures of odd sizes, in the colour of their class with some texture.
fn write_pictures(place: &Place, train: u32, val: u32) {
    for (part, count) in [("train", train), ("val", val)] {
        for (class, name) in CLASSES.into_iter().enumerate() {
            let folder = place.path(&format!("data/tiny/{part}/{name}"));
            fs::create_dir_all(&folder).unwrap();
            for number in 0..count {
                let (width, height) = (40 + number % 7, 36 + number % 5);
                let picture = RgbImage::from_fn(width, height, |x, y| {
                    let texture = ((x * 7 + y * 13 + number * 29) % 60) as u8;
                    let mut pixel = [texture; 3];
                    pixel[2 - class] = 180 + texture;
                    Rgb(pixel)
                });
                let ending = if number % 2 == 0 { "png" } else { "jpg" };
                picture.save(folder.join(format!("{number:03}.{ending}"))).unwrap();
            }
        }
    }
}

fn config(name: &str) -> String {
    format!("{}/../../configs/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// A shipped recipe, made small: pictures of 32×32, a narrow network, few steps.
fn small<'a>(config: &'a str, out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let changes = [
        "data.path=tiny",
        "data.classes=3",
        "data.resize=36",
        "data.crop=32",
        "data.validation_fraction=0.25",
        "network.width=8",
        "train.epochs=6",
        "train.batch_size=9",
        "train.schedule={kind=\"milestones\", at=[5]}",
        "train.optimiser={kind=\"adam\", learning_rate=0.01}",
        "predict.draws=2",
    ];
    let start = ["train", config, "--device", "cpu", "--threads", "1", "--data", "data", "--out", out];
    start.into_iter().chain(changes.into_iter().flat_map(|c| ["--set", c])).chain(more.iter().copied()).collect()
}

/// Without its start, which no test has.
fn plain_config(place: &Place) -> String {
    let text = fs::read_to_string(config("imagenet-deterministic")).unwrap();
    let start = text.find("[start]").unwrap();
    let rest = start + text[start..].find("\n\n").unwrap();
    place.write("plain.toml", &(text[..start].to_owned() + &text[rest..]));
    "plain.toml".to_owned()
}

/// Chance is 1/3; the colour tells the classes apart, so a network that learns at all is far above it.
#[test]
fn the_imagenet_recipes_run_from_pictures_to_predictions() {
    let place = Place::new();
    write_pictures(&place, 12, 4);
    place.fidgp(&small(&plain_config(&place), "plain", &["--set", "name=plain"])).ends(0);
    assert!(json(&place.path("plain/results.json"))["metrics"]["cls/Acc"].as_f64().unwrap() >= 0.6);
    assert_eq!(json(&place.path("plain/classes.json")), serde_json::json!(CLASSES));
    // A fine-tune of a few steps keeps what the start has; two of the recipes are only run.
    for (recipe, bound) in [("imagenet-fidgp-all", 0.6), ("imagenet-fidgp-four", 0.0), ("imagenet-ffgu", 0.0)] {
        let changes = [
            "train.epochs=2",
            "train.schedule={kind=\"milestones\", at=[1]}",
            "train.kl={ml_epochs=0, annealing_epochs=1}",
            "train.optimiser={kind=\"adam\", learning_rate=0.0001}",
            "start={weights=\"plain/checkpoint/best.safetensors\", statistics_images=20}",
            "inducing.inducing_rows=32",
            "inducing.inducing_cols=32",
        ];
        let changes: Vec<_> = changes.into_iter().flat_map(|change| ["--set", change]).collect();
        place.fidgp(&small(&config(recipe), recipe, &changes)).ends(0);
        let metrics = json(&place.path(&format!("{recipe}/results.json")))["metrics"].clone();
        assert!(metrics["cls/Acc"].as_f64().unwrap() >= bound, "{recipe}: {metrics}");
    }
    place.fidgp(&["eval", "imagenet-fidgp-all", "--device", "cpu", "--data", "data"]).ends(0);
    let said = place.fidgp(&["predict", "imagenet-fidgp-all", "data/tiny/val/red", "--json"]).ends(0);
    let said: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(said["inputs"].as_array().unwrap().len(), 4);
    assert!(CLASSES.contains(&said["inputs"][0]["top"][0]["class"].as_str().unwrap()), "{said}");
}

/// Order, crops and flips follow from the seed, whatever ran before and however many threads decode (one
/// thread computes, so that sums have one order).
#[test]
fn a_folder_run_goes_on_as_if_it_had_not_been_interrupted() {
    let (place, config) = (Place::new(), "plain.toml");
    write_pictures(&place, 12, 4);
    plain_config(&place);
    place.fidgp(&small(config, "whole", &[])).ends(0);
    // A run that stops after three epochs: its resolved config is then that of the whole one.
    let three = ["--set", "train.epochs=3", "--set", "train.schedule={kind=\"constant\"}"];
    place.fidgp(&small(config, "part", &three)).ends(0);
    fs::copy(place.path("whole/run.toml"), place.path("part/run.toml")).unwrap();
    place.fidgp(&["train", "--resume", "part", "--device", "cpu", "--threads", "1", "--data", "data"]).ends(0);
    let metrics = |run: &str| json(&place.path(&format!("{run}/results.json")))["metrics"].clone();
    assert_eq!(metrics("whole"), metrics("part"));
    for part in ["train", "val"] {
        fs::rename(place.path(&format!("data/tiny/{part}/red")), place.path(&format!("data/tiny/{part}/rot"))).unwrap();
    }
    let says = ["other classes (3) than the run was trained with (3), such as `red`, now `rot`"];
    place.fidgp(&["train", "--resume", "part", "--data", "data"]).ends(2).says(&says);
    place.fidgp(&["eval", "part", "--data", "data"]).ends(2).says(&says);
}

/// How many classes a folder has is found out, not asked for: also by what counts a network afterwards.
#[test]
fn folders_are_compared_without_a_word_about_their_classes() {
    let place = Place::new();
    write_pictures(&place, 6, 2);
    let text = fs::read_to_string(place.path(&plain_config(&place))).unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("classes"));
    place.write("plain.toml", &lines.collect::<Vec<_>>().join("\n"));
    let changes = [
        "data.path=tiny",
        "data.resize=36",
        "data.crop=32",
        "network.width=4",
        "train.epochs=1",
        "train.select=last",
        "train.schedule={kind=\"constant\"}",
        "predict.draws=2",
    ];
    let words = ["compare", "plain.toml", "--methods", "deterministic,mc-dropout", "--seeds", "1", "--out", "both"];
    let place_of_data = ["--data", "data", "--device", "cpu"];
    let changes: Vec<_> = changes.into_iter().flat_map(|change| ["--set", change]).collect();
    let words = [&words[..], &place_of_data, &changes].concat();
    let said = place.fidgp(&words).ends(0);
    assert_eq!(place.fidgp(&words).ends(0).out, said.out); // found to be the same runs
    assert!(json(&place.path("both/comparison.json"))["contenders"][0]["macs"].as_u64().unwrap() > 0);
}

#[test]
fn what_is_wrong_with_a_folder_is_named() {
    let place = Place::new();
    write_pictures(&place, 6, 2);
    let config = plain_config(&place);
    let train = |more: &[&str]| place.fidgp(&small(&config, "run", more));
    train(&["--set", "data.classes=4"]).ends(2).says(&["data.classes", "holds 3 class folders"]);
    train(&["--set", "data.path=nowhere"]).ends(1).says(&["data/nowhere/train"]);
    train(&["--set", "data.crop=64"]).ends(2).says(&["data.crop", "at most data.resize (36)"]);
    train(&["--set", "normalisation=data"]).ends(2).says(&["normalisation", "imagenet"]);
    train(&["--set", "normalisation=half"]).ends(2).says(&["normalisation", "{ mean = [...], sd = [...] }"]);
    train(&["--set", "normalisation={mean=[0.5], sd=[0.25]}"]).ends(2).says(&["normalisation", "has 1 channels"]);
    assert!(!place.path("run").exists());
    fs::rename(place.path("data/tiny/val/red"), place.path("data/tiny/val/rot")).unwrap();
    train(&[]).ends(2).says(&["data.path", "only train/ has `red`", "only val/ has `rot`"]);
    fs::rename(place.path("data/tiny/val/rot"), place.path("data/tiny/val/red")).unwrap();
    train(&["--set", "data.limit=1"]).ends(2).says(&["data.limit", "at least 2"]);
    train(&["--set", "data.limit=9", "--set", "train.epochs=1", "--set", "train.schedule={kind=\"constant\"}"]).ends(0);
    assert_eq!(json(&place.path("run/trained-on.json"))["examples"], 9);
    fs::remove_dir_all(place.path("run")).unwrap();
    // all that is damaged is named before anything is trained
    for file in ["train/red/000.png", "val/blue/001.jpg"] {
        fs::write(place.path(&format!("data/tiny/{file}")), "not a picture").unwrap();
    }
    fs::write(place.path("data/tiny/train/blue/000.png"), "nor this").unwrap();
    let damaged = ["train/red/000.png, byte 0: cannot be decoded", "train/blue/000.png, byte 0"];
    train(&["--set", "data.validation_fraction=0.0", "--set", "train.select=last", "--set", "train.validate_every=0"])
        .ends(1)
        .says(&damaged);
    assert!(!place.path("run").exists());
}
