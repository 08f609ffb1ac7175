//! The tutorials of the book, typed as they stand.

use std::path::Path;
use std::process::Command;

use crate::child::Running;

fn runs(page: &str) {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let script = root.join("scripts/tutorial");
    let mut tutorial = Command::new("python3");
    tutorial.arg(script).arg(page).args(["--program", env!("CARGO_BIN_EXE_fidgp")]);
    let said = Running::start(tutorial).said();
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn a_curve_with_a_gap() {
    runs("curve");
}

#[test]
fn houses() {
    runs("houses");
}

#[test]
fn pictures_from_a_folder() {
    runs("pictures");
}

#[test]
fn a_trained_network_made_bayesian() {
    runs("wrap");
}

#[test]
fn a_street() {
    runs("street");
}

#[test]
fn a_server_and_its_monitor() {
    runs("serve");
}
