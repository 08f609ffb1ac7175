//! What cannot be meant: exit code 2, the place is named, nothing is written.

use std::fs;

use crate::{Place, contents};

/// Changes to a config that cannot be, in the order of the guide.
const WRONG: &[&str] = &[
    "train.epoch=5",
    "trian.epochs=5",
    "inducing.inducing_row=5",
    "inducing.posterior={familly=\"flow\"}",
    "inducing.posterior={family=\"flow\", flow={kind=\"mad\"}}",
    "inducing.layers=[\"fc9\"]",
    "inducing.layers=3",
    "train.epochs=five",
    "train.epochs=0",
    "train.batch_size=1",
    "train.clip_norm=-1.0",
    "train.freeze_norm_epoch=-3.0",
    "train.optimiser.betas=[2.0, 0.9]",
    "train.optimiser.weight_decay=nan",
    "inducing.max_lamda=inf",
    "train.optimiser.kind=adamm",
    "train.optimiser.learning_rate=-0.1",
    "train.kl.ml_epochs=10",
    "train.kl.weight=nan",
    "train.schedule={kind=\"cosine\", warmup_epochs=7}",
    "data.train=0",
    "data.set=synthetic",
    "start.weights=trained.pt",
    "network.hidden=[0]",
    "network.kind=resnet-cifar",
    "likelihood={kind=\"categorical\"}",
    "likelihood.noise={kind=\"learnt\", init_sd=-1.0}",
    "inducing.inducing_rows=0",
    "inducing.init_lamda=0.5",
    "inducing.init_sd_u=-0.1",
    "inducing.conditional_kl=exact",
    "predict.draws=0",
    "method=bayes",
    "normalisation=imagenet",
    "train.groups=[{parameters=[\"fc9.*\"]}]",
    "train.groups=[{parameters=[\"fc1.*\"], rate=-1}]",
    "train.schedule={kind=\"milestones\", at=[1], warmup_epochs=9}",
    "inducing.bayesianize=nowhere.json",
    "name=a/b",
    "name.x=1",
    "seed=-1",
    "seed",
    "=1",
];

#[test]
fn a_wrong_config_is_explained_and_leaves_nothing() {
    let place = Place::new();
    let mut all = Vec::new();
    for change in WRONG {
        let said = place.train(&["--set", change]).ends(2);
        assert!(!place.path("run").exists(), "{change} left a folder");
        let place_free = said.err.replace(crate::left(), "regression-left.toml");
        all.push(format!("--set '{change}'\n{}\n", place_free.trim()));
    }
    insta::assert_snapshot!("wrong_configs", all.join("\n"));
}

#[test]
fn an_unknown_key_has_its_line_and_a_suggestion() {
    let place = Place::new();
    let config = fs::read_to_string(crate::left()).unwrap();
    place.write("typo.toml", &config.replace("max_lamda", "max_lambda"));
    place
        .fidgp(&["train", "typo.toml"])
        .ends(2)
        .says(&["typo.toml: `inducing.max_lambda` (line ", "did you mean `max_lamda`?"]);
    place.write("broken.toml", "name = \n");
    place.fidgp(&["train", "broken.toml"]).ends(2).says(&["broken.toml", "line 1"]);
    assert_eq!(contents(place.0.path()).len(), 2);
}

#[test]
fn a_missing_config_is_named() {
    Place::new().fidgp(&["train", "nowhere.toml"]).ends(2).says(&["nowhere.toml: No such file"]);
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let place = Place::new();
    place.train(&["--set", "seed=1"]).ends(0);
    for (device, named) in [
        ("tpu", "cpu, cuda, cuda:N or auto"),
        ("cuda:99", "`--device cuda:99` is not there"),
        ("cuda:-1", "is not known"),
    ] {
        let before = contents(&place.path("run"));
        place.fidgp(&["train", "run/run.toml", "--out", "run", "--force", "--device", device]).ends(2).says(&[named]);
        assert!(contents(&place.path("run")) == before, "--force must not touch a run before the new one can begin");
        place.fidgp(&["verify", "--device", device]).ends(2).says(&[named]);
    }
}

#[test]
fn a_run_is_not_overwritten_without_force() {
    let place = Place::new();
    place.train(&[]).ends(0);
    place.write("run/notes.txt", "mine");
    let before = contents(&place.path("run"));
    place.train(&["--set", "seed=2"]).ends(2).says(&["`run` holds a run already", "--resume", "--force"]);
    assert!(contents(&place.path("run")) == before);
    place.train(&["--set", "seed=2", "--force", "--set", "inducing.init_lamda=0.5"]).ends(2).says(&["fc1: init_lamda"]);
    assert!(contents(&place.path("run")) == before);
    place.train(&["--set", "seed=2", "--force"]).ends(0);
    assert_eq!(crate::json(&place.path("run/results.json"))["seed"], 2);
    assert_eq!(fs::read_to_string(place.path("run/notes.txt")).unwrap(), "mine");
}

/// Splits of a UCI set keep no weights to go back to.
#[test]
fn the_best_epoch_of_a_split_cannot_be_taken() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/uci-yacht.toml");
    let changes = ["--set", "train.select=best", "--set", "data.validation_fraction=0.1"];
    let said = Place::new().fidgp(&[&["train", config][..], &changes].concat()).ends(2);
    said.says(&["train.select", "is not for data.set = \"uci\"", "use \"last\""]);
}

#[test]
fn numbers_on_the_command_line_are_checked() {
    let place = Place::new();
    for words in [
        ["--threads", "0"],
        ["--threads", "many"],
        ["--threads", "4294967296"],
        ["--parallel", "0"],
        ["--splits", "first"],
    ] {
        place.train(&words).ends(2).says(&[words[0]]);
    }
    assert!(!place.path("run").exists());
}

/// Data sets and splits that cannot be meant are misuse, not failures.
#[test]
fn a_data_set_that_is_not_one_of_small_images_is_told_where_it_belongs() {
    let place = Place::new();
    place.write("images.toml", &crate::deploy::CONFIG);
    let data = crate::fixture("cifar100-small");
    let with = |more: &[&str]| {
        let words = ["train", "images.toml", "--device", "cpu", "--data", data.to_str().unwrap()];
        place.fidgp(&[&words, more].concat())
    };
    with(&["--set", "data.name=cifar1000"])
        .ends(2)
        .says(&["`data.name` = \"cifar1000\" is not known", "cifar100, svhn"]);
    with(&["--set", "data.name=imagenet"]).ends(2).says(&["data.set = \"folder\""]);
    with(&["--set", "data.name=camvid"]).ends(2).says(&["data.set = \"segmentation\""]);
    with(&["--splits", "7"]).ends(2).says(&["--splits", "is for data.set = \"uci\""]);
    assert!(!place.path("runs").exists());
}

#[test]
fn inducing_sizes_are_checked_where_nothing_is_built() {
    let place = Place::new();
    place.write("images.toml", &crate::deploy::CONFIG);
    for size in ["-3", "0", "20000"] {
        let change = format!("inducing.inducing_rows={size}");
        let said = place.fidgp(&["cost", "images.toml", "--set", &change]).ends(2);
        said.says(&["inducing_rows x inducing_cols", "must be 1 to 16384 each"]);
    }
}
