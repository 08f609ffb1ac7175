//! Mean field with local reparameterisation, trained with sharpness-aware steps: the NLL's gradient is taken at
//! `θ + ρ g/‖g‖`.

use super::mean_field::MeanField;
use super::{About, Extra, Method};

/// ρ, and on CIFAR-100.
const SHARPNESS: f64 = 0.05;
const CIFAR100_SHARPNESS: f64 = 0.1;

/// The method.
#[derive(Debug)]
pub struct FSgvbLrt;

impl Method for FSgvbLrt {
    fn about(&self) -> About {
        About {
            name: "f-sgvb-lrt",
            words: "A mean-field Bayesian network trained with sharpness-aware steps (F-SGVB-LRT)",
            usual: |data| {
                let sharpness = if data == "cifar100" { CIFAR100_SHARPNESS } else { SHARPNESS };
                vec![("train", "sharpness", sharpness.into())]
            },
            sharpness: Extra::Own,
            ..MeanField.about()
        }
    }
}
