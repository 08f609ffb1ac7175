//! The linearised posterior in the inducing space: uncertainty that grows where there are no data.
//!
//! The weight of every inducing layer is `W = σ_p A_rᵀ V A_c` with `V ~ N(0, I)` a priori. At the centre m of q(V), the
//! outputs are linearised in V: `J_k = ∂f_k/∂V = σ_p Σ_positions (A_r g_k)(A_c a)ᵀ`, with a the layer's input (a 1 for the
//! bias appended) and g_k the gradient of output k by the layer's output. With Λ_n the curvature of the likelihood,
//! `Σ⁻¹ = δI + s Σ_n J_nᵀ Λ_n J_n` and `f(x) ~ N(f_m(x), J(x) Σ J(x)ᵀ)`.
//!
//! With [`Directions::Features`] it is not the weights that are linear but readouts of the layers' inducing features, one
//! forward pass and no backward one: for deep networks on images, whose gradients are smaller at unusual inputs. With
//! [`StructureKind::Classes`] the features are centred at the classes that the network considers.
//!
//! [`Tangent`] makes Jacobians, a [`Structure`] holds Σ, [`fit`] makes one in a single pass over the training data, and
//! [`LinearisedPosterior`] predicts.

mod alignment;
mod carried;
mod classes;
mod curvature;
mod dense;
mod evidence;
mod fitted;
mod jacobian;
mod kronecker;
mod law;
mod low_rank;
mod predict;
mod structure;
mod tangent;

pub use alignment::unexplained;
pub use carried::Carried;
pub use curvature::root;
pub use evidence::{Evidence, Misfit, Precision};
pub use fitted::{FitConfig, LinearisedPosterior, NoiseLevel, Observed, PriorPrecision, fit, fit_with};
pub use jacobian::Jacobian;
pub use law::{LOGIT_DRAWS, LinearisedLaw};
pub use predict::{LogitRule, NormalForecast};
pub use structure::{Gather, Others, Structure, StructureKind};
pub use tangent::{Centre, Directions, Linearised, OwnConditional, Tangent};
