//! Which weights a run's results are of.

use std::path::{Path, PathBuf};

use crate::config::{RunConfig, Select};
use crate::train::checkpoint;

/// The checkpoint that a run's results are of.
pub fn chosen_checkpoint(config: &RunConfig, run: &Path) -> PathBuf {
    let best = checkpoint::best(run);
    if config.train.select == Select::Best && best.exists() { best } else { checkpoint::last(run) }
}
