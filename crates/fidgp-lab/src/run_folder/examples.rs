//! Which examples a run is trained on.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::files::TRAINED_ON_FILE;
use crate::json;

/// The training examples of a run, as its folder remembers them.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainedOn {
    /// How many.
    #[serde(alias = "images")]
    pub examples: usize,
    /// Of their numbers, or of their files' places where they are not held in memory.
    pub sha256: String,
}

/// Refuses to go on with a run on other training examples: the KL would have another weight, and examples that were held out
/// for validation might be trained on. A folder from before they were remembered does not say.
pub fn same_examples(run: &Path, now: &TrainedOn) -> Result<()> {
    let path = run.join(TRAINED_ON_FILE);
    if !path.exists() {
        return Ok(());
    }
    let before: TrainedOn = json::read(&path)?;
    if before == *now {
        return Ok(());
    }
    let count = if before.examples == now.examples {
        format!("{} others", now.examples)
    } else {
        format!("{}, were {}", now.examples, before.examples)
    };
    let why = format!("has other training examples than the run began with ({count}); go on with --data at those");
    Err(LabError::config("data", why))
}

/// Remembers the training examples of a run.
pub fn keep_examples(run: &Path, examples: &TrainedOn) -> Result<()> {
    json::write(&run.join(TRAINED_ON_FILE), examples)
}
