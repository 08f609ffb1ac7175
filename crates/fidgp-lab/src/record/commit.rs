use std::{path::Path, process::Command};

/// The commit of the source this program was built from: 12 digits, `-dirty` where tracked files differ from it,
/// `unknown` where there is no git or no repository. A program carried to another machine is told by `FIDGP_COMMIT`,
/// which comes first: there may be another checkout at the same place there. Changes under `results/` do not count: they
/// are output.
pub fn commit() -> String {
    std::env::var("FIDGP_COMMIT").unwrap_or_else(|_| commit_of(Path::new(env!("CARGO_MANIFEST_DIR"))))
}

/// The same for any folder.
pub fn commit_of(folder: &Path) -> String {
    let Some(head) = git(folder, &["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    let changed = git(folder, &["status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)results"]);
    if changed.is_some_and(|lines| lines.is_empty()) { head } else { head + "-dirty" }
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("--no-optional-locks") // `status` would otherwise take the index lock from whoever is committing
        .args(arguments)
        .current_dir(folder)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
