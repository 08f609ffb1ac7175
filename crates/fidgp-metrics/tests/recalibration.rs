//! Recalibrated probabilities, on examples whose law is known.
#![allow(missing_docs)]

mod support;

use fidgp_metrics::Predictions;
use fidgp_metrics::recalibration::{Isotonic, MapKind, Recalibration, VectorScaling, VennAbers, VennSteps, choose};
use proptest::prelude::*;
use rand::Rng;
use support::{Pool, rng};

#[test]
fn isotonic_agrees_with_scikit_learn() {
    // scikit-learn 1.9.1: IsotonicRegression().fit([1,2,3,4,5,6,7,8], [1,3,2,4,3,5,8,7]).predict(same)
    let y = [1.0, 3.0, 2.0, 4.0, 3.0, 5.0, 8.0, 7.0];
    let x: Vec<f64> = (1..=8).map(f64::from).collect();
    let fitted = Isotonic::fit(&x, &y).unwrap();
    let found: Vec<f64> = x.iter().map(|&x| fitted.at(x)).collect();
    assert_eq!(found, [1.0, 2.5, 2.5, 3.5, 3.5, 5.0, 7.5, 7.5]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn isotonic_rises_and_keeps_the_mean(pairs in proptest::collection::vec((0_u8..10, 0_u8..2), 1..60)) {
        let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().map(|&(x, y)| (f64::from(x), f64::from(y))).unzip();
        let fitted = Isotonic::fit(&x, &y).unwrap();
        prop_assert!(fitted.value.is_sorted() && fitted.from.is_sorted());
        let sum: f64 = x.iter().map(|&x| fitted.at(x)).sum();
        prop_assert!((sum - y.iter().sum::<f64>()).abs() < 1e-9);
    }

    #[test]
    fn venn_abers_holds_its_merged_value(pairs in proptest::collection::vec((0_u8..10, any::<bool>()), 1..40), s in 0_u8..10) {
        let (x, yes): (Vec<f64>, Vec<bool>) = pairs.iter().map(|&(x, y)| (f64::from(x), y)).unzip();
        let found = VennAbers::new(&x, &yes).unwrap().at(f64::from(s));
        prop_assert!(0.0 <= found.lo && found.lo <= found.hi && found.hi <= 1.0);
        prop_assert!((found.lo..=found.hi).contains(&found.merged()));
    }
}

#[test]
fn venn_abers_is_calibrated() {
    let rng = &mut rng(4);
    let mut draw = || {
        let s: f64 = rng.random();
        (s, rng.random::<f64>() < s * s)
    };
    let (scores, yes): (Vec<_>, Vec<_>) = (0..600).map(|_| draw()).unzip();
    let fitted = VennAbers::new(&scores, &yes).unwrap();
    let found: Vec<(f64, bool)> = (0..1500).map(|_| draw()).map(|(s, y)| (fitted.at(s).merged(), y)).collect();
    for bin in 0..4 {
        let inside = found.iter().filter(|(p, _)| (p * 4.0) as usize == bin);
        let (n, said, seen) =
            inside.fold((0.0, 0.0, 0.0), |(n, said, seen), (p, y)| (n + 1.0, said + p, seen + f64::from(u8::from(*y))));
        assert!((said - seen).abs() / n < 0.08, "bin {bin}: {} against {}", said / n, seen / n);
    }
}

#[test]
fn vector_scaling_mends_what_is_too_sure() {
    let pool = Pool::drawn(4000, 5, 11); // sharpened by 1.6
    let logits: Vec<f64> = pool.probs.iter().map(|p| p.ln()).collect();
    let fitted = VectorScaling::fit(&logits[..10_000], 5, &pool.labels[..2000], 1e-6).unwrap();
    for factor in &fitted.factors {
        assert!((factor - 1.0 / 1.6).abs() < 0.15, "{:?}", fitted.factors);
    }
    let after: Vec<f64> = logits[10_000..].chunks(5).flat_map(|z| fitted.probabilities(z)).collect();
    let nll = |probs: &[f64]| Predictions::new(probs, 5, &pool.labels[2000..]).unwrap().nll();
    assert!(nll(&after) < nll(&pool.probs[10_000..]) - 0.01);
}

/// Two classes; the model says p where the truth has p².
fn squared(n: usize, seed: u64) -> (Vec<f64>, Vec<usize>) {
    let rng = &mut rng(seed);
    let mut draw = || {
        let p: f64 = rng.random_range(0.02..0.98);
        ([1.0 - p, p], usize::from(rng.random::<f64>() < p * p))
    };
    let all: Vec<_> = (0..n).map(|_| draw()).collect();
    (all.iter().flat_map(|(p, _)| *p).collect(), all.iter().map(|(_, label)| *label).collect())
}

#[test]
fn the_map_that_helps_is_chosen_and_none_where_none_does() {
    let (probs, labels) = squared(800, 3);
    let found = choose(&probs, 2, &labels, &MapKind::ALL).unwrap();
    assert_eq!(found.tried.len(), 2);
    let map = found.map.expect("both help");
    let (fresh, truth) = squared(4000, 4);
    let mapped: Vec<f64> = fresh.chunks(2).flat_map(|p| map.probabilities(p)).collect();
    let nll = |probs: &[f64]| Predictions::new(probs, 2, &truth).unwrap().nll();
    assert!(nll(&mapped) < nll(&fresh) - 0.02, "{} against {}", nll(&mapped), nll(&fresh));
    let least = found.tried.iter().map(|one| one.nll).fold(f64::INFINITY, f64::min);
    assert!((nll(&mapped) - least).abs() < 0.05, "what was seen on held-back examples holds for new ones");
    assert!(choose(&probs[..8], 2, &labels[..4], &MapKind::ALL).is_ok_and(|few| few.tried.is_empty()));

    let pool = Pool::drawn(1000, 5, 2);
    let rng = &mut rng(9);
    let own = |p: &[f64], u: f64| {
        p.iter()
            .scan(0.0, |sum, p| {
                *sum += p;
                Some(*sum)
            })
            .take_while(|sum| *sum < u)
            .count()
    };
    let labels: Vec<usize> = pool.probs.chunks(5).map(|p| own(p, rng.random()).min(4)).collect();
    let found = choose(&pool.probs, 5, &labels, &MapKind::ALL).unwrap();
    assert_eq!(found.map, None, "labels drawn from the probabilities themselves: {:?}", found.tried);
    let many = vec![1.0 / 11.0; 11 * 40];
    let labels: Vec<usize> = (0..40).map(|i| i % 11).collect();
    let found = choose(&many, 11, &labels, &MapKind::ALL).unwrap();
    assert_eq!(found.tried.iter().map(|one| one.kind).collect::<Vec<_>>(), [MapKind::VectorScaling]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn steps_say_what_venn_abers_says(pairs in proptest::collection::vec((0_u8..10, any::<bool>()), 1..40), s in 0_u8..22) {
        let (x, yes): (Vec<f64>, Vec<bool>) = pairs.iter().map(|&(x, y)| (f64::from(x), y)).unzip();
        let (fitted, score) = (VennAbers::new(&x, &yes).unwrap(), f64::from(s) / 2.0 - 0.5);
        prop_assert!((fitted.steps().value(score) - fitted.at(score).merged()).abs() < 1e-12);
    }
}

#[test]
fn a_map_of_a_file_is_looked_at() {
    let (probs, labels) = squared(50, 1);
    for kind in MapKind::ALL {
        let map = Recalibration::fit(kind, &probs, 2, &labels).unwrap();
        assert!(map.check().is_ok());
    }
    let scaling = |factors: &[f64], shifts: &[f64]| {
        Recalibration::VectorScaling(VectorScaling { factors: factors.to_vec(), shifts: shifts.to_vec() })
    };
    let steps = |below: f64, scores: &[f64], at: &[f64]| {
        let (scores, at, above) = (scores.to_vec(), at.to_vec(), vec![0.5]);
        Recalibration::VennAbers { classes: vec![VennSteps { below, scores, at, above }] }
    };
    let broken = [
        scaling(&[1.0, 1.0], &[0.0]),
        scaling(&[], &[]),
        scaling(&[f64::NAN], &[0.0]),
        steps(0.1, &[0.5], &[]),
        steps(2.0, &[0.5], &[0.5]),
        steps(0.1, &[f64::INFINITY], &[0.5]),
    ];
    for map in broken {
        assert!(map.check().is_err(), "{map:?}");
    }
}
