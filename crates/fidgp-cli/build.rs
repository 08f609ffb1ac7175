//! Tells the program which commit it is built from: the checkout may be another one by the time it runs.

use std::path::Path;
use std::process::Command;

fn main() {
    let watched = [".git/HEAD", ".git/refs/heads", ".git/packed-refs", "crates", "Cargo.toml", "Cargo.lock"];
    for path in watched.map(|path| format!("../../{path}")).iter().filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}"); // of one that is not there Cargo would say that it changes all the time
    }
    println!("cargo::rustc-env=FIDGP_BUILT_FROM={}", commit().unwrap_or_else(|| "unknown".to_owned()));
}

/// 12 digits, `-dirty` where what is compiled differs from it.
fn commit() -> Option<String> {
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    let sources = [":(top)crates", ":(top)Cargo.toml", ":(top)Cargo.lock"];
    let changed = git(&[&["status", "--porcelain", "--untracked-files=no", "--"][..], &sources].concat())?;
    Some(if changed.is_empty() { head } else { head + "-dirty" })
}

fn git(arguments: &[&str]) -> Option<String> {
    // `status` would otherwise take the index lock from whoever is committing
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
