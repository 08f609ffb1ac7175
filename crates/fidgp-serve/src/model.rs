//! What the server asks of a model.

use std::fmt::Debug;

use serde::Serialize;
use serde_json::Value;

use crate::answer::Answer;

/// A trained model. It lives on a thread of its own, so it need not be shared.
pub trait Model: Send {
    /// What it takes and gives.
    fn signature(&self) -> Signature;

    /// Answers a batch, one result for each item and in their order: an input that cannot be used spoils its own place only.
    ///
    /// # Errors
    /// When nothing can be said about any of them.
    fn predict(&mut self, items: &[Item], options: &Options) -> Result<Vec<Result<Answer, ModelError>>, ModelError>;

    /// Evidence that what comes in has changed since the model was calibrated: series by name, e-values as logarithms to
    /// base 10. None for a model that cannot say.
    fn drift(&self) -> Vec<(String, f64)> {
        Vec::new()
    }
}

/// One input.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// The bytes of a picture file: PNG, JPEG or WebP.
    Picture(Vec<u8>),
    /// A picture's numbers, 0 … 255, channel by channel, in the size that the model takes.
    Pixels(Vec<f32>),
    /// A row of a table, its features in the model's order.
    Row(Vec<f64>),
    /// The same as text, for models whose columns hold more than numbers; an empty cell is a missing value.
    Cells(Vec<String>),
}

/// What a model takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Takes {
    /// Pictures, brought to this size if they come as files; none where any size will do.
    Pictures {
        /// Channels, height and width.
        size: Option<[i64; 3]>,
    },
    /// Rows with these features.
    Rows {
        /// Their names, in order.
        features: Vec<String>,
        /// A row to begin with, such as the means of the training data; may be empty.
        example: Vec<Value>,
        /// What each of them holds, where some may be texts, or missing: then rows come as [`Item::Cells`]. None where all
        /// are numbers.
        columns: Vec<Column>,
    },
}

/// What a column of a table holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub holds: Holds,
    /// The texts that the model knows; others count as one more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<String>,
}

/// What cells are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// Numbers.
    Number,
    /// Yes and no.
    Boolean,
    /// Dates such as `2024-01-31`.
    Date,
    /// Texts.
    Text,
}

/// What a model gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Outputs {
    /// One of these classes.
    Classes(Vec<String>),
    /// A number, called so.
    Number(String),
    /// One of these classes for every pixel.
    Pixels(Vec<String>),
}

/// What a model takes and gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// Input.
    pub takes: Takes,
    /// Output.
    pub gives: Outputs,
    /// Weight draws where a request asks for none; 0 for a posterior that needs none, at whatever number is asked for.
    pub draws: u64,
    /// Levels of its sets or intervals.
    pub levels: Vec<f64>,
    /// Whether it scores how unlike the training data an input is.
    pub scores_ood: bool,
    /// Whether it says what to do with a prediction.
    pub decides: bool,
}

impl Signature {
    /// Whether it draws until an error is small enough: classes of pictures.
    pub fn bears_tolerance(&self) -> bool {
        matches!((&self.takes, &self.gives), (Takes::Pictures { .. }, Outputs::Classes(_)))
    }

    /// Inputs to give it at once, so that a step takes no more than a batch with its own draws does: between steps it can be stopped.
    /// Segmentation looks at each picture alone in any case.
    pub fn step(&self, options: &Options, batch: usize) -> usize {
        let asked = options.draws.unwrap_or(self.draws).max(1);
        match self.gives {
            Outputs::Pixels(_) => 1,
            _ if self.draws == 0 || asked <= self.draws => batch.max(1),
            _ => ((batch as u64).saturating_mul(self.draws) / asked).max(1) as usize,
        }
    }

    /// Whether its answers may have remarks: on cells that are missing, or rules that do not fit.
    pub fn flags(&self) -> bool {
        self.decides || matches!(&self.takes, Takes::Rows { columns, .. } if !columns.is_empty())
    }
}

/// What a request may ask for. Requests are batched with others that ask for the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Weight draws; the model's own number without it.
    pub draws: Option<u64>,
    /// Largest Monte-Carlo error of a probability: so many draws as that needs, at most `draws`.
    pub tolerance: Option<f64>,
}

/// Why a model could not answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The input cannot be used; the words are for who sent it.
    #[error("{0}")]
    Input(String),
    /// The model failed; the words are for the log.
    #[error("{0}")]
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(gives: Outputs, draws: u64) -> Signature {
        let takes = Takes::Pictures { size: None };
        Signature { takes, gives, draws, levels: Vec::new(), scores_ood: false, decides: false }
    }

    #[test]
    fn more_draws_make_smaller_steps() {
        let asked = |draws| Options { draws, tolerance: None };
        let classes = signature(Outputs::Classes(Vec::new()), 8);
        for (draws, expected) in
            [(None, 64), (Some(1), 64), (Some(8), 64), (Some(9), 56), (Some(256), 2), (Some(u64::MAX), 1)]
        {
            assert_eq!(classes.step(&asked(draws), 64), expected, "{draws:?}");
        }
        assert_eq!(classes.step(&Options { draws: Some(256), tolerance: Some(0.01) }, 64), 2);
        assert_eq!(signature(Outputs::Number("y".to_owned()), 0).step(&asked(Some(256)), 64), 64, "it draws nothing");
        assert_eq!(signature(Outputs::Pixels(Vec::new()), 8).step(&asked(None), 64), 1);
    }
}
