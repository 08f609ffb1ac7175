//! What a benchmark is asked for.

use std::path::PathBuf;

use super::observe::WeightChoice;
use super::scores::OodScore;

/// What is compared, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The model, for the record.
    pub model: String,
    /// The ID set; the model's own where none is given.
    pub id: Option<String>,
    /// The OoD sets.
    pub ood: Vec<String>,
    /// Sets among them that count as near, beside CIFAR's sibling.
    pub near: Vec<String>,
    /// Sets that recipes are chosen on.
    pub choose_on: Vec<String>,
    /// Folder of the data sets.
    pub root: PathBuf,
    /// Which U.
    pub u: WeightChoice,
    /// Draws of the mutual information.
    pub draws: u64,
    /// Whether a backward pass is made, for the residuals.
    pub gradients: bool,
    /// Most images of a set.
    pub limit: usize,
    /// ID training images to fit on.
    pub fit: usize,
    /// Images in a batch.
    pub batch: usize,
    /// Seed of subsets and bootstrap.
    pub seed: u64,
    /// Go on when a control fails, with a warning in everything that is written.
    pub skip_controls: bool,
    /// The command line.
    pub command: Option<String>,
    /// What is done beside the table.
    pub more: More,
}

impl Settings {
    /// Most images of a set; none where all are taken.
    pub fn most_images(&self) -> Option<usize> {
        (self.limit < usize::MAX).then_some(self.limit)
    }
}

/// What is done beside the table.
#[derive(Clone, Debug, Default)]
pub struct More {
    /// Where statistics of the ID training images are kept between benchmarks; nowhere for none.
    pub statistics: Option<PathBuf>,
    /// Run the released script's procedure with its null control as well.
    pub paper_protocol: bool,
    /// Scores beside the registered ones.
    pub scores: Vec<&'static OodScore>,
}
