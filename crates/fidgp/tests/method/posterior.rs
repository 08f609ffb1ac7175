//! Each family of q(U): its moments, its KL, and the cases where two families are one.

use fidgp::Key;
use fidgp::distribution::kl_to_standard_normal;
use fidgp::flow::{CouplingConfig, DiagonalConfig, Flow, FlowConfig, LipschitzConfig};
use fidgp::posterior::{InducingNoise, PosteriorConfig, kl_unwhitened};
use fidgp::prior::PriorFactors;
use fidgp::weight::{InducingConfig, InducingWeight};
use tch::nn::VarStore;
use tch::{Device, Tensor};

use crate::common::{assert_mean, assert_moments, config, eye, factors, gap, log_det, normal, scalar, weight};

const DRAWS: u64 = 6000;

fn family(posterior: PosteriorConfig) -> InducingConfig {
    InducingConfig { posterior, ..config() }
}

/// The given family with random parameters, and the factors of its prior.
fn with(posterior: PosteriorConfig, seed: u64) -> (VarStore, InducingWeight, PriorFactors) {
    let (store, weight) = weight((4, 5), &family(posterior), seed);
    let prior = factors(&weight);
    (store, weight, prior)
}

fn variable(store: &VarStore, name: &str) -> Tensor {
    store.variables()[&format!("fc.{name}")].detach()
}

/// Draws of vec V. `[DRAWS, R·C]`
fn draws(weight: &InducingWeight, prior: &PriorFactors, key: Key) -> Tensor {
    let draw = |k: u64| weight.posterior.draw(prior, &weight.posterior.noise(key.at(k), false)).whitened.view([-1]);
    tch::no_grad(|| Tensor::stack(&(0..DRAWS).map(draw).collect::<Vec<_>>(), 0))
}

/// `Σ log N(x; mean, covariance)` of each row. `[N, D]` → `[N]`
fn log_density(x: &Tensor, mean: &Tensor, covariance: &Tensor) -> Tensor {
    let l = covariance.linalg_cholesky(false);
    let standard = l.linalg_solve_triangular(&(x - mean).tr(), false, true, false); // [D, N]
    let log_det = l.diagonal(0, 0, 1).log().sum(l.kind());
    let constant = 0.5 * (2.0 * std::f64::consts::PI).ln() * mean.numel() as f64;
    standard.square().sum_dim_intlist(0, false, l.kind()) * -0.5 - log_det - constant
}

fn log_standard(x: &Tensor) -> Tensor {
    let dim = x.size()[1];
    log_density(x, &x.new_zeros([dim], (x.kind(), x.device())), &eye(dim))
}

/// Sample moments are those of `N(mean, covariance)`, and the closed-form KL is the mean of log q − log p.
fn check_gaussian(what: &str, weight: &InducingWeight, prior: &PriorFactors, mean: &Tensor, covariance: &Tensor) {
    let sample = draws(weight, prior, Key::new(41));
    assert_moments(what, &sample, mean, covariance);
    let ratio = log_density(&sample, mean, covariance) - log_standard(&sample);
    let kl = weight.posterior.draw(prior, &weight.posterior.noise(Key::new(0), false)).kl;
    assert_mean(what, &Vec::<f64>::try_from(ratio).unwrap(), scalar(&kl));
}

#[test]
fn the_diagonal_family_has_its_moments_and_kl() {
    let (_store, weight, prior) = with(PosteriorConfig::Diagonal, 42);
    let covariance = weight.posterior.sd.value().detach().view([-1]).square().diag(0);
    check_gaussian("diagonal", &weight, &prior, &weight.posterior.mean.detach().view([-1]), &covariance);
}

/// A and B of the matrix normal, from its variables.
fn matrix_normal_factors(store: &VarStore, weight: &InducingWeight) -> (Tensor, Tensor) {
    let sd = weight.posterior.sd.value().detach();
    let a = variable(store, "inducing_row_lower").tril(-1) + sd.narrow(0, 0, 3).diag(0);
    (a, variable(store, "inducing_col_lower").tril(-1) + sd.narrow(0, 3, 2).diag(0))
}

#[test]
fn the_matrix_normal_family_has_its_moments_and_kl() {
    let (store, weight, prior) = with(PosteriorConfig::MatrixNormal, 43);
    let (a, b) = matrix_normal_factors(&store, &weight);
    let covariance = a.matmul(&a.tr()).kron(&b.matmul(&b.tr())); // vec(A E Bᵀ) = (A ⊗ B) vec E, row-major
    check_gaussian("matrix normal", &weight, &prior, &weight.posterior.mean.detach().view([-1]), &covariance);
}

