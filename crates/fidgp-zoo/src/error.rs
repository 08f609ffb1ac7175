//! What can go wrong with a network as a whole.

use thiserror::Error;

/// The result of everything fallible in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate. Every message says what to do next.
#[derive(Debug, Error)]
pub enum Error {
    /// A plan names a layer the network does not have.
    #[error("no layer matches `{pattern}`{}. The network has: {}", hint(.nearest), .layers.join(", "))]
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
    /// The method itself failed.
    #[error(transparent)]
    Method(#[from] fidgp::Error),
    /// libtorch refused an operation.
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}

impl Error {
    pub(crate) fn setting(setting: impl Into<String>, value: impl ToString, advice: impl Into<String>) -> Self {
        Self::Setting { setting: setting.into(), value: value.to_string(), advice: advice.into() }
    }
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}
