//! Which flow, with which settings: the registry.

use std::ops::Deref;

use serde::{Deserialize, Serialize};
use tch::nn::Path;

use super::any::AnyFlow;
use super::stack::Stack;
use super::{CouplingConfig, DiagonalConfig, Flow, IafConfig, LipschitzConfig, MadeConfig};
use crate::{Key, Result};

/// The settings of one kind of flow: what is known of it before it has numbers.
pub trait FlowSettings {
    /// Whether [`InitFlow::init`] would take these settings.
    ///
    /// # Errors
    /// Names the setting that cannot be.
    fn check(&self, dim: i64) -> Result<()>;

    /// How many trainable numbers [`InitFlow::init`] would create.
    fn parameter_count(&self, dim: i64) -> i64;

    /// How many numbers that are not trained [`InitFlow::init`] would create: those of power iterations.
    fn state_count(&self, dim: i64) -> i64 {
        let _ = dim;
        0
    }

    /// Multiply-accumulates of one row: every weight is used once; biases make this a slight overcount.
    fn row_macs(&self, dim: i64) -> i64 {
        self.parameter_count(dim)
    }

    /// Whether a draw in training has dropout masks of its own.
    fn drops_out(&self) -> bool {
        false
    }

    /// Whether the KL has a closed form, which a batch of flows gains nothing by.
    fn keeps_gaussians(&self) -> bool {
        false
    }
}

/// Settings that a flow is made from.
pub trait InitFlow: FlowSettings {
    /// The flow.
    type Flow: Flow;

    /// Creates the flow on ℝᶜ, C = `dim`, with its variables under `path` and its start values from `key`.
    ///
    /// # Errors
    /// As [`FlowSettings::check`].
    fn init(&self, path: &Path, dim: i64, key: Key) -> Result<Self::Flow>;
}

/// The parts of one variant.
macro_rules! alike {
    ($parts:expr, $name:ident) => {
        $parts
            .iter()
            .filter_map(|part| if let Self::$name(flow) = part { Some(flow) } else { None })
            .collect::<Vec<_>>()
    };
}

/// Registers flows: one line for each, whose `kind` in a config is its name in kebab-case.
macro_rules! flows {
    ($($(#[doc = $about:literal])* $(#[cfg($when:meta)])? $name:ident($settings:ty)),+ $(,)?) => {
        /// One of the flows and its settings, for example `{ kind = "made", hidden = 64 }`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub enum FlowConfig {
            $($(#[doc = $about])* $(#[cfg($when)])? $name($settings)),+
        }

        /// One of the flows.
        #[derive(Debug)]
        pub(super) enum Body {
            $($(#[cfg($when)])? $name(<$settings as InitFlow>::Flow)),+
        }

        impl FlowConfig {
            /// Creates the flow on ℝᶜ, C = `dim`, with its variables under `path` and its start values from `key`.
            ///
            /// # Errors
            /// As [`FlowSettings::check`].
            pub fn init(&self, path: &Path, dim: i64, key: Key) -> Result<AnyFlow> {
                let body = match self { $($(#[cfg($when)])? Self::$name(settings) => Body::$name(settings.init(path, dim, key)?)),+ };
                Ok(AnyFlow::new(self.clone(), body))
            }
        }

        impl Deref for FlowConfig {
            type Target = dyn FlowSettings;

            fn deref(&self) -> &Self::Target {
                match self { $($(#[cfg($when)])? Self::$name(settings) => settings),+ }
            }
        }

        impl Body {
            pub(super) fn flow(&self) -> &dyn Flow {
                match self { $($(#[cfg($when)])? Self::$name(flow) => flow),+ }
            }
        }

        /// Parts of one kind, which [`super::StackedFlow`] has made sure of.
        impl Stack for Body {
            fn stack(parts: &[&Self]) -> Self {
                match parts[0] { $($(#[cfg($when)])? Self::$name(_) => Self::$name(Stack::stack(&alike!(parts, $name)))),+ }
            }

            fn share(&self) -> Self {
                match self { $($(#[cfg($when)])? Self::$name(flow) => Self::$name(flow.share())),+ }
            }

            fn write_back(&self, parts: &[&Self]) {
                match self { $($(#[cfg($when)])? Self::$name(flow) => flow.write_back(&alike!(parts, $name))),+ }
            }
        }
    };
}

flows! {
    /// Masked affine autoregressive.
    Made(MadeConfig),
    /// Several of them in alternating order.
    Iaf(IafConfig),
    /// Dense contracting layers.
    Lipschitz(LipschitzConfig),
    /// A slope and a shift per column.
    Diagonal(DiagonalConfig),
    /// Real NVP.
    Coupling(CouplingConfig),
    /// What a test registers.
    #[cfg(test)]
    Dummy(super::dummy::DummyConfig),
}

impl Default for FlowConfig {
    fn default() -> Self {
        Self::Made(MadeConfig::default())
    }
}

impl FlowConfig {
    /// Whether several such flows give the same values as a batch as one by one, and gain by it: not with dropout, whose
    /// masks would depend on the batch, and not where the KL has a closed form.
    pub(crate) fn is_batched(&self) -> bool {
        !self.drops_out() && !self.keeps_gaussians()
    }

    /// The flow of the paper's released code, see [`MadeConfig::compat`].
    pub fn compat() -> Self {
        Self::Made(MadeConfig::compat())
    }
}
