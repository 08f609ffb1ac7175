//! Numbers from scikit-learn 1.9.1, numpy 2.4.6 and scipy 1.17.1, on stored arrays full of ties:
//!
//! ```python
//! y, s = np.r_[np.zeros(len(ID)), np.ones(len(OOD))], np.r_[ID, OOD]
//! roc_auc_score(y, s); average_precision_score(y, s); average_precision_score(1 - y, -s)
//! fpr, tpr, _ = roc_curve(y, s, drop_intermediate=False); fpr[np.argmax(tpr >= 0.95)]       # OoD caught
//! fpr, tpr, _ = roc_curve(1 - y, -s, drop_intermediate=False); fpr[np.argmax(tpr >= 0.95)]  # ID kept
//! ```
#![allow(clippy::unreadable_literal, clippy::excessive_precision, missing_docs, reason = "numbers are pasted whole")]

use fidgp_metrics::{
    Bootstrap, GaussianForecast, IntervalRule, MixtureForecast, Noise, OodScores, RiskCoverage, normal::central_z,
    paired_difference, total_variance,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const ID: [f64; 40] = [
    0.0, 0.3, -0.3, -0.9, -0.5, -1.0, 0.1, 1.3, -0.5, -0.6, 0.5, 0.4, 0.1, -0.9, -0.0, 0.7, -1.3, -0.5, -1.9, -1.3,
    -1.8, -0.2, -1.3, 0.3, 0.2, -0.2, -2.5, -0.5, -0.0, 0.1, -1.5, -0.5, -1.0, -0.8, 1.1, -0.8, -0.0, 0.9, -0.6, -0.1,
];
const OOD: [f64; 30] = [
    0.9, 0.9, -0.8, 0.9, 2.6, -1.2, 1.9, 1.0, -0.0, 3.4, 1.8, -0.8, 0.9, 1.5, 0.6, 1.7, 0.7, 1.7, 2.7, -0.1, 1.1, 0.2,
    1.0, -0.7, 0.0, 0.5, 2.0, 2.3, -0.9, -0.2,
];

fn close(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-12, "{got} is not {expected}");
}

#[test]
fn ranking_agrees_with_scikit_learn() {
    let scores = OodScores::new(&ID, &OOD).unwrap();
    close(scores.auroc(), 0.79625);
    close(scores.aupr_out(), 0.7963112264376269);
    close(scores.aupr_in(), 0.8162881618836407);
    close(scores.fpr95_ood_caught(), 0.775);
    close(scores.fpr95_id_kept(), 0.5666666666666667);
}

#[test]
fn roc_curve_agrees_with_scikit_learn() {
    let roc = OodScores::new(&ID, &OOD).unwrap().roc_curve();
    assert_eq!(roc.len(), 37);
    close(roc[5].id_flagged, 0.0);
    close(roc[5].ood_caught, 0.16666666666666666);
    close(roc[20].id_flagged, 0.3);
    close(roc[20].ood_caught, 0.7);
}

#[test]
fn bootstrap_is_seeded_and_as_wide_as_theory_says() {
    let scores = OodScores::new(&ID, &OOD).unwrap();
    let interval = scores.bootstrap(&Bootstrap::seeded(3), OodScores::auroc).unwrap();
    assert_eq!(interval, scores.bootstrap(&Bootstrap::seeded(3), OodScores::auroc).unwrap());
    assert_ne!(interval, scores.bootstrap(&Bootstrap::seeded(4), OodScores::auroc).unwrap());
    assert!(interval.contains(0.79625));
    // Hanley & McNeil (1982) give a standard error of 0.056 for these counts.
    assert!((interval.hi - interval.lo - 2.0 * 1.96 * 0.056).abs() < 0.04, "{interval:?}");
}

/// `scipy.stats.t.interval(0.95, 4, g.mean(), g.std(ddof=1) / 5**.5)` for the differences g.
#[test]
fn few_pairs_have_the_interval_of_students_t() {
    let found = paired_difference(&[1.0, 2.0, 3.0, 4.0, 5.5], &[0.0; 5], &Bootstrap::seeded(0)).unwrap();
    close(found.mean, 3.1);
    assert_eq!(found.rule, IntervalRule::StudentT);
    assert!((found.interval.lo - 0.9315270516956318).abs() < 1e-9, "{found:?}");
    assert!((found.interval.hi - 5.268472948304368).abs() < 1e-9, "{found:?}");
}

