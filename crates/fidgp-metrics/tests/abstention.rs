//! What a threshold promises, on examples whose law is known.
#![allow(missing_docs, clippy::float_cmp, reason = "ranks are exact")]

mod support;

use fidgp_metrics::abstention::{answer_share, best_score, bound_risk};
use fidgp_metrics::binomial;
use fidgp_metrics::outlier::Reference;
use rand::Rng;
use support::{kolmogorov, mean_and_error, normal, rng, uniforms};

/// Uncertainty u ~ U(0, 1), wrong with probability u²/2: the risk below t is t²/6, at most 5 % for t ≤ .5477.
fn examples(seed: u64, n: usize) -> (Vec<f64>, Vec<bool>) {
    let rng = &mut rng(seed);
    let u = uniforms(rng, n);
    let wrong = u.iter().map(|u| rng.random::<f64>() < u * u / 2.0).collect();
    (u, wrong)
}

#[test]
fn the_promised_risk_holds_in_95_of_100_choices_of_examples() {
    for n in [200, 1000] {
        let mut answered = Vec::new();
        let broken = (0..1000)
            .filter(|&split| {
                let (u, wrong) = examples(split, n);
                let Some(rule) = bound_risk(&u, &wrong, 0.05, 0.95).unwrap() else { return false };
                let t = rule.threshold.unwrap_or(1.0);
                answered.push(t);
                t * t / 6.0 > 0.05
            })
            .count();
        // P(Bin(1000, .05) > 72) < .1 %
        assert!(broken <= 72, "{broken} of 1000 promises broken");
        if n == 1000 {
            let (mean, _) = mean_and_error(&answered);
            assert!(mean > 0.35, "far too careful: {mean} of .5477 possible");
        }
    }
}

#[test]
fn ties_are_answered_together_or_not_at_all() {
    let uncertainty: Vec<f64> = (0..600).map(|i| f64::from(i / 200)).collect();
    let wrong: Vec<bool> = (0..600).map(|i| i >= 400 && i % 2 == 0).collect();
    let rule = bound_risk(&uncertainty, &wrong, 0.05, 0.95).unwrap().unwrap();
    assert_eq!((rule.threshold, rule.seen), (Some(2.0), 0.0));
    assert!((rule.answered - 400.0 / 600.0).abs() < 1e-12);
}

#[test]
fn a_share_is_answered_as_promised() {
    let shares: Vec<f64> = (0..500)
        .map(|seed| answer_share(&uniforms(&mut rng(seed), 199), 0.8).unwrap())
        .map(|rule| {
            let t = rule.threshold.unwrap();
            assert!(rule.interval.lo < 0.8 && rule.interval.hi > 0.8);
            t
        })
        .collect();
    let (mean, error) = mean_and_error(&shares);
    assert!((mean - 0.8).abs() < 4.0 * error, "{mean}");
}

#[test]
fn a_score_is_preferred_only_when_it_is_better_for_sure() {
    let mut switched = 0;
    for seed in 0..40 {
        let rng = &mut rng(seed);
        let hard = uniforms(rng, 400);
        let loss: Vec<f64> = hard.iter().map(|h| f64::from(u8::from(rng.random::<f64>() < *h))).collect();
        let [a, b] = [(); 2].map(|()| hard.iter().map(|h| h + 0.3 * normal(rng)).collect::<Vec<_>>());
        switched += best_score(&[("a", &a), ("b", &b)], &loss, seed).unwrap().0; // equally good: one in 40 may switch
        let (best, ranked) = best_score(&[("noise", &uniforms(rng, 400)), ("a", &a)], &loss, seed).unwrap();
        assert_eq!(ranked[best].name, "a");
    }
    assert!(switched <= 5, "{switched} of 40");
}

#[test]
fn p_values_of_in_distribution_inputs_are_uniform() {
    let mut p = Vec::new();
    let mut alarms = 0.0;
    for seed in 0..2000 {
        let rng = &mut rng(seed);
        let scores: Vec<f64> = (0..99).map(|_| normal(rng).round()).collect(); // many ties
        let reference = Reference::new(&scores).unwrap();
        let score = normal(rng).round();
        p.push(reference.smoothed_p_value(score, rng.random()));
        alarms += f64::from(u8::from(reference.p_value(score) <= 0.05)) / 2000.0;
    }
    let uniform = kolmogorov(p, |x| x);
    assert!(uniform > 1e-3, "{uniform}");
    assert!(alarms <= 0.05 + 3.0 * (0.05_f64 * 0.95 / 2000.0).sqrt(), "{alarms}");
}

#[test]
fn the_rule_is_the_p_value_as_a_threshold() {
    let reference = Reference::new(&uniforms(&mut rng(1), 399)).unwrap();
    for alarms in [0.01, 0.05, 0.1] {
        let rule = reference.rule(alarms).unwrap();
        assert!((rule.expected - alarms).abs() < 1e-12);
        for score in uniforms(&mut rng(2), 500) {
            assert_eq!(score > rule.threshold, reference.p_value(score) <= alarms);
        }
    }
    assert!(reference.rule(0.001).is_err());
    assert_eq!(reference.p_value(f64::NAN), 1.0 / 400.0);
}

#[test]
fn realised_false_alarms_lie_in_their_interval() {
    let inside = (0..400).filter(|&seed| {
        let rule = Reference::new(&uniforms(&mut rng(seed), 200)).unwrap().rule(0.05).unwrap();
        rule.interval.contains(1.0 - rule.threshold) // the exact rate for uniform scores
    });
    let inside = inside.count();
    assert!((360..=394).contains(&inside), "{inside} of 400"); // 380 ± 3.2 standard errors
}

#[test]
fn exact_intervals_agree_with_scipy() {
    // scipy 1.17.1: binomtest(k, n).proportion_ci(.95, 'exact')
    for (k, n, lo, hi) in [
        (0, 10, 0.0, 0.308_497_107_818_762_94),
        (3, 10, 0.066_739_511_177_734_47, 0.652_452_850_060_008),
        (95, 100, 0.887_165_088_894_537, 0.983_568_120_818_271_7),
    ] {
        let found = binomial::interval(k, n, 0.95).unwrap();
        assert!((found.lo - lo).abs() < 1e-9 && (found.hi - hi).abs() < 1e-9, "{k}/{n}: {found:?}");
    }
}

/// Sixty examples, none wrong: with the whole of δ that is enough for 5 %, with an eighth of it it is not.
#[test]
fn few_examples_without_errors_promise_what_they_can() {
    let uncertainty: Vec<f64> = (0..60).map(f64::from).collect();
    let rule = bound_risk(&uncertainty, &[false; 60], 0.05, 0.95).unwrap().unwrap();
    assert!((rule.answered, rule.threshold) == (1.0, None) && rule.bound <= 0.05, "{rule:?}");
    assert!(bound_risk(&uncertainty[..58], &[false; 58], 0.05, 0.95).unwrap().is_none()); // .95^58 > 5 %
}
