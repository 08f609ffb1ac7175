//! q on U itself against q in whitened space.

use fidgp::Key;
use fidgp::flow::FlowConfig;
use fidgp::posterior::{PosteriorConfig, kl_unwhitened};
use fidgp::prior::PriorFactors;
use fidgp::weight::{Drawn, InducingConfig, InducingWeight, WeightNoise};
use tch::Tensor;
use tch::nn::VarStore;

use crate::common::{Oracle, assert_mean, config, factors, gap, log_det, normal, scalar, solve, weight};

fn build(posterior: PosteriorConfig, whitened_u: bool) -> (VarStore, InducingWeight) {
    weight((4, 5), &InducingConfig { posterior, whitened_u, ..config() }, 61)
}

/// Gives a weight the prior of another, and K the shape of a diagonal matrix: then L is diagonal, and a diagonal
/// Gaussian of V is one of U.
fn diagonal_prior(weights: &[&InducingWeight]) -> PriorFactors {
    tch::no_grad(|| {
        for weight in weights {
            let prior = &weight.prior;
            let z = |rows: i64, cols: i64| {
                Tensor::eye_m(rows, cols, OPTIONS) * Tensor::arange_start(1, rows + 1, OPTIONS).unsqueeze(1)
            };
            prior.z_row.shallow_clone().copy_(&z(3, 4));
            prior.z_col.shallow_clone().copy_(&(z(2, 5) * 0.7));
        }
    });
    factors(weights[0])
}

const OPTIONS: (tch::Kind, tch::Device) = (tch::Kind::Double, tch::Device::Cpu);

/// Sets q(U) to the law of `L_r V L_cᵀ`, for diagonal L.
fn push(from: &InducingWeight, to: &InducingWeight, prior: &PriorFactors) {
    let scale = prior.l_row.diagonal(0, 0, 1).outer(&prior.l_col.diagonal(0, 0, 1));
    let sd = from.posterior.sd.value() * &scale;
    tch::no_grad(|| {
        to.posterior.mean.shallow_clone().copy_(&prior.unwhiten(&from.posterior.mean));
        to.posterior.sd.raw.shallow_clone().copy_(&sd.expm1().log()); // softplus⁻¹
    });
}

#[test]
fn a_pushed_diagonal_posterior_is_the_same_posterior() {
    let families = || [PosteriorConfig::Diagonal, PosteriorConfig::Flow { flow: FlowConfig::default() }];
    for family in families() {
        let (_a, whitened) = build(PosteriorConfig::Diagonal, true);
        let unbounded = InducingConfig { posterior: family, whitened_u: false, max_sd_u: None, ..config() };
        let store = crate::common::store(tch::Kind::Double);
        let unwhitened = InducingWeight::init(&(store.root() / "fc"), 4, 5, &unbounded, Key::new(61)).unwrap();
        tch::no_grad(|| {
            unwhitened.prior.d_row_raw.shallow_clone().copy_(&whitened.prior.d_row_raw);
            unwhitened.prior.d_col_raw.shallow_clone().copy_(&whitened.prior.d_col_raw);
        });
        let prior = diagonal_prior(&[&whitened, &unwhitened]);
        push(&whitened, &unwhitened, &prior);
        let noise = |w: &InducingWeight, k| w.posterior.noise(Key::new(62).at(k), false);
        let (a, b) = (
            whitened.posterior.draw(&prior, &noise(&whitened, 0)),
            unwhitened.posterior.draw(&prior, &noise(&unwhitened, 0)),
        );
        assert!(gap(&a.whitened, &b.whitened) < 1e-12);
        assert!(gap(&whitened.posterior.centre(&prior), &unwhitened.posterior.centre(&prior)) < 1e-12);
        if unwhitened.posterior.flow().is_none() {
            assert!(gap(&a.kl, &b.kl) < 1e-11);
        } else {
            let estimate = |k| scalar(&unwhitened.posterior.draw(&prior, &noise(&unwhitened, k)).kl);
            assert_mean("flow", &(0..4000).map(estimate).collect::<Vec<_>>(), scalar(&a.kl));
        }
    }
}

#[test]
fn the_unwhitened_kl_is_the_mean_of_the_log_ratio() {
    const DRAWS: i64 = 20_000;
    let (_store, weight) = build(PosteriorConfig::Diagonal, false);
    let prior = factors(&weight);
    let (mean, sd) = (weight.posterior.mean.detach(), weight.posterior.sd.value().detach());
    let epsilon = normal(Key::new(63), &[DRAWS, 3, 2]);
    let u = (&mean + &sd * &epsilon).view([DRAWS, 6]);
    // constants of the two densities cancel
    let log_q = epsilon.view([DRAWS, 6]).square().sum_dim_intlist(1, false, None) * -0.5 - sd.log().sum(None);
    let covariance = Oracle::of(&weight.prior).inducing;
    let quadratic = (&u * solve(&covariance, &u.tr()).tr()).sum_dim_intlist(1, false, None);
    let log_p = (quadratic + log_det(&covariance)) * -0.5;
    let expected = scalar(&kl_unwhitened(&prior, &mean, &sd));
    assert_mean("KL", &Vec::<f64>::try_from(log_q - log_p).unwrap(), expected);
}

/// Dense: `½[tr(Σ_p⁻¹Σ_q) + mᵀΣ_p⁻¹m − n + ln det Σ_p − ln det Σ_q]`.
#[test]
fn the_unwhitened_kl_is_the_dense_one() {
    let (_store, weight) = build(PosteriorConfig::Diagonal, false);
    let covariance = Oracle::of(&weight.prior).inducing;
    let (mean, sd) = (weight.posterior.mean.detach().view([-1, 1]), weight.posterior.sd.value().detach().view([-1]));
    let trace = solve(&covariance, &sd.square().diag(0)).trace();
    let quadratic = mean.tr().matmul(&solve(&covariance, &mean)).sum(None);
    let expected = (trace + quadratic - 6.0 + log_det(&covariance)) * 0.5 - sd.log().sum(None);
    let prior = factors(&weight);
    let found = weight.posterior.draw(&prior, &weight.posterior.noise(Key::new(64), false)).kl;
    assert!(gap(&found, &expected) < 1e-11);
}

#[test]
fn equal_inducing_values_give_equal_weights() {
    let (_a, whitened) = build(PosteriorConfig::Diagonal, true);
    let (_b, unwhitened) = build(PosteriorConfig::Diagonal, false);
    let prior = factors(&whitened);
    let mut noise = unwhitened.noise(Key::new(65), false);
    let u = unwhitened.posterior.draw(&prior, &noise.inducing).whitened;
    let weight = |w: &InducingWeight, noise: &WeightNoise| match w.draw(&prior, noise).unwrap().0 {
        Drawn::Weight(weight) => weight,
        Drawn::MeanAndScale { .. } => panic!("Matheron draws weights"),
    };
    let one = weight(&unwhitened, &noise);
    // the ε that takes the whitened posterior to the same V
    noise.inducing.epsilon = (u - &whitened.posterior.mean) / whitened.posterior.sd.value();
    assert!(gap(&one, &weight(&whitened, &noise)) < 1e-12);
}
