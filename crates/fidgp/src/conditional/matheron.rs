//! Matheron's rule for a single weight on the CPU, with a pullback that is written by hand.

use tch::{Kind, Tensor};

use super::{MatheronNoise, wider_than_tall};
use crate::prior::PriorFactors;
use crate::{Error, Result};

/// The draw of [`super::matheron`], of plain matrices.
///
/// # Errors
/// When the factors were made without Gram factors.
pub(super) fn draw(factors: &PriorFactors, whitened: &Tensor, scale: &Tensor, noise: &MatheronNoise) -> Result<Tensor> {
    let inputs = Inputs::of(factors, whitened, scale)?;
    let (weight, steps) = tch::no_grad(|| Steps::of(inputs.detached(), noise.share()));
    fidgp_torch::attach(&inputs.0.each_ref(), &[&weight], move |upstream| match upstream {
        [Some(weight)] => steps.pull(weight),
        _ => (0..INPUTS).map(|_| None).collect(),
    })
    .map_err(|why| Error::setting("weight", "draw", why))?;
    Ok(weight)
}

const INPUTS: usize = 12;

/// What a draw depends on, in the order of its gradients.
struct Inputs([Tensor; INPUTS]);

impl Inputs {
    fn of(factors: &PriorFactors, whitened: &Tensor, scale: &Tensor) -> Result<Self> {
        let PriorFactors { l_row_inverse, l_col_inverse, a_row, a_col, z_row, z_col, d_row, d_col, grams, .. } =
            factors;
        let missing = || Error::setting("grams", "omitted", "Matheron draws need `Grams::Factored`");
        let grams = grams.as_ref().ok_or_else(missing)?;
        let all = [
            whitened,
            scale,
            a_row,
            a_col,
            l_row_inverse,
            l_col_inverse,
            z_row,
            z_col,
            &grams.z_row_chol,
            &grams.z_col_chol,
            d_row,
            d_col,
        ];
        Ok(Self(all.map(Tensor::shallow_clone)))
    }

    fn detached(&self) -> Self {
        Self(self.0.each_ref().map(Tensor::detach))
    }
}

/// Either order of the three products `A B C`, A tall and C wide: what is made first.
enum First {
    /// `A B`
    Left(Tensor),
    /// `B C`
    Right(Tensor),
}

/// A draw, step by step, as the pullback needs it.
struct Steps {
    inputs: Inputs,
    noise: MatheronNoise,
    /// `Z_r e1` or `e1 Z_cᵀ`
    data: First,
    /// `C_r e2`
    rows: Tensor,
    /// `e3 C_cᵀ + e4 D_c`
    cols: Tensor,
    /// ū
    inducing: Tensor,
    /// `L_r⁻¹ ū`
    half: Tensor,
    /// V̄
    whitened: Tensor,
    /// `V − λ V̄`
    shifted: Tensor,
    /// `A_rᵀ (V − λ V̄)` or `(V − λ V̄) A_c`
    mean: First,
}

impl Steps {
    fn of(inputs: Inputs, noise: MatheronNoise) -> (Tensor, Self) {
        let [v, scale, a_row, a_col, l_row, l_col, z_row, z_col, c_row, c_col, d_row, d_col] = &inputs.0;
        let (d_row, d_col) = (d_row.unsqueeze(-1), d_col.unsqueeze(-2));
        let (data, first) = if wider_than_tall(&noise.weight, &noise.weight) {
            let first = noise.weight.mm(&z_col.tr());
            (z_row.mm(&first), First::Right(first))
        } else {
            let first = z_row.mm(&noise.weight);
            (first.mm(&z_col.tr()), First::Left(first))
        };
        let rows = c_row.mm(&noise.row);
        let cols = noise.col.mm(&c_col.tr()) + &noise.corner * &d_col;
        let inducing = data + &rows * &d_col + &d_row * &cols;
        let half = l_row.mm(&inducing);
        let whitened = half.mm(&l_col.tr());
        let shifted = v - scale * &whitened;
        let left = a_row.tr();
        let (mean, second) = if wider_than_tall(&left, a_col) {
            let first = left.mm(&shifted);
            (first.mm(a_col), First::Left(first))
        } else {
            let first = shifted.mm(a_col);
            (left.mm(&first), First::Right(first))
        };
        let weight = { mean }.addcmul_(&noise.weight, scale);
        (weight, Self { data: first, rows, cols, inducing, half, whitened, shifted, mean: second, inputs, noise })
    }

