use std::path::{Path, PathBuf};

use fidgp_metrics::MetricError;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, DecisionError>;

/// What went wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    /// A file that cannot be read or written, or does not hold what it should.
    #[error("{}: {why}", fidgp_files::shown(.path.display()))]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A request that makes no sense.
    #[error("{what} {why}")]
    Asked {
        /// What was asked for.
        what: String,
        /// Why it cannot be.
        why: String,
    },
    /// Numbers that make no sense.
    #[error(transparent)]
    Metric(#[from] MetricError),
}

impl DecisionError {
    pub(crate) fn file(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::File { path: path.to_owned(), why: why.to_string() }
    }

    pub(crate) fn asked(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Asked { what: what.into(), why: why.into() }
    }
}
