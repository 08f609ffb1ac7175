//! FiD-GP: inducing weights with a flow posterior, or another family named in `inducing.posterior`.

use super::ffgu::is_diagonal;
use super::{About, Method, Passes};
use crate::LayerPlan;

/// The method.
#[derive(Debug)]
pub struct Fidgp;

impl Method for Fidgp {
    fn about(&self) -> About {
        About {
            is_inducing: true,
            passes: Passes::Draws,
            has_kl: true,
            counts_steps: true,
            ..About::new("fidgp", "A Bayesian network with inducing weights (FiD-GP)")
        }
    }

    fn objects_to(&self, plan: &LayerPlan) -> Option<&'static str> {
        is_diagonal(plan).then_some("is the diagonal family: that is method = \"ffgu\"")
    }
}
