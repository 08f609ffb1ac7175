//! Inducing sizes layer by layer for a budget of parameters.
//!
//! What a layer loses by a low rank is weighed by what the loss feels of it: with A the second moment of its inputs and G that
//! of the gradients of its outputs (Kronecker-factored curvature; Martens & Grosse 2015), `Δ ≈ ½‖G^½ (W − Ŵ) A^½‖²`. The best Ŵ
//! of a rank is a singular value decomposition in these units ([`Spectrum`]), and its singular values say what every rank
//! costs. [`allocate`] spends the parameters where they save most.

mod allocate;
mod moments;
mod spectrum;

pub use allocate::{Choice, allocate};
pub use moments::{Moments, Sides};
pub use spectrum::Spectrum;
