//! What a linearised posterior says of numbers and of classes.

use fidgp::Key;
use fidgp::linearised::{
    FitConfig, LinearisedPosterior, LogitRule, Observed, PriorPrecision, StructureKind, Tangent, fit,
};
use fidgp::objective::{Gaussian, NoiseConfig, categorical_curvature};
use tch::{Kind, Tensor};

use super::networks::{Mlp, SIGMA, covariances, fitted, gap, inducing, normal, store};

fn exact() -> FitConfig {
    FitConfig { structure: StructureKind::Dense, prior: PriorPrecision::Given(1.0), ..FitConfig::default() }
}

fn classes(tangent: &Tangent, rows: i64) -> LinearisedPosterior {
    let observe =
        |_: usize, _: i64, outputs: &Tensor| Ok(Observed { curvature: categorical_curvature(outputs), misfit: None });
    fit(tangent, &mut std::iter::once(Ok(normal("train", &[rows, 3]))), rows, &observe, &exact()).unwrap()
}

#[test]
fn a_number_has_the_mean_at_the_centre_and_both_variances() {
    let store = store();
    let network = Mlp::new(&store, &[3, 6, 1], &inducing(4, 3));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let likelihood = Gaussian::init(&store.root(), NoiseConfig::Fixed { sd: SIGMA }).unwrap();
    let posterior = fitted(&tangent, &normal("train", &[20, 3]), None, &exact());
    let (a, b) = (normal("a", &[5, 3]), normal("b", &[2, 3]));
    let forecast = posterior.regress(&tangent, &likelihood, &[a.shallow_clone(), b.shallow_clone()]).unwrap();
    let all = Tensor::cat(&[a, b], 0);
    assert!(gap(&forecast.mean, &tangent.outputs(&all).unwrap().select(1, 0)) < 1e-12);
    assert!(gap(&forecast.epistemic, &covariances(&posterior, &tangent, &all).view([-1])) < 1e-12);
    assert!((forecast.noise - SIGMA * SIGMA).abs().max().double_value(&[]) < 1e-12);
    assert!(posterior.regress(&tangent, &likelihood, &[]).is_err());
}

/// Variance grows away from the data, and with no data it is the prior's.
#[test]
fn where_there_are_no_data_there_is_more_uncertainty() {
    let store = store();
    let network = Mlp::new(&store, &[1, 20, 1], &inducing(20, 2));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let train = normal("train", &[50, 1]) * 0.2;
    let posterior = fitted(&tangent, &train, None, &exact());
    let sd = |x: f64| {
        covariances(&posterior, &tangent, &Tensor::from_slice(&[x]).view([1, 1])).double_value(&[0, 0, 0]).sqrt()
    };
    assert!(sd(2.0) > 4.0 * sd(0.0) && sd(-2.0) > 4.0 * sd(0.0), "{} {} {}", sd(-2.0), sd(0.0), sd(2.0));
}

/// Against a great many draws of the logits; the probit form stays within a few hundredths of them, and its mutual
/// information has the right order.
#[test]
fn classes_by_draws_and_by_the_probit_form() {
    let store = store();
    let network = Mlp::new(&store, &[3, 8, 7, 4], &inducing(6, 4));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let posterior = classes(&tangent, 60);
    let at = [normal("at", &[30, 3])];
    let said = |rule| posterior.classify(&tangent, &at, rule).unwrap();
    let draws = said(LogitRule::Draws { count: 4000, key: Key::new(1) });
    let (again, probit) = (said(LogitRule::Draws { count: 4000, key: Key::new(2) }), said(LogitRule::Probit));
    assert!(gap(&draws.probs, &again.probs) < 0.03);
    assert!(gap(&draws.probs, &probit.probs) < 0.05, "{}", gap(&draws.probs, &probit.probs));
    assert!(gap(&draws.total, &probit.total) < 0.12);
    assert!(gap(&draws.probs.sum_dim_intlist(1, false, Kind::Double), &draws.total.ones_like()) < 1e-12);
    let correlation = |a: &Tensor, b: &Tensor| Tensor::stack(&[a, b], 0).corrcoef().double_value(&[0, 1]);
    assert!(correlation(&draws.epistemic, &probit.epistemic) > 0.9);
    assert!(draws.epistemic.min().double_value(&[]) > 0.0);
}

#[test]
fn no_input_depends_on_its_batch() {
    let store = store();
    let network = Mlp::new(&store, &[3, 8, 7, 4], &inducing(6, 4));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let posterior = classes(&tangent, 60);
    let at = normal("at", &[9, 3]);
    let rule = LogitRule::Draws { count: 16, key: Key::new(1) };
    let whole = posterior.classify(&tangent, &[at.shallow_clone()], rule).unwrap();
    let parts: Vec<_> = at.split(2, 0);
    let apart = posterior.classify(&tangent, &parts, rule).unwrap();
    assert!(gap(&whole.probs, &apart.probs) < 1e-12 && gap(&whole.epistemic, &apart.epistemic) < 1e-12);
    assert!(posterior.classify(&tangent, &parts, LogitRule::Draws { count: 0, key: Key::new(1) }).is_err());
}
