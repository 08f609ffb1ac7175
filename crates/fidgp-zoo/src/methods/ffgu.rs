//! Ritter et al.: Sparse Uncertainty Representation in Deep Learning with Inducing Weights (2021), FFG-U: inducing weights
//! with a diagonal Gaussian posterior.

use fidgp::posterior::PosteriorConfig;
use toml::Table;

use super::{About, Method, Passes};
use crate::{LayerPlan, RuleSlot};

/// The method.
#[derive(Debug)]
pub struct Ffgu;

impl Method for Ffgu {
    fn about(&self) -> About {
        About {
            is_inducing: true,
            passes: Passes::Draws,
            usual: |_| {
                let diagonal = Table::from_iter([("family".to_owned(), "diagonal".into())]);
                vec![("inducing", "posterior", diagonal.into())]
            },
            has_kl: true,
            counts_steps: true,
            ..About::new("ffgu", "A Bayesian network with inducing weights and a diagonal posterior (FFG-U)")
        }
    }

    fn objects_to(&self, plan: &LayerPlan) -> Option<&'static str> {
        (!is_diagonal(plan)).then_some("must be the diagonal family for method = \"ffgu\"")
    }
}

/// Whether every inducing layer has the diagonal posterior.
pub(super) fn is_diagonal(plan: &LayerPlan) -> bool {
    plan.rules().iter().all(|rule| match &rule.slot {
        RuleSlot::Inducing(config) => config.posterior == PosteriorConfig::Diagonal,
        RuleSlot::Dense | RuleSlot::Size(_) | RuleSlot::Custom(_) => true,
    })
}