/// Two methods that do not differ are told apart in one comparison of twenty, at 3, 5, 20 and 40 pairs: within four standard
/// errors (of 2,000 comparisons, 0.5 %) and for the bootstrap of 40 pairs the 1.5 % it is known to be short of. Percentiles
/// of five resampled pairs would do it in one of five.
#[test]
fn methods_that_do_not_differ_are_rarely_told_apart() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
    for (pairs, most) in [(3, 0.07), (5, 0.07), (20, 0.07), (40, 0.085)] {
        let settings = Bootstrap { resamples: 200, ..Bootstrap::seeded(0) };
        let wrong = (0..2000).filter(|_| {
            let (a, b): (Vec<f64>, Vec<f64>) = (0..pairs).map(|_| (normal(), normal())).unzip();
            !paired_difference(&a, &b, &settings).unwrap().interval.contains(0.0)
        });
        let share = wrong.count() as f64 / 2000.0;
        assert!((0.03..most).contains(&share), "{pairs} pairs: {share}");
    }
}

/// Expectation over all orders of the tied rows, by enumeration in numpy.
#[test]
fn selective_areas_average_over_ties() {
    let confidence = [0.9, 0.8, 0.8, 0.8, 0.6, 0.6, 0.3, 0.95];
    let errors = [0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0];
    let curve = RiskCoverage::new(&confidence, &errors).unwrap();
    close(curve.aurc(), 0.17356150793650793);
    close(curve.augrc(), 0.109375);
    close(curve.risk_at_coverage(0.25).unwrap(), 0.0);
    close(curve.coverage_at_risk(0.2), 5.0 / 8.0);
    close(curve.curve()[7].risk, 3.0 / 8.0);
}

/// NLL from `scipy.stats.norm`, CRPS by `scipy.integrate.quad` of `∫ (F(x) − 1[x ≥ y])² dx`.
#[test]
fn gaussian_scores_agree_with_quadrature() {
    let cases = [
        (0.3, 0.5, 1.1, 0.49223138449343024, 1.2123649429247),
        (-1.0, 4.0, -1.5, 0.5169996257988079, 1.643335713764618),
        (2.0, 0.01, 2.0, 0.023369497725510915, -1.3836465597893728),
    ];
    for (mean, variance, target, crps, nll) in cases {
        let (mean, variance, target) = ([mean], [variance], [target]);
        let forecast = GaussianForecast::new(&mean, &variance, &target).unwrap();
        close(forecast.nll(), nll);
        assert!((forecast.crps() - crps).abs() < 1e-9);
    }
}

#[test]
fn mixture_scores_agree_with_quadrature() {
    let (means, noise) = ([-0.4, 0.2, 1.5], [0.3, 0.8, 0.1]);
    let forecast = MixtureForecast::new(&means, Noise::PerDraw(&noise), &[0.7]).unwrap();
    close(forecast.nll(), 1.7337187615579315);
    assert!((forecast.crps() - 0.3289831842337484).abs() < 1e-9);
}

#[test]
fn normal_quantiles_agree_with_scipy() {
    let table = [
        (0.5, 0.6744897501960817),
        (0.8, 1.2815515655446004),
        (0.9, 1.6448536269514722),
        (0.99, 2.5758293035489004),
        (0.999, 3.2905267314919255),
    ];
    for (level, z) in table {
        close(central_z(level).unwrap(), z);
    }
}

/// The mixture and the Gaussian with its moments agree when the draws do.
#[test]
fn equal_draws_are_one_gaussian() {
    let (means, target) = ([0.1, -0.2, 0.1, -0.2, 0.1, -0.2], [0.4, 1.9]);
    let mixture = MixtureForecast::new(&means, Noise::PerPoint(&[0.3, 0.6]), &target).unwrap();
    let split = total_variance(&means, 2, Noise::PerPoint(&[0.3, 0.6])).unwrap();
    let total = split.total();
    let gaussian = GaussianForecast::new(&split.mean, &total, &target).unwrap();
    close(mixture.nll(), gaussian.nll());
    close(mixture.crps(), gaussian.crps());
    close(mixture.coverage(0.9).unwrap(), gaussian.coverage(0.9).unwrap());
}