#[test]
fn the_full_family_has_its_moments_and_kl() {
    let (store, weight, prior) = with(PosteriorConfig::Full, 44);
    let l = variable(&store, "inducing_lower").tril(-1) + weight.posterior.sd.value().detach().diag(0);
    let mean = weight.posterior.mean.detach().view([-1]);
    check_gaussian("full", &weight, &prior, &mean, &l.matmul(&l.tr()));
}

/// Each member is drawn as often as any other; what is charged is the mean of the members' KLs, which bounds the KL of
/// the mixture from above.
#[test]
fn the_ensemble_is_an_even_mixture_that_pays_at_least_its_kl() {
    const MEMBERS: i64 = 3;
    let (_store, weight, prior) = with(PosteriorConfig::Ensemble { members: MEMBERS }, 45);
    let means = weight.posterior.mean.detach().view([MEMBERS, -1]);
    let variance = weight.posterior.sd.value().detach().view([-1]).square();
    let sample = draws(&weight, &prior, Key::new(46));
    let log_members: Vec<_> = (0..MEMBERS).map(|k| log_density(&sample, &means.get(k), &variance.diag(0))).collect();
    let log_members = Tensor::stack(&log_members, 1); // [N, members]
    let n = DRAWS as f64;

    // mean and variance of the mixture; the variance of a squared deviation is taken from the sample
    let mean = means.mean_dim(0, false, means.kind());
    let spread = (&means - &mean).square().mean_dim(0, false, means.kind());
    let expected = &variance + spread;
    let squared = (&sample - &mean).square();
    crate::common::assert_within("mean", &sample.mean_dim(0, false, None), &mean, &(&expected / n).sqrt());
    let standard_error = (squared.var_dim(0, true, false) / n).sqrt();
    crate::common::assert_within("variance", &squared.mean_dim(0, false, None), &expected, &standard_error);

    // responsibilities average to 1/members
    let shares = log_members.softmax(1, None);
    let standard_error = (shares.var_dim(0, true, false) / n).sqrt();
    let even = shares.new_full([MEMBERS], 1.0 / MEMBERS as f64, (shares.kind(), shares.device()));
    crate::common::assert_within("shares", &shares.mean_dim(0, false, None), &even, &standard_error);

    let charged = scalar(&weight.posterior.draw(&prior, &weight.posterior.noise(Key::new(0), false)).kl);
    let member_kl = |k: i64| scalar(&kl_to_standard_normal(&means.get(k), &variance.sqrt()));
    assert!((charged - (0..MEMBERS).map(member_kl).sum::<f64>() / MEMBERS as f64).abs() < 1e-12);
    let ratio = log_members.logsumexp([1], false) - (MEMBERS as f64).ln() - log_standard(&sample);
    let (kl, standard_error) = (scalar(&ratio.mean(None)), scalar(&ratio.std(true)) / n.sqrt());
    assert!(kl < charged + 4.0 * standard_error && charged < kl + (MEMBERS as f64).ln() + 4.0 * standard_error);
}

#[test]
fn an_ensemble_of_one_is_diagonal() {
    let (_a, diagonal, prior) = with(PosteriorConfig::Diagonal, 47);
    let (_b, ensemble, _) = with(PosteriorConfig::Ensemble { members: 1 }, 47);
    tch::no_grad(|| ensemble.posterior.mean.shallow_clone().copy_(&diagonal.posterior.mean.unsqueeze(0)));
    same(&diagonal, &ensemble, &prior);
}

/// Both give the same V and charge the same KL for the same noise.
#[track_caller]
fn same(one: &InducingWeight, other: &InducingWeight, prior: &PriorFactors) {
    let noise = |w: &InducingWeight| w.posterior.noise(Key::new(48), false);
    let (a, b) = (one.posterior.draw(prior, &noise(one)), other.posterior.draw(prior, &noise(other)));
    assert!(gap(&a.whitened, &b.whitened) < 1e-12);
    assert!(gap(&a.kl, &b.kl) < 1e-11, "{:?} {:?}", a.kl, b.kl);
}

fn set(target: &Tensor, value: &Tensor) {
    tch::no_grad(|| target.shallow_clone().copy_(&value.detach()));
}

