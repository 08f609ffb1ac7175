//! Why a Bayesian weight is built, or applied factor by factor: both orders of evaluation with their counts.

use fidgp::layer::LayerGeometry;
use fidgp::prior::Sizes;
use fidgp::weight::{InducingConfig, Order};
use serde::Serialize;

use crate::draw_cost::{factored_forward, left_factor, mean_weight};
use crate::thousands;

/// Multiply-accumulates of one order. What both orders share (q(U), the flow, factors, Matheron's ū) is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Once for a draw of the weight.
    pub draw: i64,
    /// For every input, at all its positions.
    pub input: i64,
}

/// The two orders of one weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Orders {
    /// The one that is taken: the very choice of a draw.
    pub order: Order,
    /// `[d_out, d_in]` of the weight, a bias being one more column.
    pub weight: [i64; 2],
    /// W is formed, then applied.
    pub built: Work,
    /// `(A_rᵀ V)(A_c x)`; where the noise is a matrix, that matrix is applied beside it.
    pub factored: Work,
}

impl Orders {
    pub(crate) fn of(layer: &LayerGeometry, sizes: Sizes, config: &InducingConfig) -> Self {
        let order = config.order(sizes);
        let noise = if order == Order::BuiltForNoise { layer.macs() } else { 0 };
        Self {
            order,
            weight: [sizes.d_out, sizes.d_in],
            built: Work { draw: mean_weight(sizes), input: layer.macs() },
            factored: Work { draw: left_factor(sizes), input: noise + factored_forward(sizes, layer.positions()) },
        }
    }

    /// The work of the order that is taken.
    pub fn taken(&self) -> Work {
        if self.order == Order::Factored { self.factored } else { self.built }
    }

    /// Why, in a sentence.
    pub(crate) fn why(&self, cols: i64) -> String {
        let [d_out, d_in] = self.weight;
        let (ours, plain) = (thousands(cols * (d_in + d_out)), thousands(d_in * d_out));
        let sum = format!("C(d_in + d_out) = {cols}({d_in} + {d_out}) = {ours}");
        match self.order {
            Order::BuiltForNoise => {
                format!("built: noise of {d_out}x{d_in} meets every input anyway; factors would come on top of it")
            }
            Order::BuiltForCost => format!("built: {sum} ≥ d_in·d_out = {plain} at a position"),
            Order::Factored => format!("factored: {sum} < d_in·d_out = {plain} at a position"),
        }
    }
}
