//! Van Amersfoort et al.: On Feature Collapse and Deep Kernel Learning for Single Forward Pass Uncertainty (2021), DUE:
//! layers of bounded norm, and sparse variational Gaussian processes as the last one.

use super::svgp::Svgp;
use super::{About, Extra, Method};

/// The bound.
const SPECTRAL_NORM: f64 = 3.0;

/// The method.
#[derive(Debug)]
pub struct Due;

impl Method for Due {
    fn about(&self) -> About {
        About {
            name: "due",
            words: "A network of bounded layers with sparse variational Gaussian processes on top (DUE)",
            usual: |_| vec![("network", "spectral_norm", SPECTRAL_NORM.into())],
            spectral_norm: Extra::Own,
            ..Svgp.about()
        }
    }
}
