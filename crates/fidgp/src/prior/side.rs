//! Factors of a single prior on the CPU, with a pullback that is written by hand: a dozen products for each side, where libtorch's
//! own backward pass takes hundreds of small operations, most of which cost more than their arithmetic.

use tch::{Kind, Tensor};

use super::{Grams, KroneckerPrior, PriorFactors, SideFactors, gram};
use crate::linalg::{self, Check, Jitter};
use crate::{Error, Result};

/// The factors of a prior: those of its rows, and those of its columns.
pub(super) fn factors(prior: &KroneckerPrior, jitter: Jitter, grams: Grams, check: Check) -> Result<PriorFactors> {
    let side = |label: &str, z: &Tensor, d_raw: &Tensor| {
        let name = |matrix: &str| format!("{}.{matrix}_{label}", prior.name);
        Ok::<_, Error>((of(&name, (z, d_raw), jitter, grams, check)?, z.shallow_clone()))
    };
    let row = side("row", &prior.z_row, &prior.d_row_raw)?;
    Ok(PriorFactors::of(row, side("col", &prior.z_col, &prior.d_col_raw)?, jitter))
}

/// `L = chol(K)`, `L⁻¹`, `A = L⁻¹ Z`, D and, where they are wanted, `C = chol(Z Zᵀ)`.
fn of(
    name: &dyn Fn(&str) -> String,
    (z, d_raw): (&Tensor, &Tensor),
    jitter: Jitter,
    grams: Grams,
    check: Check,
) -> Result<SideFactors> {
    let (values, made) = tch::no_grad(|| Made::of(name, (z, d_raw), jitter, grams, check))?;
    let SideFactors { l, l_inverse, a, d, gram_chol } = &values;
    let outputs: Vec<&Tensor> = [l, l_inverse, a, d].into_iter().chain(gram_chol).collect();
    fidgp_torch::attach(&[z, d_raw], &outputs, move |upstream| made.pull(upstream))
        .map_err(|why| Error::setting(name("K"), "factors", why))?;
    Ok(values)
}

/// What the pullback needs. L, `L⁻¹` and C are in the type in which they were factorised.
struct Made {
    z: Tensor,
    d_raw: Tensor,
    d: Tensor,
    l: Tensor,
    l_inverse: Tensor,
    gram_chol: Option<Tensor>,
}

impl Made {
    fn of(
        name: &dyn Fn(&str) -> String,
        (z, d_raw): (&Tensor, &Tensor),
        jitter: Jitter,
        grams: Grams,
        check: Check,
    ) -> Result<(SideFactors, Self)> {
        let (z, d_raw) = (z.detach(), d_raw.detach());
        let (gram, d) = (gram(&z), d_raw.softplus());
        let squares = d.square();
        let covariance = || {
            let covariance = gram.copy();
            let _ = covariance.diagonal(0, -2, -1).g_add_(&squares);
            covariance
        };
        let l = linalg::cholesky_of(&name("K"), &covariance, jitter, check)?;
        let gram_chol = match grams {
            Grams::Factored => Some(linalg::cholesky_of(&name("ZZ"), &|| gram.copy(), jitter, check)?),
            Grams::Omitted => None,
        };
        let l_inverse = linalg::inverse_lower(&[&l])?.remove(0);
        let own = l_inverse.to_kind(z.kind());
        let values = SideFactors {
            l: l.to_kind(z.kind()),
            a: own.mm(&z),
            l_inverse: own,
            d,
            gram_chol: gram_chol.as_ref().map(|c| c.to_kind(z.kind())),
        };
        // detached: what holds a node's outputs is held by them
        let d = values.d.detach();
        let made = Self {
            z,
            d_raw,
            d,
            l: l.detach(),
            l_inverse: l_inverse.detach(),
            gram_chol: gram_chol.map(|c| c.detach()),
        };
        Ok((values, made))
    }

    /// Gradients of `(L, L⁻¹, A, D, C)` to those of Z and of D before its softplus.
    ///
    /// | value | its pullback |
    /// |---|---|
    /// | `A = L⁻¹ Z` | `Z̄ = L⁻ᵀ Ā`, and `Ā Zᵀ` for `L⁻¹` |
    /// | `L⁻¹` | `Lᵀ L̄ = −X̄ L⁻ᵀ`, X̄ being its gradient |
    /// | `L = chol(K)` | `K̄ = S + Sᵀ` over two, `S = L⁻ᵀ Φ(Lᵀ L̄) L⁻¹`; Φ is the lower part with half its diagonal |
    /// | `K = Z Zᵀ + D²` | `Z̄ = (K̄ + K̄ᵀ) Z`, `D̄ = 2 D diag K̄` |
    fn pull(&self, upstream: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
        let [l, l_inverse, a, d, gram_chol @ ..] = upstream else { return Vec::new() };
        let (kind, wide) = (self.z.kind(), self.l.kind());
        let mut z_bar = a.as_ref().map(|a| self.l_inverse.to_kind(kind).tr().mm(a));
        let of_inverse = sum(l_inverse.as_ref().map(Tensor::shallow_clone), a.as_ref().map(|a| a.mm(&self.z.tr())));
        let inner = sum(
            of_inverse.map(|of_inverse| of_inverse.to_kind(wide).mm(&self.l_inverse.tr()).neg()),
            l.as_ref().map(|l| self.l.tr().mm(&l.to_kind(wide))),
        );
        let covariance = inner.map(|inner| self.l_inverse.tr().mm(&lower_half(inner).mm(&self.l_inverse)));
        let of_d = covariance.as_ref().map(|s| s.diagonal(0, -2, -1).to_kind(kind) * &self.d * 2.0);
        let of_d = sum(d.as_ref().map(Tensor::shallow_clone), of_d);
        let gram = gram_chol.first().and_then(Option::as_ref).zip(self.gram_chol.as_ref());
        let gram = gram.map(|(bar, c)| {
            let inner = lower_half(c.tr().mm(&bar.to_kind(wide)));
            let left = c.tr().linalg_solve_triangular(&inner, true, true, false);
            c.linalg_solve_triangular(&left, false, false, false)
        });
        if let Some(s) = sum(covariance, gram) {
            let own = (&s + s.tr()).mm(&self.z.to_kind(wide)).to_kind(kind);
            z_bar = sum(z_bar, Some(own));
        }
        vec![z_bar, of_d.map(|of_d| of_d * self.d_raw.sigmoid())]
    }
}

