//! The distance to the nearest training images.

use fidgp_zoo::baseline::knn::Neighbours;
use tch::Tensor;

use super::{Fitted, Formula, Given, Made, Needs, Observed, OodScore};
use crate::error::Result;

/// One neighbour in so many training images: the paper's 50 of CIFAR's 50,000. More than a class has images would measure the
/// distance to *other* classes.
const IMAGES_PER_NEIGHBOUR: i64 = 1000;

pub(super) const KNN: OodScore = OodScore {
    rows: &[("knn", "distance to the k-th neighbour, k a thousandth of the images fitted on (Sun et al. 2022)")],
    needs: Needs::Features,
    made: Made::Fitted(fit),
};

fn fit(given: &Given) -> Result<Fitted> {
    let Some(features) = &given.kept.features else { return Ok(None) };
    Ok(Some(Box::new(Nearest(Neighbours::fit(features, neighbours_of(features))?))))
}

/// k for so many ID training features.
pub fn neighbours_of(features: &Tensor) -> i64 {
    features.size()[0] / IMAGES_PER_NEIGHBOUR
}

struct Nearest(Neighbours);

impl Formula for Nearest {
    fn score(&self, seen: &Observed) -> Result<Vec<Tensor>> {
        seen.features.iter().map(|features| Ok(self.0.score(features)?)).collect()
    }

    /// They are not their own neighbours.
    fn score_fitted(&self, seen: &Observed) -> Result<Vec<Tensor>> {
        seen.features.iter().map(|features| Ok(self.0.score_fitted(features)?)).collect()
    }
}
