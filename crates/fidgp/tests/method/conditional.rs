//! W given U against the dense oracle.

use fidgp::Key;
use fidgp::conditional::{self, MatheronNoise};
use fidgp::linalg::Jitter;
use fidgp::prior::{Grams, PriorFactors};
use fidgp::weight::{ConditionalNoise, Drawn, InducingConfig, WeightNoise};
use tch::Tensor;

use crate::common::{Oracle, assert_moments, config, factors, gap, log_det, normal, solve, weight};

const SHAPE: (i64, i64) = (4, 5);
const DRAWS: i64 = 40_000;

/// D as large as Z, so that a wrong term shows in the sampling error.
fn noisy() -> InducingConfig {
    InducingConfig { init_d: 1.0, ..config() }
}

/// The noise of many Matheron draws at once.
fn many(factors: &PriorFactors, key: Key) -> MatheronNoise {
    let inducing = [DRAWS, factors.l_row.size()[0], factors.l_col.size()[0]];
    MatheronNoise {
        weight: normal(key.fold("weight"), &[DRAWS, factors.z_row.size()[1], factors.z_col.size()[1]]),
        row: normal(key.fold("row"), &inducing),
        col: normal(key.fold("col"), &inducing),
        corner: normal(key.fold("corner"), &inducing),
    }
}

#[test]
fn the_mean_is_the_oracles() {
    let (_store, weight) = weight(SHAPE, &config(), 1);
    let (prior, oracle) = (factors(&weight), Oracle::of(&weight.prior));
    let u = normal(Key::new(2), &[3, 2]);
    let expected = oracle.gain.matmul(&u.view([-1, 1])).view([4, 5]);
    assert!(gap(&conditional::mean(&prior, &prior.whiten(&u)), &expected) < 1e-12);
    assert!(gap(&prior.t_row().matmul(&u).matmul(&prior.t_col()), &expected) < 1e-12);
}

#[test]
fn whitening_and_its_inverse_cancel_and_give_the_covariance() {
    let (_store, weight) = weight(SHAPE, &config(), 3);
    let prior = factors(&weight);
    let u = normal(Key::new(4), &[7, 3, 2]);
    assert!(gap(&prior.unwhiten(&prior.whiten(&u)), &u) < 1e-12);
    assert!(gap(&prior.whiten(&prior.unwhiten(&u)), &u) < 1e-12);
    // vec U = (L_r ⊗ L_c) vec V
    let l = prior.l_row.kron(&prior.l_col);
    assert!(gap(&l.matmul(&l.tr()), &Oracle::of(&weight.prior).inducing) < 1e-12);
}

#[test]
fn the_prior_density_is_the_dense_gaussians() {
    let (_store, weight) = weight(SHAPE, &config(), 5);
    let (prior, covariance) = (factors(&weight), Oracle::of(&weight.prior).inducing);
    let u = normal(Key::new(6), &[3, 2]);
    let quadratic = u.view([1, -1]).matmul(&solve(&covariance, &u.view([-1, 1])));
    let expected = (quadratic + log_det(&covariance) + 6.0 * (2.0 * std::f64::consts::PI).ln()) * -0.5;
    assert!(gap(&prior.log_density(&prior.whiten(&u)).view([1, 1]), &expected) < 1e-11);
}

#[test]
fn merged_and_unmerged_matheron_are_one() {
    let (_store, weight) = weight(SHAPE, &config(), 7);
    let prior = factors(&weight);
    for lambda in [1e-3, 0.3, 1.0] {
        let (u, scale) = (normal(Key::new(8), &[3, 2]), Tensor::from(lambda));
        let noise = MatheronNoise::draw(Key::new(9), weight.sizes(), &mut |key, shape| normal(key, shape));
        let merged = conditional::matheron(&prior, &prior.whiten(&u), &scale, &noise).unwrap();
        let unmerged = conditional::matheron_unmerged(&prior, &u, &scale, &noise).unwrap();
        assert!(gap(&merged, &unmerged) < 1e-12);
    }
}