/// The raw numbers of deviations under the smooth map with the given maximum.
fn raw(sd: &Tensor, max: f64) -> Tensor {
    (sd / (max - sd)).log()
}

#[test]
fn a_full_posterior_with_a_diagonal_factor_is_diagonal() {
    let (_a, diagonal, prior) = with(PosteriorConfig::Diagonal, 49);
    let (store, full, _) = with(PosteriorConfig::Full, 50);
    set(&full.posterior.mean, &diagonal.posterior.mean);
    set(&full.posterior.sd.raw, &diagonal.posterior.sd.raw.view([-1]));
    set(&store.variables()["fc.inducing_lower"], &eye(6).triu(1)); // what lies above the diagonal does not count
    same(&diagonal, &full, &prior);
}

#[test]
fn a_matrix_normal_posterior_with_diagonal_factors_is_diagonal() {
    let (store, matrix, prior) = with(PosteriorConfig::MatrixNormal, 51);
    let (_b, diagonal, _) = with(PosteriorConfig::Diagonal, 52);
    for name in ["fc.inducing_row_lower", "fc.inducing_col_lower"] {
        let lower = &store.variables()[name];
        set(lower, &eye(lower.size()[0]).triu(1));
    }
    let (a, b) = matrix_normal_factors(&store, &matrix);
    set(&diagonal.posterior.mean, &matrix.posterior.mean);
    set(&diagonal.posterior.sd.raw, &raw(&a.diagonal(0, 0, 1).outer(&b.diagonal(0, 0, 1)), 1.0));
    same(&matrix, &diagonal, &prior);
}

/// FFG-U is FiD-GP with the identity for a flow: the same weight from the same key, and a KL estimate whose mean is the
/// closed form.
#[test]
fn the_identity_flow_is_ffg_u() {
    let build = |posterior| weight_at_start(&family(posterior));
    let (_a, ffg_u) = build(PosteriorConfig::Diagonal);
    let (_b, fid_gp) = build(PosteriorConfig::Flow { flow: FlowConfig::default() });
    let prior = factors(&ffg_u);
    let draw = |w: &InducingWeight, key| tch::no_grad(|| w.draw(&prior, &w.noise(key, false)).unwrap());
    let key = Key::new(54);
    let ((one, closed), (other, estimate)) = (draw(&ffg_u, key), draw(&fid_gp, key));
    let (fidgp::weight::Drawn::Weight(one), fidgp::weight::Drawn::Weight(other)) = (one, other) else { panic!() };
    assert!(gap(&one, &other) < 1e-12);
    assert!(gap(&closed.conditional, &estimate.conditional) < 1e-12);

    // log q(V) − log p(V) at the drawn point
    let InducingNoise { epsilon, .. } = ffg_u.noise(key, false).inducing;
    let sd = ffg_u.posterior.sd.value().detach();
    let v = (&ffg_u.posterior.mean + &sd * epsilon).detach().view([1, -1]);
    let log_q = log_density(&v, &ffg_u.posterior.mean.detach().view([-1]), &sd.view([-1]).square().diag(0));
    assert!((scalar(&estimate.inducing) - scalar(&(log_q - log_standard(&v)))).abs() < 1e-11);

    let estimates: Vec<f64> = (0..4000).map(|k| scalar(&draw(&fid_gp, Key::new(55).at(k)).1.inducing)).collect();
    assert_mean("KL", &estimates, scalar(&closed.inducing));
}

fn weight_at_start(config: &InducingConfig) -> (VarStore, InducingWeight) {
    let store = crate::common::store(tch::Kind::Double);
    let weight = InducingWeight::init(&(store.root() / "fc"), 4, 5, config, Key::new(53)).unwrap();
    (store, weight)
}

