use std::path::{Path, PathBuf};

use super::schema::SCHEMA;

/// Shorthand for results of this module.
pub type Result<T> = std::result::Result<T, RecordError>;

/// What was wrong with a record, in which file, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}; pass a run folder made by `fidgp train`, or its results.json")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {path}: {source}; what stood there before is untouched, check space and permissions")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Not JSON at all, or cut off.
    #[error("{path} is not complete JSON: {source}; `fidgp train --resume` on the run folder writes it again")]
    Json {
        /// The file.
        path: PathBuf,
        /// Line, column and reason.
        source: serde_json::Error,
    },
    /// JSON of another version, or of another program.
    #[error(
        "{path} has schema {found}, this program reads `{SCHEMA}`; \
         `fidgp train --resume` on the run folder writes it again, or use the program that wrote it"
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// The version found, quoted, or `(none)`.
        found: String,
    },
    /// The right version, but a field is missing or of the wrong kind.
    #[error(
        "{path}: {source}; docs/results-schema.md lists every field, `fidgp train --resume` on the run folder writes the file again"
    )]
    Field {
        /// The file.
        path: PathBuf,
        /// Field, line and column.
        source: serde_json::Error,
    },
    /// A benchmark that cannot be used.
    #[error("{path}: {why}; make it again with `fidgp ood`, or remove it")]
    Benchmark {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file that a record names is not one of its own folder.
    #[error(
        "{path} names the map `{name}`, which is not a plain file of the run's `maps` folder; nothing else is read: \
         take that name out of the record if you trust the rest of it"
    )]
    Elsewhere {
        /// The record.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A line of the epoch log, other than a cut-off last one, cannot be read.
    #[error("{path}, line {line}: {source}; delete that line, the others stand on their own")]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl RecordError {
    pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    pub(super) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}
