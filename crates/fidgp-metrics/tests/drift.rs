//! Quiet months without false alarms, and how soon a real change is seen.
#![allow(missing_docs)]

mod support;

use fidgp_metrics::drift::{Cusum, Exchangeability, Proportion, estimate_accuracy};
use rand::Rng;
use support::{kolmogorov, mean_and_error, normal, rng};

/// 30 days of 100 inputs after 1000 of a reference, looked at after each: the input at which the alarm came.
fn month(seed: u64, draw: impl Fn(usize, &mut rand_chacha::ChaCha8Rng) -> f64) -> Option<usize> {
    let rng = &mut rng(seed);
    let reference: Vec<f64> = (0..1000).map(|_| draw(0, rng)).collect();
    let mut test = Exchangeability::new(&reference).unwrap();
    (0..3000).find(|&i| {
        test.add(draw(i, rng), rng.random());
        test.alarm(0.05)
    })
}

#[test]
fn quiet_months_are_quiet() {
    let continuous = (0..200).filter(|&seed| month(seed, |_, rng| normal(rng)).is_some()).count();
    let tied = (0..200).filter(|&seed| month(seed, |_, rng| rng.random_range(0..5).into()).is_some()).count();
    assert!(continuous <= 10 && tied <= 10, "{continuous} and {tied} of 200 months with a false alarm");
}

#[test]
fn a_change_after_two_quiet_weeks_is_seen() {
    let delay = |change: fn(f64) -> f64| -> Vec<f64> {
        let seen = |seed| month(seed, |i, rng| if i < 1500 { normal(rng) } else { change(normal(rng)) });
        (0..50).map(|seed| seen(seed).map_or(3000.0, |at| at as f64) - 1500.0).filter(|delay| *delay >= 0.0).collect()
    };
    for (name, change, most) in [
        ("one deviation up", (|x| x + 1.0) as fn(f64) -> f64, 80.0),
        ("half a deviation down", |x| x - 0.5, 250.0),
        ("twice as wide", |x| 2.0 * x, 150.0),
    ] {
        let (mean, _) = mean_and_error(&delay(change));
        assert!(mean < most, "{name}: {mean} inputs");
    }
}

#[test]
fn ranks_are_uniform_and_do_not_depend_on_one_another() {
    let (mut p, mut product) = (Vec::new(), Vec::new());
    for seed in 0..100 {
        let rng = &mut rng(seed);
        let mut test = Exchangeability::new(&[normal(rng), normal(rng)]).unwrap();
        let ranks: Vec<f64> = (0..50).map(|_| test.add(normal(rng), rng.random())).collect();
        product.extend(ranks.windows(2).map(|pair| (pair[0] - 0.5) * (pair[1] - 0.5)));
        p.extend(ranks);
    }
    assert!(kolmogorov(p, |x| x) > 1e-3);
    let (mean, error) = mean_and_error(&product);
    assert!(mean.abs() < 4.0 * error, "{mean} ± {error}");
}

#[test]
fn capital_is_one_on_average() {
    let capital = |seed| {
        let rng = &mut rng(seed);
        let mut test = Exchangeability::new(&[rng.random()]).unwrap();
        for _ in 0..20 {
            test.add(rng.random(), rng.random());
        }
        test.log_e_value().exp()
    };
    let (mean, error) = mean_and_error(&(0..20_000).map(capital).collect::<Vec<_>>());
    assert!((mean - 1.0).abs() < 4.0 * error, "{mean} ± {error}");
}

#[test]
fn cusum_waits_as_long_as_promised_and_is_quick() {
    let run = |seed, draw: fn(f64) -> f64| {
        let (mut cusum, rng) = (Cusum::default(), &mut rng(seed));
        (1..100_000).find(|_| cusum.add(draw(rng.random())) >= 200_f64.ln()).map_or(1e5, f64::from)
    };
    let (quiet, error) = mean_and_error(&(0..300).map(|seed| run(seed, |u| u)).collect::<Vec<_>>());
    assert!(quiet > 200.0 - 3.0 * error, "{quiet}");
    let (delay, _) = mean_and_error(&(0..300).map(|seed| run(seed, |u| u * u)).collect::<Vec<_>>());
    assert!(delay < quiet / 4.0, "{delay} against {quiet}");
}

#[test]
fn a_watched_share_stays_in_its_interval_at_all_times() {
    let left = (0..300).filter(|&seed| {
        let (mut share, rng) = (Proportion::default(), &mut rng(seed));
        (0..1000).any(|_| {
            share.add(rng.random::<f64>() < 0.9);
            share.log_e_value(0.9) >= -0.05_f64.ln()
        })
    });
    let left = left.count();
    assert!(left <= 27, "{left} of 300"); // 15 and three standard errors
    let drifted = Proportion { hits: 800, misses: 200 };
    assert!(!drifted.interval(0.95).unwrap().contains(0.9));
}

#[test]
fn accuracy_is_estimated_without_labels() {
    let mut inside = 0;
    for seed in 0..100 {
        let rng = &mut rng(seed);
        // right with probability c², so that raw confidences are too high; the new inputs are harder
        let draw = |rng: &mut rand_chacha::ChaCha8Rng, low: f64| {
            let c = low + (1.0 - low) * rng.random::<f64>();
            (c, rng.random::<f64>() < c * c)
        };
        let (c, right): (Vec<_>, Vec<_>) = (0..1000).map(|_| draw(rng, 0.3)).unzip();
        let (new, truth): (Vec<_>, Vec<_>) = (0..500).map(|_| draw(rng, 0.1)).unzip();
        let new: Vec<f64> = new.into_iter().map(|c: f64| c.max(0.3)).collect();
        let truth = truth.iter().filter(|&&t| t).count() as f64 / 500.0;
        let found = estimate_accuracy(&c, &right, &new, 0.95, seed).unwrap();
        inside += usize::from(found.interval.lo - 0.02 <= truth && truth <= found.interval.hi + 0.02);
    }
    assert!(inside >= 88, "{inside} of 100");
}
