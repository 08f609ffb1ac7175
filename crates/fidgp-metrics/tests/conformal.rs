//! What conformal sets promise, on examples whose law is known.
#![allow(missing_docs)]

mod support;

use fidgp_metrics::binomial::at_most;
use fidgp_metrics::conformal::{
    Bounds, ClassSets, IntervalScore, Intervals, LastLabel, SetScore, SetsByClass, ShiftedThreshold, control_risk,
    coverage_law, density_ratio, effective_size, resampled, smallest_count, threshold,
};
use fidgp_metrics::{MetricError, Predictions};
use rand::Rng;
use support::{Pool, kolmogorov, mean_and_error, normal, rng, shuffled, uniforms};

const SCORES: [SetScore; 3] = [SetScore::Lac, SetScore::Aps, SetScore::Raps { penalty: 0.05, free: 2 }];

/// Coverage of every split, and the mean size of its sets.
fn over_splits(pool: &Pool, score: SetScore, last: LastLabel, level: f64, n: usize) -> (Vec<f64>, f64) {
    let rows = pool.labels.len();
    let (mut coverages, mut sizes) = (Vec::new(), 0.0);
    for split in 0..200 {
        let rng = &mut rng(split);
        let order = shuffled(rng, rows);
        let (probs, labels) = pool.part(&order[..n]);
        let examples = Predictions::new(&probs, pool.classes, &labels).unwrap();
        let sets = ClassSets::calibrate(score, last, &examples, &uniforms(rng, n), level).unwrap();
        let found: Vec<(bool, usize)> = order[n..]
            .iter()
            .map(|&i| {
                let set = sets.set(pool.row(i), rng.random());
                (set.contains(&pool.labels[i]), set.len())
            })
            .collect();
        coverages.push(found.iter().filter(|(hit, _)| *hit).count() as f64 / found.len() as f64);
        sizes += found.iter().map(|(_, size)| *size as f64).sum::<f64>() / found.len() as f64 / 200.0;
    }
    (coverages, sizes)
}

#[test]
fn coverage_over_200_splits_has_the_mean_and_the_spread_of_the_theory() {
    let pool = Pool::drawn(2500, 8, 7);
    for score in SCORES {
        for level in [0.8, 0.9, 0.95] {
            let (coverages, _) = over_splits(&pool, score, LastLabel::Random, level, 500);
            let law = coverage_law(500, level).unwrap();
            let (mean, error) = mean_and_error(&coverages);
            assert!((mean - law.mean()).abs() < 4.0 * error + 1e-3, "{score:?} {level}: {mean} against {}", law.mean());
            // of a finite test part: Beta's variance plus that of 2000 draws, less what splits of one pool share
            let variance = law.sd().powi(2) + law.mean() * (1.0 - law.mean()) / 2000.0;
            let seen = fidgp_metrics::sample_sd(&coverages).unwrap().powi(2);
            assert!((0.6..1.6).contains(&(seen / variance)), "{score:?} {level}: {}", seen / variance);
        }
    }
}

#[test]
fn coverage_follows_the_beta_law() {
    let law = coverage_law(99, 0.9).unwrap();
    assert_eq!((law.a, law.b), (90.0, 10.0));
    let coverages: Vec<f64> = (0..2000).map(|seed| threshold(&uniforms(&mut rng(seed), 99), 0.9).unwrap()).collect();
    // P(Beta(k, n + 1 − k) ≤ x) = P(Bin(n, x) ≥ k)
    let p = kolmogorov(coverages.clone(), |x| 1.0 - at_most(89, 99, x));
    assert!(p > 1e-3, "{p}");
    let wrong = kolmogorov(coverages, |x| 1.0 - at_most(90, 99, x));
    assert!(wrong < 1e-3, "one rank further is another law: {wrong}");
}

#[test]
fn a_kept_last_label_covers_more_and_is_never_empty() {
    let pool = Pool::drawn(1500, 8, 8);
    for score in &SCORES[1..] {
        let (random, small) = over_splits(&pool, *score, LastLabel::Random, 0.9, 500);
        let (kept, large) = over_splits(&pool, *score, LastLabel::Keep, 0.9, 500);
        assert!(mean_and_error(&kept).0 > mean_and_error(&random).0 && large > small);
        let examples = Predictions::new(&pool.probs, 8, &pool.labels).unwrap();
        let sets = ClassSets::calibrate(*score, LastLabel::Keep, &examples, &vec![0.9; 1500], 0.05).unwrap();
        assert!((0..1500).all(|i| !sets.set(pool.row(i), 0.0).is_empty()));
    }
}

#[test]
fn lac_has_the_smallest_sets() {
    let pool = Pool::drawn(1500, 20, 9);
    let [lac, aps, raps] = SCORES.map(|score| over_splits(&pool, score, LastLabel::Random, 0.9, 700).1);
    assert!(lac < aps && lac < raps, "{lac} {aps} {raps}");
}

