//! Spectral norms by power iteration with explicit state.
//!
//! σ(W) is estimated by uᵀWv, where (u, v) follows the leading singular pair:
//! v ← Wᵀu / ‖Wᵀu‖, u ← Wv / ‖Wv‖. The state is a value of its own: reading σ never moves it, only
//! [`PowerState::advance`] does, once per training step and before that step's forward pass.
//!
//! The estimate is a lower bound, uᵀWv ≤ σ(W), tight once the iteration has settled. Where a bound must hold to the last
//! digit, [`exact_norm`] takes the singular values instead.

use serde::{Deserialize, Serialize};
use tch::nn::Path;
use tch::{Kind, Tensor, no_grad};

use crate::Key;

/// Steps taken when a state is created, so that the first σ is already usable.
pub const INITIAL_STEPS: usize = 16;

/// When an iteration counts as settled: relative growth of σ̂ over eight steps, and the most steps spent on it.
pub const SETTLED: (f64, usize) = (1e-7, 4096);

/// What is done with a weight once its spectral norm is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpectralRule {
    /// W as it is; no power iteration.
    Off,
    /// W/σ, upwards as well as downwards, taken before any mask: what older PyTorch code does.
    Compat,
    /// W/max(1, σ), taken after the mask: never scales up, and leaves W = 0 alone.
    #[default]
    Downwards,
}

impl SpectralRule {
    /// Numbers that the power iteration of a weight `[out, in]` stores.
    pub(crate) fn state_count(self, out: i64, input: i64) -> i64 {
        if self == Self::Off { 0 } else { out + input }
    }
}

/// The running singular pair of one weight, or of several stacked ones.
#[derive(Debug)]
pub struct PowerState {
    /// u, unit length. `[.., out]`
    pub left: Tensor,
    /// v, unit length. `[.., in]`
    pub right: Tensor,
}

impl PowerState {
    /// Draws a state from `key`, stores it under `path` as the buffers `left` and `right`, and advances it
    /// [`INITIAL_STEPS`] times.
    ///
    /// # Shapes
    /// `weight [.., out, in]`
    pub fn init(path: &Path, weight: &Tensor, key: Key) -> Self {
        let state = Self::draw(weight, key);
        let (left, right) = (path.add("left", state.left, false), path.add("right", state.right, false));
        Self { left, right }
    }

    /// Draws a state that belongs to no variable store, and advances it [`INITIAL_STEPS`] times.
    pub fn draw(weight: &Tensor, key: Key) -> Self {
        let mut left_shape = weight.size();
        let columns = left_shape.pop().unwrap_or(1);
        let mut right_shape = left_shape[..left_shape.len() - 1].to_vec();
        right_shape.push(columns);
        let unit = |name: &str, shape: &[i64]| {
            let draw = key.fold(name).normal(shape, weight.kind(), weight.device());
            &draw / length(&draw)
        };
        let state = Self { left: unit("left", &left_shape), right: unit("right", &right_shape) };
        state.advance(weight, INITIAL_STEPS);
        state
    }

    /// `steps` rounds of v ← Wᵀu/‖Wᵀu‖, u ← Wv/‖Wv‖, in place and outside the gradient.
    ///
    /// A vector that W maps to zero is kept as it was, so a weight that starts at zero does not freeze its state. Call
    /// it before a forward pass, not between a forward and its backward pass: libtorch refuses that.
    pub fn advance(&self, weight: &Tensor, steps: usize) {
        no_grad(|| {
            for _ in 0..steps {
                replace(&self.right, &transposed_times(weight, &self.left)); // v ∝ Wᵀu
                replace(&self.left, &times(weight, &self.right)); //            u ∝ Wv
            }
        });
    }

    /// Advances until no σ grows by more than the relative `tolerance` (or rounding, where that is coarser) over eight
    /// steps, or `limit` steps are spent. Returns the steps taken.
    pub fn settle(&self, weight: &Tensor, tolerance: f64, limit: usize) -> usize {
        let rounding = if weight.kind() == Kind::Double { 4.0 * f64::EPSILON } else { 4.0 * f64::from(f32::EPSILON) };
        let tolerance = tolerance.max(rounding);
        no_grad(|| {
            let mut before = spectral_norm(weight, self);
            for steps in (8..=limit).step_by(8) {
                self.advance(weight, 8);
                let now = spectral_norm(weight, self);
                let growth = (&now - &before) - now.abs() * tolerance;
                if growth.max().double_value(&[]) <= 0.0 {
                    return steps;
                }
                before = now;
            }
            limit
        })
    }

    /// The states of several weights of one shape as one state with a leading axis. A copy: see [`Self::write_back`].
    #[must_use]
    pub fn stack(parts: &[&Self]) -> Self {
        let stack = |part: fn(&Self) -> &Tensor| Tensor::stack(&parts.iter().map(|p| part(p)).collect::<Vec<_>>(), 0);
        Self { left: stack(|p| &p.left), right: stack(|p| &p.right) }
    }

    /// Copies the slices of a stacked state into the states it was stacked from.
    pub fn write_back(&self, parts: &[&Self]) {
        no_grad(|| {
            for (index, part) in (0..).zip(parts) {
                part.left.shallow_clone().copy_(&self.left.select(0, index));
                part.right.shallow_clone().copy_(&self.right.select(0, index));
            }
        });
    }

    /// The same state, not a copy.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { left: self.left.shallow_clone(), right: self.right.shallow_clone() }
    }
}

