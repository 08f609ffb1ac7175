//! Examples that stand for other inputs than those they were drawn with: only the features differ, not what they mean.

use std::path::Path;

use fidgp_decision::decide::number;
use fidgp_metrics::conformal::{density_ratio, effective_size, resampled};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::examples::Collected;
use crate::error::{LabError, Result};
use crate::predict::Trained;

/// Fewest examples that may be left, and that their weights must be worth.
const FEWEST: usize = 30;

/// Keeps examples so that their features are distributed as those of a table without targets, and says so.
pub(super) fn towards(collected: &Collected, trained: &Trained, path: &Path, seed: u64) -> Result<(Collected, String)> {
    let (Collected::Rows(given, targets), Some(view)) = (collected, &trained.table) else {
        let why = "is for models of tables of one's own, whose features can be compared";
        return Err(LabError::config("--target-inputs", why));
    };
    let there = view.rows(path)?;
    let (here, rows) = (targets.len(), there.flags.len());
    let (weights, _) = density_ratio(&given.inputs, &there.inputs, given.inputs.len() / here.max(1))?;
    let kept = resampled(&weights, &mut ChaCha8Rng::seed_from_u64(seed))?;
    // weights are 1 on average where the features overlap, and next to nothing where they do not
    let mean = weights.iter().sum::<f64>() / here.max(1) as f64;
    let (left, worth) = (kept.len(), effective_size(&weights) * mean.min(1.0));
    let (path, worth_said) = (path.display().to_string(), number(worth));
    if left < FEWEST || worth < FEWEST as f64 {
        let why = format!(
            "{}: its rows differ so much from the {here} examples that these are worth only {worth_said} of them, and {left} \
             can be kept ({FEWEST} are needed): label some of its rows and name them with --examples",
            fidgp_files::shown(&path)
        );
        return Err(LabError::config("--target-inputs", why));
    }
    let note = format!(
        "{left} of {here} examples kept, so that their features are distributed as those of the {rows} rows of {} (effective \
         size of the weights: {worth_said}); the guarantees are for such inputs, as long as only the features differ",
        fidgp_files::shown(&path)
    );
    Ok((collected.select(&kept)?, note))
}