#[test]
fn the_penalty_cuts_the_largest_sets() {
    let pool = Pool::drawn(3000, 20, 9);
    let (probs, labels) = pool.part(&(0..1500).collect::<Vec<_>>());
    let examples = Predictions::new(&probs, 20, &labels).unwrap();
    let u = uniforms(&mut rng(1), 1500);
    let largest = |penalty| {
        let score = SetScore::Raps { penalty, free: 5 };
        let sets = ClassSets::calibrate(score, LastLabel::Keep, &examples, &u, 0.9).unwrap();
        (1500..3000).map(|i| sets.set(pool.row(i), 0.0).len()).max().unwrap()
    };
    assert!(largest(1.0) < largest(0.1) && largest(0.1) < largest(0.0));
}

#[test]
fn by_class_covers_each_class() {
    let pool = Pool::drawn(6000, 4, 10);
    let (mut hits, mut all) = ([0.0; 4], [0.0; 4]);
    for split in 0..60 {
        let rng = &mut rng(split);
        let order = shuffled(rng, 6000);
        let (probs, labels) = pool.part(&order[..3000]);
        let examples = Predictions::new(&probs, 4, &labels).unwrap();
        let u = uniforms(rng, 3000);
        let sets = SetsByClass::calibrate(SetScore::Lac, LastLabel::Random, &examples, &u, 0.9).unwrap();
        for &i in &order[3000..] {
            let label = pool.labels[i];
            all[label] += 1.0;
            hits[label] += f64::from(u8::from(sets.set(pool.row(i), rng.random()).contains(&label)));
        }
    }
    let coverages: Vec<f64> = hits.iter().zip(all).map(|(hits, all)| hits / all).collect();
    assert!(coverages.iter().all(|coverage| (coverage - 0.9).abs() < 0.01), "{coverages:?}");
}

#[test]
fn the_smallest_class_is_named() {
    let probs = [0.5, 0.3, 0.2].repeat(40);
    let labels: Vec<usize> = (0..40)
        .map(|i| {
            if i < 20 {
                0
            } else if i < 35 {
                1
            } else {
                2
            }
        })
        .collect();
    let examples = Predictions::new(&probs, 3, &labels).unwrap();
    let found = SetsByClass::calibrate(SetScore::Lac, LastLabel::Keep, &examples, &[0.5; 40], 0.9);
    assert_eq!(found.unwrap_err(), MetricError::SmallClass { class: 2, got: 5, need: 9, level: 0.9 });
}

#[test]
fn too_few_examples_promise_nothing_less_than_everything() {
    let examples = Predictions::new(&[0.9, 0.1, 0.8, 0.2], 2, &[0, 0]).unwrap();
    let sets = ClassSets::calibrate(SetScore::Lac, LastLabel::Keep, &examples, &[0.5; 2], 0.9).unwrap();
    assert_eq!(sets.threshold, None);
    assert_eq!(sets.set(&[1.0, 0.0], 0.5), [0, 1]);
    for level in [0.5, 0.8, 0.9, 0.95, 0.99] {
        let need = smallest_count(level).unwrap();
        assert!(threshold(&vec![0.0; need], level).unwrap().is_finite(), "{level}");
        assert!(need == 1 || threshold(&vec![0.0; need - 1], level).unwrap().is_infinite(), "{level}");
    }
}

/// `y ~ N(sin x, (0.1 + x²)²)`, predicted with a deviation that is off by a factor of two.
fn numbers(rng: &mut impl Rng, n: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let x: Vec<f64> = (0..n).map(|_| rng.random()).collect();
    let y = x.iter().map(|x| x.sin() + (0.1 + x * x) * normal(rng)).collect();
    (x.iter().map(|x| x.sin()).collect(), x.iter().map(|x| 0.5 * (0.1 + x * x)).collect(), y)
}

#[test]
fn intervals_of_numbers_cover_whether_or_not_the_deviation_is_right() {
    for score in [IntervalScore::Normalised, IntervalScore::Quantiles] {
        let mut coverages = Vec::new();
        for split in 0..200 {
            let rng = &mut rng(split);
            let [(m, s, y), (m2, s2, y2)] = [numbers(rng, 300), numbers(rng, 1000)];
            let columns = |m: &[f64], s: &[f64]| match score {
                IntervalScore::Normalised => (m.to_vec(), s.to_vec()),
                IntervalScore::Quantiles => {
                    let ends = |sign: f64| m.iter().zip(s).map(|(m, s)| m + sign * s).collect();
                    (ends(-1.0), ends(1.0))
                }
            };
            let (first, second) = columns(&m, &s);
            let forecast = Bounds { first: &first, second: &second };
            let intervals = Intervals::calibrate(score, forecast, &y, 0.9).unwrap();
            let (first, second) = columns(&m2, &s2);
            let hits = (0..1000).filter(|&i| intervals.interval(first[i], second[i]).contains(y2[i])).count();
            coverages.push(hits as f64 / 1000.0);
        }
        let (mean, error) = mean_and_error(&coverages);
        let law = coverage_law(300, 0.9).unwrap();
        assert!((mean - law.mean()).abs() < 4.0 * error, "{score:?}: {mean}");
    }
}

