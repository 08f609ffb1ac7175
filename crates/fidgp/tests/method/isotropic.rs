//! Both conditional KLs against dense covariances, and the Nyström residual.

use fidgp::Key;
use fidgp::conditional::{self, NoiseOn};
use fidgp::weight::InducingConfig;
use tch::{Kind, Tensor};

use crate::common::{Oracle, config, eye, factors, gap, log_det, normal, reparam, scalar, solve, store, weight};

/// `KL[N(0, Σ₀) ‖ N(0, Σ₁)]` by dense linear algebra.
fn kl(from: &Tensor, to: &Tensor) -> f64 {
    let trace = solve(to, from).trace();
    let determinants = log_det(to) - log_det(from);
    scalar(&((trace + determinants - from.size()[0] as f64) * 0.5))
}

#[test]
fn the_exact_isotropic_kl_is_the_dense_one() {
    // under-complete, square, over-complete in one direction, in both
    for (rows, cols) in [(3, 2), (4, 5), (6, 2), (2, 7), (6, 8)] {
        let config =
            InducingConfig { inducing_rows: rows.into(), inducing_cols: cols.into(), ..reparam(NoiseOn::Weights) };
        let (_store, weight) = weight((4, 5), &config, 31);
        let (prior, oracle) = (factors(&weight), Oracle::of(&weight.prior));
        for lambda in [1e-3, 0.3, 1.5] {
            let found = scalar(&conditional::kl_isotropic(&prior, &Tensor::from(lambda)));
            let expected = kl(&(eye(20) * (lambda * lambda)), &oracle.covariance);
            assert!(
                (found - expected).abs() < 1e-9 * expected.max(1.0),
                "{rows}x{cols}, λ {lambda}: {found} {expected}"
            );
        }
    }
}

#[test]
fn the_papers_kl_is_the_dense_one_of_matheron() {
    let (_store, weight) = weight((4, 5), &config(), 32);
    let oracle = Oracle::of(&weight.prior);
    for lambda in [1e-3, 0.3, 1.0] {
        let expected = kl(&(&oracle.covariance * (lambda * lambda)), &oracle.covariance);
        let found = scalar(&conditional::kl_scaled(20, &Tensor::from(lambda)));
        assert!((found - expected).abs() < 1e-9 * expected.max(1.0), "λ {lambda}: {found} {expected}");
    }
}

/// Without inducing information (Z = 0) the prior conditional is N(0, I), and both formulas are one.
#[test]
fn the_two_kls_agree_where_the_inducing_matrix_says_nothing() {
    let (_store, weight) = weight((4, 5), &config(), 33);
    tch::no_grad(|| _ = weight.prior.z_row.shallow_clone().zero_());
    let prior = weight.prior.factors(fidgp::linalg::Jitter::NONE, fidgp::prior::Grams::Omitted).unwrap();
    let lambda = Tensor::from(0.2);
    assert!(gap(&conditional::kl_isotropic(&prior, &lambda), &conditional::kl_scaled(20, &lambda)) < 1e-12);
}

/// At the start values D is 1e-3, and `1 − a·b` is about 1e-5: single precision must still give the KL.
#[test]
fn the_exact_kl_survives_single_precision() {
    for (d_out, d_in) in [(16, 16), (64, 576), (128, 129)] {
        let exact = |kind: Kind| {
            let store = store(kind);
            let config = InducingConfig { conditional: conditional::Conditional::Reparam, ..InducingConfig::default() };
            let root = store.root() / "fc";
            let weight = fidgp::weight::InducingWeight::init(&root, d_out, d_in, &config, Key::new(34)).unwrap();
            scalar(
                &conditional::kl_isotropic(&factors(&weight), &Tensor::from(1e-3).to_kind(kind)).to_kind(Kind::Double),
            )
        };
        let (double, single) = (exact(Kind::Double), exact(Kind::Float));
        assert!((single / double - 1.0).abs() < 0.02, "{d_out}x{d_in}: {single} in f32, {double} in f64");
    }
}

#[test]
fn the_column_residual_is_the_variance_the_columns_leave() {
    let (_store, weight) = weight((4, 5), &config(), 35);
    let prior = factors(&weight);
    let x = normal(Key::new(36), &[6, 5]);
    let k_col = prior.l_col.matmul(&prior.l_col.tr());
    let s_col = prior.z_col.tr().matmul(&solve(&k_col, &prior.z_col)).detach();
    let expected = x.matmul(&(eye(5) - s_col)).matmul(&x.tr()).diagonal(0, 0, 1).contiguous();
    assert!(gap(&conditional::column_residual(&prior, &x), &expected) < 1e-12);
}