/// The lower part with half its diagonal; the matrix is used up.
fn lower_half(mut matrix: Tensor) -> Tensor {
    let _ = matrix.diagonal(0, -2, -1).g_mul_scalar_(0.5);
    matrix.tril_(0)
}

fn sum(a: Option<Tensor>, b: Option<Tensor>) -> Option<Tensor> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::linalg::Batching;
    use crate::prior::{Sizes, ZStart};
    use tch::nn::VarStore;
    use tch::{Device, IndexOp};

    /// Values and gradients of a weighted sum of everything that is factorised.
    fn computed(sizes: Sizes, grams: Grams, batching: Batching, used: fn(usize) -> bool) -> Vec<Tensor> {
        let mut store = VarStore::new(Device::Cpu);
        let prior = KroneckerPrior::init(&store.root(), sizes, 0.3, ZStart::Normal, Key::new(3)).unwrap();
        store.set_kind(Kind::Double);
        let all = super::super::factors(&[vec![&prior]], batching, Jitter::FIDGP, grams, Check::Now).unwrap();
        let factors = all[0].layer(0);
        let of = |t: &Tensor| t.shallow_clone();
        let PriorFactors { l_row, l_col, l_row_inverse, l_col_inverse, a_row, a_col, d_row, d_col, .. } = &factors;
        let mut values: Vec<_> =
            [l_row, l_row_inverse, a_row, d_row, l_col, l_col_inverse, a_col, d_col].map(of).into();
        values.extend(factors.grams.iter().flat_map(|grams| [of(&grams.z_row_chol), of(&grams.z_col_chol)]));
        let weighed = |(place, value): (usize, &Tensor)| {
            (value * Key::new(5).at(place as u64).normal(&value.size(), Kind::Double, Device::Cpu)).sum(Kind::Double)
        };
        let loss: Tensor = values.iter().enumerate().filter(|(place, _)| used(*place)).map(weighed).sum();
        loss.backward();
        let parameters = [&prior.z_row, &prior.z_col, &prior.d_row_raw, &prior.d_col_raw];
        let gradients = parameters.map(|own| if own.grad().defined() { own.grad() } else { own.zeros_like() });
        values.iter().map(Tensor::detach).chain(gradients).collect()
    }

    /// Held against libtorch's own backward pass, which computes stacks of several layers.
    #[test]
    fn the_pullback_is_the_gradient() {
        let sizes = |d_out, d_in, rows, cols| Sizes { d_out, d_in, rows, cols };
        let used: [fn(usize) -> bool; 5] =
            [|_| true, |i| i % 4 == 1, |i| i % 4 == 2, |i| i % 4 == 3, |i| i == 0 || i > 7];
        for sizes in [sizes(7, 9, 3, 4), sizes(4, 6, 4, 6), sizes(2, 5, 6, 1), sizes(1, 3, 1, 2)] {
            for grams in [Grams::Factored, Grams::Omitted] {
                for used in used {
                    let of = |batching| computed(sizes, grams, batching, used);
                    for (own, theirs) in of(Batching::Apart).iter().zip(of(Batching::Together)) {
                        let gap = (own - &theirs).abs().max().double_value(&[]);
                        assert!(gap < 1e-10 * (1.0 + theirs.abs().max().double_value(&[])), "{sizes:?}: {gap:e}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_matrix_that_cannot_be_factorised_is_named() {
        let store = VarStore::new(Device::Cpu);
        let sizes = Sizes { d_out: 3, d_in: 4, rows: 2, cols: 2 };
        let prior = KroneckerPrior::init(&(store.root() / "fc"), sizes, 0.3, ZStart::Normal, Key::new(3)).unwrap();
        tch::no_grad(|| prior.z_col.i((0, 0)).fill_(f64::NAN));
        let error = factors(&prior, Jitter::FIDGP, Grams::Factored, Check::Now).unwrap_err().to_string();
        assert!(error.contains("fc.K_col"), "{error}");
        let deferred = factors(&prior, Jitter::FIDGP, Grams::Factored, Check::Deferred).unwrap();
        assert_eq!(deferred.l_col.isfinite().all().int64_value(&[]), 0);
    }
}
