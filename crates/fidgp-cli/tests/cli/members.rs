//! Members of a deep ensemble, trained by processes of their own.

use crate::child::Running;
use crate::{Place, contents, json, left};

fn words<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let small = ["method=ensemble", "baseline.members=2", "train.epochs=4", "train.kl={}", "network.hidden=[10, 10]"];
    let start = ["train", left(), "--device", "cpu", "--out", out].into_iter();
    start.chain(small.into_iter().flat_map(|change| ["--set", change])).chain(more.iter().copied()).collect()
}

#[test]
fn members_trained_apart_are_the_ensemble_trained_at_once() {
    let place = Place::new();
    place.fidgp(&words("whole", &[])).ends(0);
    let start = |k: &str| Running::start(place.command(&words("apart", &["--member", k])));
    for child in ["0", "1"].map(start) {
        child.said().ends(0);
    }
    assert!(!place.path("apart/results.json").exists());
    place.fidgp(&["train", "--resume", "apart", "--device", "cpu"]).ends(0);
    let metrics = |run: &str| json(&place.path(run).join("results.json"))["metrics"].clone();
    assert_eq!(metrics("apart"), metrics("whole"));
    // what is done is not done again
    let before = contents(place.0.path());
    place.fidgp(&words("apart", &["--member", "1"])).ends(0);
    assert_eq!(contents(place.0.path()), before);
    place.fidgp(&words("apart", &[])).ends(2).says(&["apart", "--resume"]);
}

/// A member's folder, or the one of its checkpoint, that leads elsewhere.
#[test]
fn links_among_members_are_not_written_through() {
    let place = Place::new();
    place.fidgp(&words("run", &["--member", "0"])).ends(0);
    std::fs::create_dir(place.path("precious")).unwrap();
    let link = |name: &str| {
        let _ = std::fs::remove_dir_all(place.path(name));
        std::os::unix::fs::symlink(place.path("precious"), place.path(name)).unwrap();
    };
    let resume = ["train", "--resume", "run", "--device", "cpu"];
    link("run/members/1");
    place.fidgp(&resume).ends(1).says(&["`1` is a link"]);
    place.fidgp(&words("run", &["--member", "1"])).ends(1).says(&["`1` is a link"]);
    std::fs::remove_file(place.path("run/members/1")).unwrap();
    link("run/members/0/checkpoint");
    place.fidgp(&resume).ends(1).says(&["`checkpoint` is a link"]);
    place.fidgp(&words("run", &["--member", "0"])).ends(1).says(&["`checkpoint` is a link"]);
    assert_eq!(contents(&place.path("precious")), []);
}

#[test]
fn a_member_that_cannot_be_is_refused() {
    let place = Place::new();
    place.fidgp(&words("run", &["--member", "2"])).ends(2).says(&["--member", "2 is not among the 2 members"]);
    place.fidgp(&words("run", &["--member=-1"])).ends(2).says(&["--member", "-1 is not"]);
    place.train(&["--member", "0"]).ends(2).says(&["--member", "is for method = \"ensemble\", not for \"fidgp\""]);
    assert!(!place.path("run").exists());
    place.fidgp(&words("run", &["--member", "0"])).ends(0);
    place.fidgp(&words("run", &["--member", "1", "--set", "seed=9"])).ends(2).says(&["run", "holds a run already"]);
}