    /// The gradient of W to those of the inputs, in their order.
    fn pull(&self, weight: &Tensor) -> Vec<Option<Tensor>> {
        let [_, scale, a_row, a_col, l_row, l_col, z_row, z_col, _, _, d_row, d_col] = &self.inputs.0;
        let (kind, noise) = (weight.kind(), &self.noise);
        let (d_row, d_col) = (d_row.unsqueeze(-1), d_col.unsqueeze(-2));
        // W = A_rᵀ X A_c + λ e1, X = V − λ V̄
        let (x, a_row_bar, a_col_bar) = match &self.mean {
            First::Left(left) => {
                let left_bar = weight.mm(&a_col.tr());
                (a_row.mm(&left_bar), self.shifted.mm(&left_bar.tr()), left.tr().mm(weight))
            }
            First::Right(right) => {
                let right_bar = a_row.mm(weight);
                (right_bar.mm(&a_col.tr()), right.mm(&weight.tr()), self.shifted.tr().mm(&right_bar))
            }
        };
        let scale_bar = (weight * &noise.weight).sum(kind) - (&x * &self.whitened).sum(kind);
        // V̄ = L_r⁻¹ ū L_c⁻ᵀ
        let whitened = (&x * scale).neg();
        let half = whitened.mm(l_col);
        let (l_row_bar, l_col_bar) = (half.mm(&self.inducing.tr()), whitened.tr().mm(&self.half));
        let inducing = l_row.tr().mm(&half);
        // ū = Z_r e1 Z_cᵀ + C_r e2 D_c + D_r (e3 C_cᵀ + e4 D_c)
        let (z_row_bar, z_col_bar) = match &self.data {
            First::Right(right) => {
                let right_bar = z_row.tr().mm(&inducing);
                (inducing.mm(&right.tr()), right_bar.tr().mm(&noise.weight))
            }
            First::Left(left) => (inducing.mm(z_col).mm(&noise.weight.tr()), inducing.tr().mm(left)),
        };
        let (by_row, by_col) = (&inducing * d_row, &inducing * d_col);
        let over = |axis: i64, terms: &Tensor| terms.sum_dim_intlist(axis, false, kind);
        let d_col_bar = over(0, &(&inducing * &self.rows).addcmul_(&by_row, &noise.corner));
        let d_row_bar = over(1, &(&inducing * &self.cols));
        let chols = (by_col.mm(&noise.row.tr()), by_row.tr().mm(&noise.col));
        let all = [
            x, scale_bar, a_row_bar, a_col_bar, l_row_bar, l_col_bar, z_row_bar, z_col_bar, chols.0, chols.1,
            d_row_bar, d_col_bar,
        ];
        all.into_iter().map(Some).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::prior::{GramFactors, Sizes};
    use crate::{conditional, linalg::Jitter};
    use tch::Device;

    fn leaf(name: &str, shape: &[i64]) -> Tensor {
        Key::new(2).fold(name).normal(shape, Kind::Double, Device::Cpu).set_requires_grad(true)
    }

    /// W and all gradients; stacked, libtorch's own backward pass computes them.
    fn computed(sizes: Sizes, stacked: bool) -> Vec<Tensor> {
        let Sizes { d_out, d_in, rows, cols } = sizes;
        let inputs = [
            leaf("v", &[rows, cols]),
            leaf("scale", &[]),
            leaf("a_row", &[rows, d_out]),
            leaf("a_col", &[cols, d_in]),
            leaf("l_row", &[rows, rows]),
            leaf("l_col", &[cols, cols]),
            leaf("z_row", &[rows, d_out]),
            leaf("z_col", &[cols, d_in]),
            leaf("c_row", &[rows, rows]),
            leaf("c_col", &[cols, cols]),
            leaf("d_row", &[rows]),
            leaf("d_col", &[cols]),
        ];
        let of = |place: usize| if stacked { inputs[place].unsqueeze(0) } else { inputs[place].shallow_clone() };
        let factors = PriorFactors {
            l_row: of(4),
            l_col: of(5),
            l_row_inverse: of(4),
            l_col_inverse: of(5),
            a_row: of(2),
            a_col: of(3),
            z_row: of(6),
            z_col: of(7),
            d_row: of(10),
            d_col: of(11),
            jitter: Jitter::NONE,
            grams: Some(GramFactors { z_row_chol: of(8), z_col_chol: of(9) }),
        };
        let noise = MatheronNoise::draw(Key::new(4), sizes, &mut |key, shape| {
            let normal = key.normal(shape, Kind::Double, Device::Cpu);
            if stacked { normal.unsqueeze(if shape.len() == 3 { 1 } else { 0 }) } else { normal }
        });
        let weight = conditional::matheron(&factors, &of(0), &of(1), &noise).unwrap().reshape([d_out, d_in]);
        (&weight * Key::new(6).normal(&[d_out, d_in], Kind::Double, Device::Cpu)).sum(Kind::Double).backward();
        std::iter::once(weight.detach()).chain(inputs.iter().map(Tensor::grad)).collect()
    }

    #[test]
    fn the_pullback_is_the_gradient() {
        let sizes = |d_out, d_in, rows, cols| Sizes { d_out, d_in, rows, cols };
        for sizes in [sizes(5, 8, 3, 4), sizes(8, 5, 4, 2), sizes(1, 4, 1, 3), sizes(3, 3, 5, 6)] {
            for (own, theirs) in computed(sizes, false).iter().zip(computed(sizes, true)) {
                let gap = (own - &theirs).abs().max().double_value(&[]);
                assert_eq!(own.size(), theirs.size());
                assert!(gap < 1e-10 * (1.0 + theirs.abs().max().double_value(&[])), "{sizes:?}: {gap:e}");
            }
        }
    }
}
