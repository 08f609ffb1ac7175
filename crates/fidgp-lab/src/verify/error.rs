//! What can be wrong with a file of reference numbers, or with computing one of its quantities.

use thiserror::Error;

/// An error of the check. As a [`Row`](super::Row)'s reason it concerns one quantity; returned, the whole file.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// The file is not JSON.
    #[error("the file is not JSON: {0}; compare it with the one that ships with the project")]
    Syntax(#[from] serde_json::Error),
    /// An entry that is needed is not there.
    #[error("`{path}` is missing")]
    Missing {
        /// Where it should be.
        path: String,
    },
    /// An entry is there but cannot be used.
    #[error("`{path}` {why}")]
    Malformed {
        /// Where it is.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The method failed.
    #[error(transparent)]
    Method(#[from] fidgp::Error),
    /// A network or baseline failed.
    #[error(transparent)]
    Zoo(#[from] fidgp_zoo::Error),
    /// A metric failed.
    #[error(transparent)]
    Metric(#[from] fidgp_metrics::MetricError),
    /// libtorch refused an operation.
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}

/// The result of everything fallible in this module.
pub type Result<T, E = VerifyError> = std::result::Result<T, E>;

impl VerifyError {
    pub(super) fn malformed(path: &str, why: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), why: why.into() }
    }

    /// The message without libtorch's traceback.
    pub(super) fn first_line(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_owned()
    }
}