/// σ̂ = uᵀWv, differentiable in W with (u, v) held fixed: ∂σ̂/∂W = uvᵀ.
///
/// # Shapes
/// `weight [.., out, in]` → `[..]`
pub fn spectral_norm(weight: &Tensor, state: &PowerState) -> Tensor {
    (times(weight, &state.right) * &state.left).sum_dim_intlist([-1_i64].as_slice(), false, None)
}

/// σ(W), the largest singular value, from the singular value decomposition. Differentiable.
///
/// # Shapes
/// `weight [.., out, in]` → `[..]`
pub fn exact_norm(weight: &Tensor) -> Tensor {
    weight.linalg_norm(2, [-2_i64, -1].as_slice(), false, None::<Kind>)
}

/// W/σ or W/max(1, σ), as the rule says.
///
/// # Shapes
/// `weight [.., out, in]`, `sigma [..]` → `[.., out, in]`
pub fn normalise(weight: &Tensor, sigma: &Tensor, rule: SpectralRule) -> Tensor {
    let sigma = || sigma.unsqueeze(-1).unsqueeze(-1);
    match rule {
        SpectralRule::Off => weight.shallow_clone(),
        SpectralRule::Compat => weight / sigma(),
        SpectralRule::Downwards => weight / sigma().clamp_min(1.0),
    }
}

/// Wx for stacked W and x.
fn times(weight: &Tensor, x: &Tensor) -> Tensor {
    weight.matmul(&x.unsqueeze(-1)).squeeze_dim(-1)
}

/// Wᵀx for stacked W and x.
fn transposed_times(weight: &Tensor, x: &Tensor) -> Tensor {
    times(&weight.transpose(-2, -1), x)
}

fn length(x: &Tensor) -> Tensor {
    x.linalg_norm(2, [-1_i64].as_slice(), true, None::<Kind>)
}

/// target ← direction/‖direction‖, where that is defined.
fn replace(target: &Tensor, direction: &Tensor) {
    let length = length(direction);
    let unit = (direction / &length).where_self(&length.gt(0.0), target);
    target.shallow_clone().copy_(&unit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    fn weights(shape: &[i64]) -> Tensor {
        Key::new(11).fold("weights").normal(shape, Kind::Double, Device::Cpu)
    }

    fn gap(a: &Tensor, b: &Tensor) -> f64 {
        (a - b).abs().max().double_value(&[])
    }

    #[test]
    fn a_settled_state_has_the_largest_singular_value() {
        for shape in [&[7, 5][..], &[3, 4, 9], &[2, 3, 1, 6]] {
            let w = weights(shape);
            let state = PowerState::draw(&w, Key::new(1));
            assert!(state.settle(&w, 1e-12, 20_000) < 20_000);
            assert!(gap(&spectral_norm(&w, &state), &exact_norm(&w)) < 1e-6, "{shape:?}");
        }
    }

    #[test]
    fn the_estimate_never_exceeds_the_norm() {
        let w = weights(&[5, 8, 8]);
        let state = PowerState::draw(&w, Key::new(2));
        for _ in 0..20 {
            let excess = spectral_norm(&w, &state) - exact_norm(&w);
            assert!(excess.max().double_value(&[]) < 1e-12);
            state.advance(&w, 1);
        }
    }

    #[test]
    fn a_stack_advances_like_its_parts() {
        let w = weights(&[3, 4, 5]);
        let slices: Vec<Tensor> = (0..3).map(|i| w.get(i)).collect();
        let draw = || slices.iter().zip(0..).map(|(s, i)| PowerState::draw(s, Key::new(i))).collect::<Vec<_>>();
        let (alone, together) = (draw(), draw());
        alone.iter().zip(&slices).for_each(|(state, s)| state.advance(s, 3));
        let parts: Vec<&PowerState> = together.iter().collect();
        let stacked = PowerState::stack(&parts);
        stacked.advance(&w, 3);
        stacked.write_back(&parts);
        assert!(
            alone.iter().zip(&together).all(|(a, b)| gap(&a.left, &b.left) < 1e-12 && gap(&a.right, &b.right) < 1e-12)
        );
    }

    #[test]
    fn a_zero_weight_does_not_freeze_the_state() {
        let zero = Tensor::zeros([4, 3], (Kind::Double, Device::Cpu));
        let state = PowerState::draw(&zero, Key::new(3));
        let w = weights(&[4, 3]);
        state.settle(&w, 1e-12, 5_000);
        assert!(gap(&spectral_norm(&w, &state), &exact_norm(&w)) < 1e-6);
    }

    #[test]
    fn the_gradient_is_the_outer_product_of_the_pair() {
        let w = weights(&[4, 3]).set_requires_grad(true);
        let state = PowerState::draw(&w, Key::new(4));
        spectral_norm(&w, &state).backward();
        assert!(gap(&w.grad(), &state.left.outer(&state.right)) < 1e-14);
    }

    #[test]
    fn the_rules_scale_as_they_say() {
        let small = weights(&[4, 3]) * 0.01;
        let sigma = exact_norm(&small);
        assert_eq!(normalise(&small, &sigma, SpectralRule::Downwards), small);
        let up = exact_norm(&normalise(&small, &sigma, SpectralRule::Compat)).double_value(&[]);
        assert!((up - 1.0).abs() < 1e-12);
        let large = &small * 1e4;
        let down = exact_norm(&normalise(&large, &exact_norm(&large), SpectralRule::Downwards)).double_value(&[]);
        assert!((down - 1.0).abs() < 1e-12);
    }
}
