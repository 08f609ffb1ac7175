//! The program as it is typed: every command runs as its own process in its own folder.

mod arrays;
mod attack;
mod attack_bytes;
mod bench;
mod child;
mod commands;
mod compare;
mod compress;
#[path = "../../../fidgp-lab/tests/fixture/configs.rs"]
mod configs;
mod cost;
mod crash;
mod decisions;
mod deploy;
mod divergence;
mod eval;
mod exported;
mod fault;
mod folder;
mod help;
mod keeping;
mod linearised;
mod members;
mod mishap;
mod misuse;
mod mixed;
mod onnx;
mod onnx_hostile;
mod onnx_kept;
mod ood;
mod readme;
mod resume;
mod segmentation;
mod serve;
mod several;
#[cfg(target_os = "linux")]
mod shared;
mod strangers;
mod stress;
mod tables;
mod training;
mod tutorials;
mod waiting;
mod wrap;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use child::Running;
use tempfile::TempDir;

/// A small run of the one-dimensional regression: seconds become a fraction of one.
const TINY: &[&str] = &[
    "train.epochs=3",
    "train.kl={ml_epochs=1, annealing_epochs=1}",
    "train.schedule={kind=\"constant\"}",
    "network.hidden=[10, 10]",
    "inducing.inducing_rows=6",
    "inducing.inducing_cols=6",
    "data.train=50",
    "data.test=50",
    "predict.draws=4",
];

/// What a command said and how it ended.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Said {
    /// The output of a process; a panic is never an answer.
    #[track_caller]
    fn by(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) };
        assert!(!said.err.contains("panicked") && !said.err.contains("internal error at"), "{said:?}");
        said
    }

    /// Asserts the exit code.
    #[track_caller]
    fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Asserts that the error message holds all of the texts.
    #[track_caller]
    fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.err.contains(text), "`{text}` is not in {self:?}");
        }
        self
    }
}

/// A folder of its own for a test.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder to write to");
        fs::write(path, text).expect("a file to write");
    }

    /// `fidgp` with these words, in this folder, with nothing of the caller's environment that changes what it says.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fidgp"));
        command.args(words).current_dir(self.0.path()).env("NO_COLOR", "1");
        command.env("OMP_WAIT_POLICY", "passive"); // tests run side by side: threads that wait must not spin
        for name in ["FIDGP_DATA", "FIDGP_LOG", "COLUMNS", "HOME", "RUST_BACKTRACE"] {
            command.env_remove(name);
        }
        command
    }

    #[track_caller]
    fn fidgp(&self, words: &[&str]) -> Said {
        Running::start(self.command(words)).said()
    }

    /// `fidgp train configs/regression-left.toml --out run`, made tiny, with more words.
    #[track_caller]
    fn train(&self, more: &[&str]) -> Said {
        self.fidgp(&words_of_training(more))
    }
}

fn words_of_training<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let tiny = TINY.iter().flat_map(|change| ["--set", change]);
    let start = ["train", left(), "--device", "cpu", "--out", "run"].into_iter();
    start.chain(tiny).chain(more.iter().copied()).collect()
}

/// The config of the paper's left panel.
fn left() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/regression-left.toml")
}

/// Every file below a folder with its bytes, by path.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.push((path.clone(), fs::read(&path).expect("a readable file")));
        }
    }
    found.sort();
    found
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).expect("a readable file")).expect("JSON")
}

/// Real images kept with the tests.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}
