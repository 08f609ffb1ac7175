//! What can be wrong with a data set, where, and what to do about it.

use std::{
    io,
    path::{Path, PathBuf},
};

use fidgp_files::Exceeded;

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// A fault in a data set. Every variant names the place and ends with a hint.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{}: cannot be read: {source} (hint: check that the path exists and that you may read it)", file.display())]
    Io {
        /// The file or folder.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A fault on one line of a text file.
    #[error("{}, line {line}: {problem} (hint: {advice})", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
        /// The way out.
        advice: &'static str,
    },
    /// A fault at one byte of a binary file.
    #[error("{}, byte {byte}: {problem} (hint: {advice})", file.display())]
    Byte {
        /// The file.
        file: PathBuf,
        /// The offset, counted from 0 (in the inflated bytes where the file is compressed).
        byte: usize,
        /// What is wrong there.
        problem: String,
        /// The way out.
        advice: &'static str,
    },
    /// A fault of a file or a folder as a whole.
    #[error("{}: {problem} (hint: {advice})", file.display())]
    File {
        /// The file or folder.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// The way out.
        advice: &'static str,
    },
    /// A fault in values that are already in memory, or in an argument.
    #[error("{what}: {problem} (hint: {advice})")]
    Value {
        /// The data set or the argument.
        what: String,
        /// What is wrong with it.
        problem: String,
        /// The way out.
        advice: &'static str,
    },
    /// Several faults below one folder.
    #[error("{}: {}", folder.display(), listed(faults, what))]
    Several {
        /// The folder.
        folder: PathBuf,
        /// What of it was looked at, in words: "1200 pictures".
        what: String,
        /// What is wrong, each with its place and its hint.
        faults: Vec<Error>,
    },
}

/// How many faults are told one by one.
const SHOWN: usize = 20;

fn listed(faults: &[Error], what: &str) -> String {
    let shown = faults.iter().take(SHOWN).fold(String::new(), |text, fault| text + "\n  " + &fault.to_string());
    let more = faults.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("\n  … and {more} more") } else { String::new() };
    format!("{} of {what} damaged:{shown}{more}", faults.len())
}

impl Error {
    /// What asks for more than a limit allows.
    pub(crate) fn beyond(file: &Path, exceeded: &Exceeded) -> Self {
        Self::file(file, exceeded.problem(), exceeded.limit.advice)
    }

    pub(crate) fn io(file: &Path, source: io::Error) -> Self {
        Self::Io { file: file.into(), source }
    }

    pub(crate) fn line(file: &Path, line: usize, problem: impl Into<String>, advice: &'static str) -> Self {
        Self::Line { file: file.into(), line, problem: problem.into(), advice }
    }

    pub(crate) fn byte(file: &Path, byte: usize, problem: impl Into<String>, advice: &'static str) -> Self {
        Self::Byte { file: file.into(), byte, problem: problem.into(), advice }
    }

    pub(crate) fn file(file: &Path, problem: impl Into<String>, advice: &'static str) -> Self {
        Self::File { file: file.into(), problem: problem.into(), advice }
    }

    pub(crate) fn value(what: impl Into<String>, problem: impl Into<String>, advice: &'static str) -> Self {
        Self::Value { what: what.into(), problem: problem.into(), advice }
    }
}
