//! What the inducing columns of a layer leave of the mean patch.

use tch::Tensor;

use super::{LayerFormula, LayerRow, LayerScore, Needs, Observed};
use crate::error::Result;

const NAME: &str = "variance";

pub(super) const VARIANCE: LayerScore = LayerScore {
    rows: &[
        LayerRow::alone(
            NAME,
            NAME,
            "share of the mean patch that the inducing columns leave, mean over layers: one forward pass",
        ),
        LayerRow::hinge(
            "variance+energy",
            NAME,
            "energy, and what of the variance exceeds its 95 % quantile on ID train: one forward pass",
        ),
    ],
    needs: Needs::Inducing,
    fit: |given| Ok(Box::new(Variance(super::bayesian(given)))),
};

/// Nothing is fitted: the layers.
struct Variance(Vec<String>);

impl LayerFormula for Variance {
    fn families(&self) -> Vec<(String, Vec<String>)> {
        vec![(NAME.to_owned(), self.0.clone())]
    }

    fn score(&self, seen: &Observed) -> Result<Vec<(String, Tensor)>> {
        let column = |(layer, share): &(String, Tensor)| (format!("{NAME}/{layer}"), share.shallow_clone());
        Ok(seen.unexplained.iter().map(column).collect())
    }
}
