//! The share of `h·g` outside the leading rows of U.

use fidgp::ood::LeadingRows;
use tch::Tensor;

use super::{Given, LayerFormula, LayerRow, LayerScore, Needs, Observed};
use crate::error::Result;

const NAME: &str = "residual";

pub(super) const RESIDUAL: LayerScore = LayerScore {
    rows: &[
        LayerRow::alone(NAME, NAME, "share of h·g outside the leading rows of U, mean over layers"),
        LayerRow::hinge(
            "residual+energy",
            NAME,
            "energy, and what of the residual exceeds its 95 % quantile on ID train",
        ),
    ],
    needs: Needs::Inducing,
    fit: |given| Ok(Box::new(Residual::of(given))),
};

/// The leading rows of every Bayesian layer; none without gradients.
struct Residual {
    layers: Vec<String>,
    leading: Vec<LeadingRows>,
}

impl Residual {
    fn of(given: &Given) -> Self {
        let share = |rows: &LeadingRows| LeadingRows::of_basis(rows.basis().shallow_clone());
        let leading: Vec<_> = given.kept.leading.iter().map(share).collect();
        let layers = if leading.is_empty() { Vec::new() } else { super::bayesian(given) };
        Self { layers, leading }
    }
}

impl LayerFormula for Residual {
    fn families(&self) -> Vec<(String, Vec<String>)> {
        vec![(NAME.to_owned(), self.layers.clone())]
    }

    fn score(&self, seen: &Observed) -> Result<Vec<(String, Tensor)>> {
        let rows = seen.rows.iter().zip(&self.leading);
        rows.map(|((layer, q), leading)| Ok((format!("{NAME}/{layer}"), leading.score(q)?))).collect()
    }
}
