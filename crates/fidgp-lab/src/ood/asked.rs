//! Scores of pictures outside a benchmark, by what `fidgp ood` kept of the training images beside the model.

use std::path::Path;

use fidgp::Key;
use tch::Tensor;

use super::observe::{ModelObserver, Observe, WeightChoice};
use super::pipeline::Pipeline;
use super::scorer::{Columns, Scorer, fixed_recipes};
use super::scores::Given;
use super::statistics::{STATISTICS_FILE, Statistics, of_model};
use crate::error::{LabError, Result};
use crate::predict::Trained;
use crate::run_folder::posterior;
use crate::train::checkpoint;

/// Images in a batch, as `fidgp ood` has them unless it is told.
const BATCH: usize = 100;
/// Of what is random, likewise.
const SEED: u64 = 0;
/// A score that is fitted to the first batch it sees, which is not a training one here.
const OF_FIRST_BATCH: &str = "compat-residual";

/// Every score of pictures in the model's own size, by its name: high where they are out of distribution.
///
/// # Shapes
/// `[N, C, S, S]`, 0 … 255
///
/// # Errors
/// When the folder holds no statistics of this model, or they or the pictures do not fit it.
pub fn score_pictures(trained: &Trained, folder: &Path, pixels: &Tensor) -> Result<Columns> {
    let (path, model) = (folder.join(STATISTICS_FILE), &trained.model);
    let missing = || {
        let why = format!(
            "has no statistics of the training images of this model; `fidgp ood {} --ood …` makes them",
            folder.display()
        );
        LabError::config(path.display().to_string(), why)
    };
    let u = WeightChoice::Mean;
    let (weights, posterior) = (checkpoint::sha256_of(&model.store)?, posterior::digest(model)?);
    let signature = of_model(&weights, &u.to_string(), model.temperature, posterior.as_deref());
    let kept = Statistics::read_of_model(&path, &signature).ok_or_else(missing)?;
    let draws = Some(trained.config.predict.draws).filter(|draws| *draws > 1).unwrap_or(0);
    let gradients = !kept.leading.is_empty() || model.network.inducing().is_empty();
    let mut observer = ModelObserver::new(trained, u, draws, gradients)?;
    if model.store.device().is_cuda() {
        observer = observer.in_blocks(BATCH);
    }
    let first = observer.observe(&pixels.narrow(0, 0, pixels.size()[0].min(BATCH as i64)))?;
    let examples = kept.columns.values().next().map_or(0, Vec::len) as i64;
    if !kept.fit_to(&first, examples, &kept.labels) {
        return Err(missing());
    }
    let head = observer.head();
    let (inducing, key) = (observer.inducing.as_slice(), Key::new(SEED));
    let scorer = Scorer::fit(&Given { kept: &kept, first: &first, head: head.as_ref(), inducing, key }, &[])?;
    let families = scorer.families();
    let recipes = fixed_recipes(&families, &kept.columns)?;
    let pipeline = Pipeline { observer: &observer, scorer, recipes, families, fit: kept };
    let mut columns = pipeline.score(pixels, BATCH)?.columns;
    columns.remove(OF_FIRST_BATCH);
    Ok(columns)
}
