//! What can go wrong in a run, and what to do about it.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::files::MODEL_CONFIG_FILE;

/// The result of everything fallible in this crate.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

/// An error of a run. Misuse (exit code 2) and failure (exit code 1) are told apart by [`LabError::is_misuse`].
#[derive(Debug, Error)]
pub enum LabError {
    /// A config says something impossible.
    #[error("`{key}` {why}")]
    Config {
        /// The dotted key.
        key: String,
        /// What is wrong and what would be right.
        why: String,
    },
    /// A config file could not be understood.
    #[error("{path}: {why}", path = path.display())]
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// The parser's message, with line and suggestion.
        why: String,
    },
    /// Another process trains in a folder.
    #[error("`{folder}` is in use: another process trains in it; wait until it is done, or choose another --out", folder = folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// A file could not be read or written.
    #[error("{path}: {why}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's message.
        why: String,
    },
    /// A checkpoint is broken or belongs to another network.
    #[error("checkpoint {path}: {why}. {advice}", path = path.display(), advice = checkpoint_advice(path))]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// Numbers of a training are no numbers any more.
    #[error(
        "{what} in epoch {epoch}, {moment}: {culprit}. The last good checkpoint: {checkpoint}. \
         Lower the learning rate, clip gradients (train.clip_norm) or raise the jitter",
        checkpoint = checkpoint.as_ref().map_or("none yet".to_owned(), |path| path.display().to_string())
    )]
    Diverged {
        /// What is not finite, or could not be computed for that reason.
        what: String,
        /// Epoch, from 1 as the records count them.
        epoch: u64,
        /// The batch and step, or what came after so many steps.
        moment: String,
        /// The layer, parameter or input that is to blame, as far as it can be told; no full stop.
        culprit: String,
        /// Where training can go on from, if anything was saved.
        checkpoint: Option<PathBuf>,
    },
    /// One of several splits of a data set failed.
    #[error("split {split}: {error}")]
    Split {
        /// Its number.
        split: usize,
        /// What failed.
        error: Box<LabError>,
    },
    /// A run of a comparison failed.
    #[error("{name}, seed {seed}: {error}")]
    Contender {
        /// Its config.
        name: String,
        /// Its seed.
        seed: u64,
        /// What failed.
        error: Box<LabError>,
    },
    /// The user stopped the run.
    #[error("stopped after epoch {epoch}, step {step}; {kept}. Go on with: {command}")]
    Interrupted {
        /// Complete epochs.
        epoch: u64,
        /// Steps made.
        step: u64,
        /// What of it is on disk.
        kept: &'static str,
        /// What goes on with it.
        command: String,
    },
    /// The user stopped a comparison.
    #[error("stopped; everything is saved. The same command goes on")]
    ComparisonInterrupted,

    /// A control of the out-of-distribution benchmark failed.
    #[error(
        "no table: a control failed. {why}. The scores do not measure what they should: make each image's score independent \
         of set, batch and order, with one U and one normalisation for all sets. --unsafe-skip-controls writes the table \
         all the same, with a warning in it"
    )]
    Refused {
        /// Which, and how far off.
        why: String,
    },
    /// Another process of this training is missing, or trains something else.
    #[error(transparent)]
    Group(#[from] fidgp_torch::GroupError),
    /// The method failed.
    #[error(transparent)]
    Method(#[from] fidgp::Error),
    /// The data could not be read.
    #[error(transparent)]
    Data(#[from] fidgp_data::Error),
    /// Rules for decisions could not be fitted, read or applied.
    #[error(transparent)]
    Decision(#[from] fidgp_decision::DecisionError),
    /// A metric could not be computed.
    #[error(transparent)]
    Metric(#[from] fidgp_metrics::MetricError),
    /// The network could not be built.
    #[error(transparent)]
    Zoo(#[from] fidgp_zoo::Error),
    /// An ONNX graph could not be used.
    #[error(transparent)]
    Onnx(#[from] fidgp_onnx::Error),
    /// The results could not be recorded.
    #[error(transparent)]
    Record(#[from] crate::record::RecordError),
    /// The report could not be made.
    #[error(transparent)]
    Report(#[from] crate::report::ReportError),
    /// A golden file could not be read.
    #[error(transparent)]
    Verify(#[from] crate::verify::VerifyError),
    /// libtorch refused an operation.
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}

/// A model folder is written once; a run can be made again.
fn checkpoint_advice(path: &Path) -> &'static str {
    if path.with_file_name(MODEL_CONFIG_FILE).exists() {
        "Fetch the model folder again, or export it anew: fidgp export RUN"
    } else if !path.exists() {
        "There is no such file (yet)"
    } else {
        "Use the run's own run.toml, or start again with --force"
    }
}

impl LabError {
    /// A config value that cannot be.
    pub fn config(key: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Config { key: key.into(), why: why.into() }
    }

    /// A file that could not be read or written.
    pub fn file(path: &Path, why: &dyn std::error::Error) -> Self {
        Self::File { path: path.to_owned(), why: why.to_string() }
    }

    /// The same with the split it is of; a stop is not the split's.
    #[must_use]
    pub fn of_split(self, split: usize) -> Self {
        match self {
            Self::Interrupted { .. } => self,
            error => Self::Split { split, error: Box::new(error) },
        }
    }

    /// Whether one run failed by itself, so that others beside it need not: it diverged, or its numbers do not suit its method.
    pub fn is_of_one_run(&self) -> bool {
        match self {
            Self::Split { error, .. } => error.is_of_one_run(),
            Self::Diverged { .. }
            | Self::Method(fidgp::Error::Setting { .. })
            | Self::Zoo(fidgp_zoo::Error::Method(_)) => true,
            error => error.is_divergence(),
        }
    }

    /// Whether this is what a network that has diverged makes of a computation.
    pub fn is_divergence(&self) -> bool {
        use fidgp::Error::{Cholesky, NonFinite};
        matches!(self, Self::Metric(_) | Self::Method(Cholesky { .. } | NonFinite { .. }))
    }

    /// Whether the user asked for something impossible (exit code 2) rather than something that failed (exit code 1).
    pub fn is_misuse(&self) -> bool {
        use fidgp_zoo::Error as Zoo;
        match self {
            Self::Config { .. } | Self::ConfigFile { .. } | Self::InUse { .. } => true,
            Self::Onnx(error) => !matches!(error, fidgp_onnx::Error::Method(_) | fidgp_onnx::Error::Torch(_)),
            Self::Split { error, .. } | Self::Contender { error, .. } => error.is_misuse(),
            Self::Method(error) | Self::Zoo(Zoo::Method(error)) => matches!(error, fidgp::Error::Setting { .. }),
            Self::Decision(error) => matches!(error, fidgp_decision::DecisionError::Asked { .. }),
            Self::Zoo(error) => !matches!(error, Zoo::File { .. } | Zoo::Torch(_)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_folder_is_not_told_to_start_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let said = || LabError::Checkpoint { path: path.clone(), why: "is cut short".to_owned() }.to_string();
        assert!(said().contains("no such file"));
        std::fs::write(&path, "cut").unwrap();
        assert!(said().contains("start again with --force"));
        std::fs::write(folder.path().join(MODEL_CONFIG_FILE), "{}").unwrap();
        assert!(said().contains("export it anew") && !said().contains("--force"), "{}", said());
    }
}
