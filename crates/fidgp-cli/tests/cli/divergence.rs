//! Trainings that leave the finite: they stop, say where and by whom, and what was good stays.

use std::fs;
use std::path::Path;

use crate::{Place, Said, contents, fixture};

/// What every such stop says beside the place and the culprit.
#[track_caller]
fn stops(said: Said, texts: &[&str]) -> Said {
    let said = said.ends(1).says(texts).says(&["in epoch ", "The last good checkpoint: ", "Lower the learning rate"]);
    assert!(!said.err.contains(". .") && !said.err.contains("..") && !said.err.contains("epoch 0"), "{said:?}");
    said
}

/// A plain network on the little images, one batch an epoch.
fn images(place: &Place, more: &[&str]) -> Said {
    place.write("t.toml", &crate::wrap::PLAIN);
    let data = fixture("cifar100-small");
    let words = ["train", "t.toml", "--device", "cpu", "--out", "run", "--data", data.to_str().unwrap()];
    place.fidgp(&[&words, more].concat())
}

#[test]
fn a_loss_that_is_not_finite_names_the_culprit() {
    let place = Place::new();
    // FiD-GP: the second step finds covariances that cannot be factorised
    let said = place.train(&["--set", "train.optimiser.learning_rate=1e30", "--set", "train.batch_size=10"]);
    stops(said, &["in epoch 1, batch 2 (step 2): `", "non-finite values out of", "checkpoint: none yet"]);
    // a plain network: the layer whose outputs overflow, before its gradient has reached any parameter
    let place = Place::new();
    let plain = ["--set", "method=deterministic", "--set", "train.batch_size=10", "--set", "network.batch_norm=false"];
    let said = place.train(&[&plain[..], &["--set", "train.optimiser.learning_rate=1e20"]].concat());
    stops(
        said,
        &["non-finite loss (NLL ", "in epoch 1, batch 2 (step 2): all parameters are finite", "`fc", "none yet"],
    );
}

/// A KL that overflows while every output is finite has a layer too.
#[test]
fn a_kl_that_is_not_finite_names_its_layer() {
    let sgd = "train.optimiser={kind=\"sgd\", learning_rate=300.0}";
    let said = Place::new().train(&["--set", sgd, "--set", "train.kl={}"]);
    stops(said, &["KL(U) inf", "all parameters are finite, the KL of U of `fc"]);
}

#[test]
fn a_training_that_diverges_later_leaves_the_last_good_checkpoint() {
    let place = Place::new();
    let late = ["--set", "train.schedule={kind=\"cosine\", warmup_epochs=2}", "--set", "train.checkpoint_every=1"];
    let said = place.train(&[&late[..], &["--set", "train.optimiser.learning_rate=1e25"]].concat());
    stops(said, &["run/checkpoint/last.safetensors"]);
    let (_, bytes) = contents(&place.path("run/checkpoint")).into_iter().next().unwrap();
    assert!(all_finite(&bytes));
}

#[test]
fn what_is_seen_in_validation_first_has_its_place() {
    let place = Place::new();
    let one_batch = ["--set", "train.batch_size=200", "--set", "data.validation_fraction=0.2"];
    let said = images(&place, &[&one_batch[..], &["--set", "train.optimiser.learning_rate=1e38"]].concat());
    stops(said, &["in epoch 1, validation after step 1: ", "of `", "checkpoint: none yet"]);
    assert!(!place.path("run/checkpoint").exists());
}

#[test]
fn a_network_that_is_not_finite_is_not_saved() {
    let place = Place::new();
    let steep = "train.optimiser={kind=\"sgd\", learning_rate=3e38, weight_decay=1e3}";
    let said = images(&place, &["--set", "train.batch_size=200", "--set", steep]);
    stops(said, &["non-finite parameters in epoch 1, after step 1: `", "checkpoint: none yet"]);
    assert!(!place.path("run/checkpoint").exists());
}

/// The f32 numbers of the tensors of a checkpoint; the training's own state is f32 but for a count.
fn all_finite(bytes: &[u8]) -> bool {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = crate::resume::header(bytes);
    let tensors = header.as_object().unwrap().values().filter(|tensor| tensor["dtype"] == "F32");
    let mut numbers = tensors.flat_map(|tensor| {
        let [start, end] = [0, 1].map(|side| tensor["data_offsets"][side].as_u64().unwrap() as usize);
        bytes[8 + length + start..8 + length + end].chunks_exact(4)
    });
    numbers.all(|number| f32::from_le_bytes(number.try_into().unwrap()).is_finite())
}

/// Writes NaN over the first number of a tensor.
fn spoil(path: &Path, tensor: &str) {
    let mut bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let start = crate::resume::header(&bytes)[tensor]["data_offsets"][0].as_u64().unwrap() as usize;
    bytes[8 + length + start..8 + length + start + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn weights_that_are_not_finite_are_not_used() {
    let place = Place::new();
    place.train(&["--set", "method=deterministic"]).ends(0);
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    place.write("points.csv", "0.5\n1.0\n");
    crate::strangers::forget_digests(&place.path("model/config.json"));
    for (file, folder) in [("run/checkpoint/last.safetensors", "run"), ("model/model.safetensors", "model")] {
        spoil(&place.path(file), "fc2.weight");
        let named = [file, "`fc2.weight` holds 1 non-finite values out of", "has diverged"];
        place.fidgp(&["predict", folder, "points.csv"]).ends(1).says(&named);
        place.fidgp(&["eval", folder]).ends(1).says(&named);
    }
    place.fidgp(&["export", "run", "--out", "again"]).ends(1).says(&["`fc2.weight`"]);
    assert!(!place.path("again").exists());
    place.fidgp(&["train", "--resume", "run"]).ends(1).says(&["`fc2.weight`", "--force"]);
}
