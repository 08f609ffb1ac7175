//! Normalising flows on the rows of the whitened inducing matrix.
//!
//! A flow acts on ℝᶜ and is shared by all rows of V, so log|det J| of V is the sum over rows. Every formula accepts
//! leading batch axes, on the input as on the parameters: flows of one configuration can be joined into a
//! [`StackedFlow`] and evaluated in one call.
//!
//! | flow | map | inverse |
//! |---|---|---|
//! | [`MadeFlow`] | y = s(x₍<₎)⊙x + t(x₍<₎), masked autoregressive | C passes |
//! | [`IafFlow`] | several of them, every other one in reversed order | C passes each |
//! | [`LipschitzFlow`] | h ← φ(W̃h + b), σ(W̃) ≤ 1 | linear solves |
//! | [`DiagonalFlow`] | y = sigmoid(a)⊙x + b | closed form |
//! | [`CouplingFlow`] | half of the coordinates moved given the other half | one pass |
//!
//! ```
//! use fidgp::Key;
//! use fidgp::flow::{Flow, FlowConfig};
//! use tch::{Device, Kind, nn::VarStore};
//!
//! let store = VarStore::new(Device::Cpu);
//! let flow = FlowConfig::default().init(&store.root(), 3, Key::new(1))?;
//! let x = Key::new(2).normal(&[5, 3], Kind::Float, Device::Cpu);
//! let flowed = flow.forward(&x, None);
//! assert!(flowed.value.allclose(&x, 1e-5, 1e-6, false)); // the default starts at the identity
//! assert_eq!(flowed.log_det.size(), [5]);
//! # Ok::<(), fidgp::Error>(())
//! ```

mod any;
mod config;
mod coupling;
mod diagonal;
mod iaf;
mod linear;
mod lipschitz;
mod made;
mod made_config;
mod masks;
mod stack;
mod stacked;
mod start;

use tch::Tensor;

pub use any::AnyFlow;
pub use config::{FlowConfig, FlowSettings, InitFlow};
pub use coupling::{CouplingConfig, CouplingFlow};
pub use diagonal::{DiagonalConfig, DiagonalFlow};
pub use iaf::{IafConfig, IafFlow};
pub use linear::{LinearParams, SCALE_FLOOR};
pub use lipschitz::{LipschitzConfig, LipschitzFlow, NormBy};
pub use made::{MadeFlow, MadeLayers};
pub use made_config::{MadeConfig, MadeStart};
pub use masks::{MadeDegrees, MadeMasks};
pub use stacked::StackedFlow;

use crate::Key;

/// What a flow returns.
#[derive(Debug)]
pub struct Flowed {
    /// g(x). `[.., rows, C]`
    pub value: Tensor,
    /// log|det ∂g/∂x| of each row. `[.., rows]`
    pub log_det: Tensor,
}

/// A differentiable bijection of ℝᶜ with a tractable Jacobian determinant.
///
/// `forward` is pure: it reads parameters and power iterations and changes neither.
pub trait Flow: std::fmt::Debug + Send {
    /// Maps rows. `dropout` is the key of the dropout masks of a training pass; `None` at evaluation.
    ///
    /// # Shapes
    /// `x [.., rows, C]` → value `[.., rows, C]`, log_det `[.., rows]`
    fn forward(&self, x: &Tensor, dropout: Option<Key>) -> Flowed;

    /// The x with `forward(x, None).value = y`; `None` from a flow that has no practical inverse. Every flow of this
    /// crate has one, at the cost its own page names.
    ///
    /// # Shapes
    /// `y [.., rows, C]` → `[.., rows, C]`
    fn inverse(&self, y: &Tensor) -> Option<Tensor>;

    /// Mean and deviation of the flowed Gaussian, for a flow that keeps Gaussians Gaussian: its KL has a closed form.
    ///
    /// # Shapes
    /// mean and sd `[.., rows, C]` → the same
    fn push_gaussian(&self, mean: &Tensor, sd: &Tensor) -> Option<(Tensor, Tensor)> {
        let _ = (mean, sd);
        None
    }

    /// One step of every power iteration. A training step calls it once, before its forward pass.
    fn advance_spectral(&self) {}

    /// Power iteration until the norms no longer grow, for example after training or after loading weights.
    fn settle_spectral(&self) {}

    /// C.
    fn dim(&self) -> i64;

    /// The number of trainable numbers.
    fn parameter_count(&self) -> i64;
}

#[cfg(test)]
mod dummy;
