//! What can be wrong with a graph, where, and what to do about it.

use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};

use fidgp_files::shown;
use tch::TchError;
use thiserror::Error;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate. Every message says where and what to do next.
#[derive(Debug, Error)]
pub enum Error {
    /// A file cannot be used as it is.
    #[error("{}: {}", .file.display(), shown(.problem))]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A graph as a whole cannot be used.
    #[error("{}", shown(.0))]
    Graph(String),
    /// A node cannot be used.
    #[error("{place}: {}", shown(.problem))]
    Node {
        /// Which node, with its operator and version.
        place: Place,
        /// What is wrong with it.
        problem: String,
    },
    /// The method itself failed.
    #[error(transparent)]
    Method(#[from] fidgp::Error),
    /// libtorch refused an operation outside of any node.
    #[error("libtorch: {}", first_line(.0))]
    Torch(#[from] TchError),
}

impl Error {
    pub(crate) fn file(file: &Path, problem: impl Display) -> Self {
        Self::File { file: file.to_owned(), problem: problem.to_string() }
    }

    pub(crate) fn graph(problem: impl Into<String>) -> Self {
        Self::Graph(problem.into())
    }

    /// The error of the method behind it, for networks that must return one.
    pub(crate) fn into_method(self) -> fidgp::Error {
        match self {
            Self::Method(error) => error,
            other => fidgp::Error::Setting {
                setting: "network".to_owned(),
                value: "ONNX".to_owned(),
                advice: other.to_string(),
            },
        }
    }
}

/// A node, as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node's name; that of its first output where it has none.
    pub node: String,
    /// The operator, with its domain where that is not ONNX's own.
    pub operator: String,
    /// The version of the operators of its domain.
    pub opset: i64,
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "node `{}` ({}, opset {})", shown(&self.node), shown(&self.operator), self.opset)
    }
}

impl Place {
    pub(crate) fn error(&self, problem: impl Display) -> Error {
        Error::Node { place: self.clone(), problem: problem.to_string() }
    }

    /// The error of what this node does.
    pub(crate) fn of(&self, problem: Problem) -> Error {
        match problem.0 {
            Cause::Text(text) => self.error(text),
            Cause::Method(error) => Error::Method(error),
        }
    }
}

/// What is wrong, said without the place.
#[derive(Debug)]
pub(crate) struct Problem(Cause);

#[derive(Debug)]
enum Cause {
    Text(String),
    Method(fidgp::Error),
}

/// The result of work whose place the caller knows.
pub(crate) type Doing<T> = std::result::Result<T, Problem>;

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self(Cause::Text(text))
    }
}

impl From<&str> for Problem {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<TchError> for Problem {
    fn from(error: TchError) -> Self {
        format!("libtorch: {}", first_line(&error)).into()
    }
}

impl From<fidgp::Error> for Problem {
    fn from(error: fidgp::Error) -> Self {
        Self(Cause::Method(error))
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Cause::Text(text) => f.write_str(text),
            Cause::Method(error) => error.fmt(f),
        }
    }
}

/// libtorch's messages go on with a trace of its own calls.
fn first_line(error: &TchError) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("Internal torch error: ").unwrap_or(&text);
    text.lines().next().unwrap_or_default().to_owned()
}