#[test]
fn controlled_risk_is_kept_on_average() {
    // the share of a picture's pixels that a threshold misses: pictures differ much
    let losses = |rng: &mut _, n: usize| {
        let hard = uniforms(rng, n);
        let of =
            |setting: usize| hard.iter().map(move |h| (h * h - setting as f64 / 50.0).max(0.0)).collect::<Vec<_>>();
        (0..51).flat_map(of).collect::<Vec<f64>>()
    };
    let mut kept = Vec::new();
    for split in 0..400 {
        let rng = &mut rng(split);
        let found = control_risk(&losses(rng, 60), 60, 0.1).unwrap();
        let test = losses(rng, 200);
        kept.push(test[found.index * 200..(found.index + 1) * 200].iter().sum::<f64>() / 200.0);
    }
    let (mean, error) = mean_and_error(&kept);
    assert!(mean <= 0.1 + 3.0 * error, "{mean}");
    assert!(mean > 0.07, "too careful: {mean}");
}

#[test]
fn losses_that_rise_or_are_no_shares_are_refused() {
    let rising = control_risk(&[0.1, 0.1, 0.2, 0.0], 2, 0.3).unwrap_err();
    assert_eq!(rising, MetricError::Order { what: "losses", index: 2, value: 0.2 });
    let large = control_risk(&[1.5], 1, 0.6).unwrap_err();
    assert_eq!(large, MetricError::Share { what: "losses", index: 0, value: 1.5 });
    let few = control_risk(&[0.0; 5], 5, 0.1).unwrap_err();
    assert_eq!(few, MetricError::TooFewForLevel { got: 5, need: 9, level: 0.9 });
}

#[test]
fn weights_bring_the_coverage_back_where_inputs_have_moved() {
    let (mut plain, mut weighted, mut of_kept) = (Vec::new(), Vec::new(), Vec::new());
    for split in 0..200 {
        let rng = &mut rng(split);
        // the deviation of y grows with x, and the inputs to come are larger: x ~ N(0, 1), then N(1, 1)
        let draw = |rng: &mut _, n, shift: f64| -> (Vec<f64>, Vec<f64>) {
            let x: Vec<f64> = (0..n).map(|_| normal(rng) + shift).collect();
            let scores = x.iter().map(|x| (x.exp() * normal(rng)).abs()).collect();
            (x, scores)
        };
        let (here, scores) = draw(rng, 1000, 0.0);
        let (there, to_come) = draw(rng, 1000, 1.0);
        let (weights, of_there) = density_ratio(&here, &there, 1).unwrap();
        assert!(effective_size(&weights) < 800.0);
        let shifted = ShiftedThreshold::new(&scores, &weights, 0.9).unwrap();
        let q = threshold(&scores, 0.9).unwrap();
        let share = |hits: usize| hits as f64 / 1000.0;
        plain.push(share(to_come.iter().filter(|&&s| s <= q).count()));
        let kept: Vec<f64> = resampled(&weights, rng).unwrap().into_iter().map(|i| scores[i]).collect();
        let q = threshold(&kept, 0.9).unwrap();
        of_kept.push(share(to_come.iter().filter(|&&s| s <= q).count()));
        weighted.push(share(to_come.iter().zip(of_there).filter(|&(&s, w)| s <= shifted.at(w)).count()));
    }
    let (plain, weighted, of_kept) = (mean_and_error(&plain), mean_and_error(&weighted), mean_and_error(&of_kept));
    assert!(plain.0 < 0.8, "{plain:?}");
    assert!((of_kept.0 - 0.905).abs() < 0.025, "{of_kept:?}");
    assert!((weighted.0 - 0.9).abs() < 0.02, "{weighted:?}");
}

#[test]
fn equal_weights_are_the_plain_threshold() {
    let scores = uniforms(&mut rng(3), 137);
    for level in [0.5, 0.8, 0.9, 0.95, 0.999] {
        let shifted = ShiftedThreshold::new(&scores, &[2.5; 137], level).unwrap();
        assert_eq!(shifted.at(2.5).to_bits(), threshold(&scores, level).unwrap().to_bits(), "{level}");
    }
}

#[test]
fn the_beta_binomial_law_is_that_of_scipy() {
    // scipy.stats.betabinom(m, k, n + 1 - k).cdf(x)
    for (n, level, hits, of, expected) in CDF {
        let found = coverage_law(n, level).unwrap().at_most(hits, of);
        assert!((found / expected - 1.0).abs() < 1e-7, "{n} {level} {hits} of {of}: {found}, not {expected}");
    }
    assert!((coverage_law(100, 0.9).unwrap().at_most(50, 50) - 1.0).abs() < 1e-12);
}

const CDF: [(usize, f64, usize, usize, f64); 5] = [
    (100, 0.9, 40, 50, 0.052_195_522_433),
    (2000, 0.9, 7100, 8000, 0.051_192_855_733),
    (2000, 0.95, 7500, 8000, 0.014_812_011_396),
    (19, 0.95, 90, 100, 0.162_697_254_096),
    (480, 0.9, 100, 120, 0.027_531_108_343),
];
