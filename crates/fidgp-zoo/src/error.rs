//! What can go wrong with a network as a whole.

use std::fmt::Display;
use std::path::PathBuf;

use thiserror::Error;

use crate::ImportReport;

/// The result of everything fallible in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate. Every message says what to do next.
#[derive(Debug, Error)]
pub enum Error {
    /// A plan names a layer the network does not have.
    #[error("no layer matches `{pattern}`{}. The network has: {}", hint(.nearest.as_deref()), .layers.join(", "))]
    NoSuchLayer {
        /// The pattern of the plan.
        pattern: String,
        /// The layer that is written most like it.
        nearest: Option<String>,
        /// All layers a plan can name.
        layers: Vec<String>,
    },
    /// A setting is out of its range.
    #[error("`{setting}` = {value}: {advice}")]
    Setting {
        /// The setting.
        setting: String,
        /// Its value.
        value: String,
        /// What it may be.
        advice: String,
    },
    /// A config's network does not fit itself or the data.
    #[error("`network.{key}` {why}")]
    Network {
        /// The key of `[network]`.
        key: &'static str,
        /// What is wrong and what would be right.
        why: String,
    },
    /// A file cannot be read.
    #[error("{}: {problem}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Weights do not fit the network; nothing was changed.
    #[error("the weights do not fit the network, nothing was changed\n{0}")]
    Import(Box<ImportReport>),
    /// The method itself failed.
    #[error(transparent)]
    Method(#[from] fidgp::Error),
    /// libtorch refused an operation.
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}

impl Error {
    pub(crate) fn network(key: &'static str, why: impl Into<String>) -> Self {
        Self::Network { key, why: why.into() }
    }

    pub(crate) fn setting(setting: impl Into<String>, value: impl Display, advice: impl Into<String>) -> Self {
        Self::Setting { setting: setting.into(), value: format!("{value}"), advice: advice.into() }
    }
}

impl Error {
    /// The error of the method behind it, for layers that must return one.
    pub(crate) fn into_method(self) -> fidgp::Error {
        match self {
            Self::Method(error) => error,
            Self::Setting { setting, value, advice } => fidgp::Error::Setting { setting, value, advice },
            Self::Torch(error) => error.into(),
            other => fidgp::Error::setting("layer", "", other.to_string()),
        }
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}
