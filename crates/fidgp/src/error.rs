//! What can go wrong in the method, and what to do about it.

use thiserror::Error;

/// The result of everything fallible in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the method. Every message names the layer or the value and the way out.
#[derive(Debug, Error)]
pub enum Error {
    /// A covariance could not be factorised even with the largest jitter.
    #[error(
        "Cholesky of `{layer}` failed at leading minor {minor} of {size} after jitter {tried:?} (relative to the mean diagonal); \
         condition estimate {condition:.1e}. Try a larger `jitter`, f64, a smaller inducing size, or a smaller learning rate"
    )]
    Cholesky {
        /// The matrix, as `layer.matrix`.
        layer: String,
        /// The order of the leading minor that is not positive definite.
        minor: i64,
        /// The size of the matrix.
        size: i64,
        /// The relative jitters that were tried.
        tried: Vec<f64>,
        /// Ratio of largest to smallest absolute eigenvalue (infinite when not finite).
        condition: f64,
    },
    /// A tensor holds NaN or infinity.
    #[error("`{what}` holds {count} non-finite values out of {total}. {advice}")]
    NonFinite {
        /// The quantity.
        what: String,
        /// How many of its entries are not finite.
        count: i64,
        /// How many entries it has.
        total: i64,
        /// What to try.
        advice: &'static str,
    },
    /// A tensor has the wrong shape.
    #[error("`{what}` has shape {found:?}, expected {expected}")]
    Shape {
        /// The quantity.
        what: String,
        /// Its shape.
        found: Vec<i64>,
        /// The expected shape, in words.
        expected: String,
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
    /// A process that shares the batch is missing.
    #[error("{0}")]
    Across(String),
    /// libtorch refused an operation.
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}

impl Error {
    /// A setting out of range.
    #[expect(clippy::needless_pass_by_value, reason = "numbers and borrowed strings alike")]
    pub fn setting(setting: impl Into<String>, value: impl ToString, advice: impl Into<String>) -> Self {
        Self::Setting { setting: setting.into(), value: value.to_string(), advice: advice.into() }
    }

    /// The same error, with the layer it belongs to in front of the setting.
    #[must_use]
    pub(crate) fn of(self, layer: &str) -> Self {
        match self {
            Self::Setting { setting, value, advice } => {
                Self::Setting { setting: format!("{layer}: {setting}"), value, advice }
            }
            other => other,
        }
    }

    /// A tensor of the wrong shape.
    pub fn shape(what: impl Into<String>, found: &[i64], expected: impl Into<String>) -> Self {
        Self::Shape { what: what.into(), found: found.to_vec(), expected: expected.into() }
    }
}