/// A flow that keeps Gaussians Gaussian has a closed-form KL; unwhitened, its estimate averages to one.
#[test]
fn a_diagonal_flow_pays_the_kl_of_the_gaussian_it_makes() {
    for whitened_u in [true, false] {
        let flow = FlowConfig::Diagonal(DiagonalConfig { slope: 0.6 });
        let config = InducingConfig { whitened_u, ..family(PosteriorConfig::Flow { flow }) };
        let (store, weight) = weight((4, 5), &config, 56);
        let prior = factors(&weight);
        let slope = variable(&store, "flow.raw_slope").sigmoid();
        let mean = &weight.posterior.mean.detach() * &slope + variable(&store, "flow.shift");
        let sd = weight.posterior.sd.value().detach() * &slope;
        let draw = |k| weight.posterior.draw(&prior, &weight.posterior.noise(Key::new(57).at(k), false));
        if whitened_u {
            assert!(gap(&draw(0).kl, &kl_to_standard_normal(&mean, &sd)) < 1e-11);
            assert!(gap(&weight.posterior.centre(&prior), &mean) < 1e-12);
            let epsilon = weight.posterior.noise(Key::new(57).at(0), false).epsilon;
            assert!(gap(&draw(0).whitened, &(mean + sd * epsilon)) < 1e-12);
        } else {
            let estimates: Vec<f64> = (0..4000).map(|k| scalar(&draw(k).kl)).collect();
            assert_mean("KL", &estimates, scalar(&kl_unwhitened(&prior, &mean, &sd)));
            assert!(gap(&weight.posterior.centre(&prior), &prior.whiten(&mean)) < 1e-12);
        }
    }
}

/// `ln |det ∂g/∂x|` of one row by central differences. `[C]`
fn numeric_log_det(flow: &dyn Flow, row: &Tensor) -> Tensor {
    const STEP: f64 = 1e-6;
    let dim = row.size()[0];
    let at = |x: Tensor| flow.forward(&x.unsqueeze(0), None).value.squeeze_dim(0);
    let column = |j: i64| (at(row + eye(dim).get(j) * STEP) - at(row - eye(dim).get(j) * STEP)) / (2.0 * STEP);
    log_det(&Tensor::stack(&(0..dim).map(column).collect::<Vec<_>>(), 1))
}

/// `log q0(v0) − log|det J| − log N(g(v0); 0, I)`, with the Jacobian by finite differences.
#[test]
fn a_flows_kl_estimate_is_the_log_ratio_at_the_drawn_point() {
    let coupling = FlowConfig::Coupling(CouplingConfig::default());
    for flow in [FlowConfig::default(), coupling, FlowConfig::Lipschitz(LipschitzConfig::default())] {
        let (_store, weight, prior) = with(PosteriorConfig::Flow { flow }, 59);
        let noise = weight.posterior.noise(Key::new(60), false);
        let draw = weight.posterior.draw(&prior, &noise);
        let (mean, sd) = (weight.posterior.mean.detach(), weight.posterior.sd.value().detach());
        let v0 = &mean + &sd * &noise.epsilon;
        let flow = weight.posterior.flow().unwrap();
        let log_dets: f64 = tch::no_grad(|| (0..3).map(|i| scalar(&numeric_log_det(flow, &v0.get(i)))).sum());
        let log_q0 = log_density(&v0.view([1, -1]), &mean.view([-1]), &sd.view([-1]).square().diag(0));
        let expected = scalar(&(log_q0 - log_standard(&draw.whitened.detach().view([1, -1])))) - log_dets;
        assert!((scalar(&draw.kl) - expected).abs() < 1e-6, "{flow:?}: {} {expected}", scalar(&draw.kl));
        assert!(log_dets.abs() > 1e-2, "{flow:?} is at the identity, where a wrong sign would not show");
    }
}

#[test]
fn the_centre_of_an_ensemble_is_the_mean_of_its_members() {
    let (_store, weight, prior) = with(PosteriorConfig::Ensemble { members: 3 }, 58);
    let expected =
        (0..3).map(|k| weight.posterior.mean.get(k)).fold(normal(Key::new(0), &[3, 2]) * 0.0, |sum, m| sum + m) / 3.0;
    assert!(gap(&weight.posterior.centre(&prior), &expected) < 1e-12);
}

/// A draw of a prior much wider than a plain layer's weights is no network to start from.
#[test]
fn a_wide_prior_starts_no_wider_than_a_plain_layer() {
    let d_in = 9;
    let start = |prior_sd: f64, sqrt_width_scaling: bool| {
        let (store, config) = (VarStore::new(Device::Cpu), InducingConfig { prior_sd, sqrt_width_scaling, ..config() });
        InducingWeight::init(&store.root(), 6, d_in, &config, Key::new(7)).unwrap().posterior.mean.detach()
    };
    let usual = start(1.0, true);
    assert_eq!(start(0.3, true), usual);
    assert!(gap(&(start(5.0, true) * 5.0), &usual) < 1e-6);
    assert!(gap(&(start(1.0, false) * (d_in as f64).sqrt()), &usual) < 1e-6);
}
