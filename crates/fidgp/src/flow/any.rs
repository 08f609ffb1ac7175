//! One of the flows, behind one type.

use tch::Tensor;

use super::stack::{Stack, stack_fields};
use super::{CouplingFlow, DiagonalFlow, Flow, FlowConfig, Flowed, IafFlow, LipschitzFlow, MadeFlow};
use crate::Key;

/// A flow built from a [`FlowConfig`].
#[derive(Debug)]
pub struct AnyFlow {
    config: FlowConfig,
    body: Body,
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

/// Declares [`Body`], one variant per flow, and how each acts.
macro_rules! bodies {
    ($($name:ident($flow:ty)),+) => {
        #[derive(Debug)]
        pub(super) enum Body {
            $($name($flow)),+
        }

        impl Body {
            fn flow(&self) -> &dyn Flow {
                match self { $(Self::$name(flow) => flow),+ }
            }
        }

        /// Parts of one kind, which [`super::StackedFlow`] has made sure of.
        impl Stack for Body {
            fn stack(parts: &[&Self]) -> Self {
                match parts[0] { $(Self::$name(_) => Self::$name(Stack::stack(&alike!(parts, $name)))),+ }
            }

            fn share(&self) -> Self {
                match self { $(Self::$name(flow) => Self::$name(flow.share())),+ }
            }

            fn write_back(&self, parts: &[&Self]) {
                match self { $(Self::$name(flow) => flow.write_back(&alike!(parts, $name))),+ }
            }
        }
    };
}

bodies!(Made(MadeFlow), Iaf(IafFlow), Lipschitz(LipschitzFlow), Diagonal(DiagonalFlow), Coupling(CouplingFlow));

impl AnyFlow {
    pub(super) fn new(config: FlowConfig, body: Body) -> Self {
        Self { config, body }
    }

    /// What the flow was built from.
    pub fn config(&self) -> &FlowConfig {
        &self.config
    }
}

impl Flow for AnyFlow {
    fn forward(&self, x: &Tensor, dropout: Option<Key>) -> Flowed {
        self.body.flow().forward(x, dropout)
    }

    fn inverse(&self, y: &Tensor) -> Option<Tensor> {
        self.body.flow().inverse(y)
    }

    fn push_gaussian(&self, mean: &Tensor, sd: &Tensor) -> Option<(Tensor, Tensor)> {
        self.body.flow().push_gaussian(mean, sd)
    }

    fn advance_spectral(&self) {
        self.body.flow().advance_spectral();
    }

    fn settle_spectral(&self) {
        self.body.flow().settle_spectral();
    }

    fn dim(&self) -> i64 {
        self.body.flow().dim()
    }

    fn parameter_count(&self) -> i64 {
        self.body.flow().parameter_count()
    }
}

stack_fields!(AnyFlow { body } same { config });