/// λ = 1 is the prior conditional; any other λ scales its covariance by λ².
#[test]
fn matheron_draws_have_the_oracles_moments() {
    let over_complete = InducingConfig { inducing_rows: 6.into(), inducing_cols: 7.into(), ..noisy() };
    for (config, seed) in [(noisy(), 10), (over_complete, 11)] {
        let (_store, weight) = weight(SHAPE, &config, seed);
        // ZZᵀ is singular with more inducing values than weights: its factor needs a trace of jitter
        let prior = weight.prior.factors(Jitter { relative: 1e-10, escalations: 3 }, Grams::Factored).unwrap();
        let oracle = Oracle::of(&weight.prior);
        let sizes = config.sizes(i64::MAX, i64::MAX); // never capped
        let u = normal(Key::new(12), &[sizes.rows, sizes.cols]);
        let mean = oracle.gain.matmul(&u.view([-1, 1])).view([-1]);
        for lambda in [1.0, 0.3] {
            let draws = conditional::matheron(&prior, &prior.whiten(&u), &lambda.into(), &many(&prior, Key::new(13)));
            let draws = draws.unwrap().detach().view([DRAWS, -1]);
            assert_moments(&format!("λ = {lambda}"), &draws, &mean, &(&oracle.covariance * (lambda * lambda)));
        }
    }
}

#[test]
fn reparam_draws_are_isotropic_around_the_mean() {
    let (_store, weight) = weight(SHAPE, &config(), 14);
    let prior = factors(&weight);
    let v = normal(Key::new(15), &[3, 2]);
    let noise = normal(Key::new(16), &[DRAWS, 4, 5]);
    let all = v.expand([DRAWS, 3, 2], false);
    let draws = conditional::reparam(&prior, &all, &Tensor::from(0.3), &noise).view([DRAWS, -1]);
    let mean = conditional::mean(&prior, &v).view([-1]);
    assert_moments("reparam", &draws, &mean, &(crate::common::eye(20) * 0.09));
}

#[test]
fn the_marginal_of_the_weight_is_standard_normal() {
    let (_store, weight) = weight(SHAPE, &noisy(), 17);
    let prior = factors(&weight);
    let v = normal(Key::new(18), &[DRAWS, 3, 2]); // U ~ p(U)
    let draws = conditional::matheron(&prior, &v, &Tensor::from(1.0), &many(&prior, Key::new(19))).unwrap();
    let draws = draws.view([DRAWS, -1]);
    assert_moments("p(W)", &draws, &draws.new_zeros([20], (draws.kind(), draws.device())), &crate::common::eye(20));
}

/// The prior draw of U inside Matheron's rule has the joint law of (W, U), not only its margins.
#[test]
fn matherons_prior_draw_has_the_joint_covariance() {
    let (_store, weight) = weight(SHAPE, &noisy(), 20);
    let (prior, oracle) = (factors(&weight), Oracle::of(&weight.prior));
    let noise = many(&prior, Key::new(21));
    let u = conditional::matheron_prior_inducing(&prior, &noise).unwrap().view([DRAWS, -1]);
    let joint = Tensor::cat(&[&noise.weight.view([DRAWS, -1]), &u], 1);
    let cross = oracle.gain.matmul(&oracle.inducing);
    let upper = Tensor::cat(&[&crate::common::eye(20), &cross], 1);
    let lower = Tensor::cat(&[&cross.tr(), &oracle.inducing], 1);
    let zero = joint.new_zeros([26], (joint.kind(), joint.device()));
    assert_moments("(W, U)", &joint, &zero, &Tensor::cat(&[upper, lower], 0));
}

#[test]
fn a_drawn_weight_carries_the_prior_scale_and_lambda() {
    let (_store, weight) = weight(SHAPE, &config(), 22);
    let prior = factors(&weight);
    let WeightNoise { inducing, conditional: noise } = weight.noise(Key::new(23), false);
    let whitened = weight.posterior.draw(&prior, &inducing).whitened;
    let ConditionalNoise::Matheron(noise) = noise else { panic!("the default is Matheron") };
    let expected =
        conditional::matheron_unmerged(&prior, &prior.unwhiten(&whitened), &weight.conditional_scale.value(), &noise);
    let expected = expected.unwrap() * (1.3 / 5f64.sqrt()); // prior_sd / √d_in
    let noise = WeightNoise { inducing, conditional: ConditionalNoise::Matheron(noise) };
    let (Drawn::Weight(drawn), _) = weight.draw(&prior, &noise).unwrap() else { panic!("Matheron draws weights") };
    assert!(gap(&drawn, &expected) < 1e-12);
}
