//! What is there is not lost, mixed or taken for something else.

use std::fs;

use crate::eval::{IMAGES, write_cifar10};
use crate::{Place, Said};

/// Images in `data/`, a config of two epochs.
fn place() -> Place {
    let place = Place::new();
    write_cifar10(&place);
    place.write("images.toml", &IMAGES.replace("epochs = 12", "epochs = 2"));
    place
}

fn train(place: &Place, more: &[&str]) -> Said {
    let words = ["train", "images.toml", "--device", "cpu", "--threads", "1", "--data", "data", "--out", "run"];
    place.fidgp(&[&words[..], more].concat())
}

#[test]
fn a_run_does_not_go_on_with_other_images() {
    let place = place();
    train(&place, &[]).ends(0);
    let resume = ["train", "--resume", "run", "--device", "cpu", "--threads", "1", "--data", "data"];
    place.fidgp(&resume).ends(0);
    let batch = place.path("data/cifar-10-batches-bin/data_batch_1.bin");
    let mut bytes = fs::read(&batch).unwrap();
    bytes[100] ^= 1;
    fs::write(&batch, &bytes).unwrap();
    place.fidgp(&resume).ends(2).says(&["other training examples", "80 others", "--data"]);
    bytes.truncate(bytes.len() / 2);
    fs::write(&batch, &bytes).unwrap();
    place.fidgp(&resume).ends(2).says(&["other training examples", ", were 80"]);
    train(&place, &["--force"]).ends(0);
}

/// What was measured of other weights goes with them; what the user keeps there stays.
#[test]
fn a_new_run_is_not_taken_for_what_was_measured_of_the_old_one() {
    let place = place();
    train(&place, &[]).ends(0);
    for file in ["tempered.json", "ood/ood.json", "ood/notes.txt"] {
        place.write(&format!("run/{file}"), "{}");
    }
    train(&place, &["--force"]).ends(0);
    assert!(!place.path("run/tempered.json").exists() && !place.path("run/ood/ood.json").exists());
    assert!(place.path("run/ood/notes.txt").exists());
}

/// The demo makes its own run again, and no other.
#[test]
fn a_demo_does_not_take_the_place_of_a_run() {
    let place = Place::new();
    place.train(&[]).ends(0);
    let before = crate::contents(&place.path("run"));
    place.fidgp(&["demo", "--out", "run"]).ends(2).says(&["`run` holds a run already"]);
    assert!(crate::contents(&place.path("run")) == before);
}

#[test]
fn files_of_others_are_not_written_over() {
    let place = place();
    place.write("run/results.json", "{}");
    train(&place, &[]).ends(2).says(&["`run` holds a results.json", "--force"]);
    assert_eq!(fs::read_to_string(place.path("run/results.json")).unwrap(), "{}");
    train(&place, &["--force"]).ends(0);
    place.write("model/README.md", "mine");
    place.fidgp(&["export", "run", "--out", "model"]).ends(2).says(&["`model` holds a README.md", "--force"]);
    assert_eq!(fs::read_to_string(place.path("model/README.md")).unwrap(), "mine");
    place.fidgp(&["export", "run", "--out", "model", "--force"]).ends(0);
    let model = ["train", "images.toml", "--device", "cpu", "--data", "data", "--out", "model"];
    place.fidgp(&model).ends(2).says(&["`model` holds a model folder"]);
    place.fidgp(&["export", "model", "--out", "model"]).ends(2).says(&["`model` holds a config.json", "--force"]);
}

#[test]
fn a_good_run_is_not_given_up_for_weights_that_are_not_finite() {
    let place = place();
    let plain = ["--set", "method=deterministic"];
    train(&place, &plain).ends(0);
    let good = place.path("run/checkpoint/last.safetensors");
    let mut bytes = fs::read(&good).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let names: serde_json::Value = serde_json::from_slice(&bytes[8..header]).unwrap();
    let start = header + names["conv1.weight"]["data_offsets"][0].as_u64().unwrap() as usize;
    bytes[start..start + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(place.path("nan.safetensors"), &bytes).unwrap();
    let before = crate::contents(&place.path("run"));
    let start = ["--force", "--set", "start={weights=\"nan.safetensors\"}"];
    train(&place, &[&plain[..], &start].concat()).ends(1).says(&["nan.safetensors", "`conv1.weight`", "damaged"]);
    assert_eq!(crate::contents(&place.path("run")), before);
    let wrap = ["wrap", "images.toml", "--weights", "nan.safetensors", "--data", "data", "--device", "cpu"];
    place.fidgp(&wrap).ends(1).says(&["nan.safetensors", "`conv1.weight`"]);
}

#[test]
fn the_best_epoch_needs_validation_images() {
    let place = place();
    let said = train(&place, &["--set", "data.validation_fraction=0.001"]).ends(2);
    said.says(&["data.validation_fraction", "leaves no validation image", "select"]);
    assert!(!place.path("run").exists());
    train(&place, &[]).ends(0);
    let best = place.path("run/checkpoint/best.safetensors");
    let evaluate = ["eval", "run", "--device", "cpu", "--data", "data"];
    let said = place.fidgp(&evaluate).ends(0);
    assert!(!said.err.contains("no best epoch"), "{said:?}");
    fs::remove_file(best).unwrap();
    place.fidgp(&evaluate).ends(0).says(&["no best epoch", "the last one is used"]);
}

#[test]
fn a_report_of_a_run_without_results_says_so() {
    let place = place();
    train(&place, &[]).ends(0);
    fs::remove_file(place.path("run/results.json")).unwrap();
    place.fidgp(&["report", "run"]).ends(2).says(&["holds no results.json", "--resume"]);
}
