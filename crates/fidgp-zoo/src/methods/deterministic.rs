//! Plain weights.

use super::{About, Extra, Method};

/// The method.
#[derive(Debug)]
pub struct Deterministic;

impl Method for Deterministic {
    fn about(&self) -> About {
        About {
            spectral_norm: Extra::Allowed,
            counts_steps: true,
            ..About::new("deterministic", "A network with plain weights")
        }
    }
}
