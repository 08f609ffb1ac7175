//! The evidence lower bound: likelihoods, the KL ledger, and the schedule that switches it on.

mod categorical;
mod elbo;
mod gaussian;
mod likelihood;
mod pixels;

use std::ops::Deref;

use serde::{Deserialize, Serialize};

pub use categorical::{CategoricalSettings, ClassWeights, WeightRule, categorical_curvature, categorical_nll};
pub use elbo::{DatasetSize, KlSchedule, KlSum, negative_elbo, sum_kl};
pub use gaussian::{Gaussian, GaussianSettings, NoiseConfig};
pub use likelihood::{GaussianOutput, Given, Likelihood, LikelihoodSettings, NumberLikelihood, Reading, Targets};
pub use pixels::{PixelSettings, VOID, pixel_mass, pixel_nll};

/// Registers likelihoods: one line for each, whose `kind` in a config is its name in kebab-case.
macro_rules! likelihoods {
    ($($(#[doc = $about:literal])* $(#[cfg($when:meta)])? $name:ident($settings:ty)),+ $(,)?) => {
        /// One of the likelihoods and its settings, for example `{ kind = "categorical", smoothing = 0.1 }`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub enum LikelihoodConfig {
            $($(#[doc = $about])* $(#[cfg($when)])? $name($settings)),+
        }

        impl LikelihoodConfig {
            /// Its `kind`, as Rust writes it, in lower case.
            pub fn kind(&self) -> String {
                match self { $($(#[cfg($when)])? Self::$name(_) => stringify!($name).to_lowercase()),+ }
            }
        }

        impl Deref for LikelihoodConfig {
            type Target = dyn LikelihoodSettings;

            fn deref(&self) -> &Self::Target {
                match self { $($(#[cfg($when)])? Self::$name(settings) => settings),+ }
            }
        }
    };
}

likelihoods! {
    /// `y ~ N(f(x), σ²)`.
    Gaussian(GaussianSettings),
    /// Class probabilities.
    Categorical(CategoricalSettings),
    /// Class probabilities of every pixel.
    Pixels(PixelSettings),
    /// What a test registers.
    #[cfg(test)]
    Dummy(dummy::DummySettings),
}

#[cfg(test)]
mod dummy;
