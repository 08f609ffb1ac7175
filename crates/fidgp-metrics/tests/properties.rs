//! What must hold for every input.
#![allow(missing_docs, clippy::float_cmp, reason = "some identities are exact")]

use fidgp_metrics::{
    Bootstrap, DrawProbs, GaussianForecast, IntervalRule, MixtureForecast, Noise, OodScores, Predictions,
    ReliabilityTable, RiskCoverage, median, paired_difference, total_variance,
};
use proptest::{collection::vec, prelude::*, test_runner::RngSeed};

/// Coarse scores, so that ties are common.
fn scores() -> impl Strategy<Value = Vec<f64>> {
    vec((-20_i32..20).prop_map(|s| f64::from(s) / 4.0), 1..60)
}

fn normalised(mut weights: Vec<f64>, classes: usize) -> Vec<f64> {
    for row in weights.chunks_exact_mut(classes) {
        let sum: f64 = row.iter().sum();
        for w in row {
            *w /= sum;
        }
    }
    weights
}

/// `[rows, 3]` probabilities and labels.
fn predictions() -> impl Strategy<Value = (Vec<f64>, Vec<usize>)> {
    (1_usize..60)
        .prop_flat_map(|rows| (vec(0.001..1.0, rows * 3).prop_map(|w| normalised(w, 3)), vec(0_usize..3, rows)))
}

fn brute_force_auroc(id: &[f64], ood: &[f64]) -> f64 {
    let wins: f64 = ood
        .iter()
        .flat_map(|o| {
            id.iter().map(move |i| {
                if o > i {
                    1.0
                } else if o == i {
                    0.5
                } else {
                    0.0
                }
            })
        })
        .sum();
    wins / (id.len() * ood.len()) as f64
}

/// Area under the ROC points by trapezes: a second way to the same number.
fn trapeze_auroc(scores: &OodScores) -> f64 {
    scores
        .roc_curve()
        .windows(2)
        .map(|p| (p[1].id_flagged - p[0].id_flagged) * (p[1].ood_caught + p[0].ood_caught) / 2.0)
        .sum()
}

/// The same cases on every run.
fn fixed() -> ProptestConfig {
    ProptestConfig { rng_seed: RngSeed::Fixed(42), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(fixed())]

    #[test]
    fn auroc_counts_pairs(id in scores(), ood in scores()) {
        let both = OodScores::new(&id, &ood).unwrap();
        let auroc = both.auroc();
        prop_assert!((0.0..=1.0).contains(&auroc));
        prop_assert!((auroc - brute_force_auroc(&id, &ood)).abs() < 1e-12);
        prop_assert!((auroc - trapeze_auroc(&both)).abs() < 1e-12);
        let swapped = OodScores::new(&ood, &id).unwrap().auroc();
        prop_assert!((auroc + swapped - 1.0).abs() < 1e-12);
        prop_assert_eq!(OodScores::new(&id, &id).unwrap().auroc(), 0.5);
    }

    #[test]
    fn rankings_ignore_monotone_maps(id in scores(), ood in scores()) {
        let stretch = |s: &[f64]| s.iter().map(|v| (v / 3.0).exp() - 7.0).collect::<Vec<_>>();
        let (a, b) = (OodScores::new(&id, &ood).unwrap(), OodScores::new(&stretch(&id), &stretch(&ood)).unwrap());
        prop_assert_eq!(a.auroc(), b.auroc());
        prop_assert_eq!(a.aupr_in(), b.aupr_in());
        prop_assert_eq!(a.aupr_out(), b.aupr_out());
        prop_assert_eq!(a.fpr95_id_kept(), b.fpr95_id_kept());
        prop_assert_eq!(a.fpr95_ood_caught(), b.fpr95_ood_caught());
    }

    #[test]
    fn the_two_ends_mirror_each_other(id in scores(), ood in scores()) {
        let negated = |s: &[f64]| s.iter().map(|v| -v).collect::<Vec<_>>();
        let a = OodScores::new(&id, &ood).unwrap();
        let b = OodScores::new(&negated(&ood), &negated(&id)).unwrap();
        prop_assert!((a.auroc() - b.auroc()).abs() < 1e-12);
        prop_assert_eq!(a.aupr_in(), b.aupr_out());
        prop_assert_eq!(a.fpr95_id_kept(), b.fpr95_ood_caught());
        for value in [a.aupr_in(), a.aupr_out(), a.fpr95_id_kept(), a.fpr95_ood_caught()] {
            prop_assert!((0.0..=1.0 + 1e-12).contains(&value));
        }
    }

    #[test]
    fn calibration_errors_are_fractions((probs, labels) in predictions(), bins in 1_usize..40) {
        let p = Predictions::new(&probs, 3, &labels).unwrap();
        for table in [ReliabilityTable::equal_width(&p, bins).unwrap(), ReliabilityTable::equal_mass(&p, bins).unwrap()] {
            let ece = table.ece().value;
            prop_assert!((0.0..=1.0).contains(&ece));
            prop_assert!(ece <= table.mce() + 1e-12);
            prop_assert_eq!(table.count(), p.len());
            let gap = p.accuracy() - p.confidences().iter().sum::<f64>() / p.len() as f64;
            prop_assert!(ece + 1e-12 >= gap.abs()); // one bin is the coarsest view
        }
        prop_assert!((0.0..=2.0).contains(&p.brier()));
        prop_assert!(p.nll() >= 0.0);
    }

    #[test]
    fn equal_mass_bins_share_the_rows((probs, labels) in predictions()) {
        let p = Predictions::new(&probs, 3, &labels).unwrap();
        let table = ReliabilityTable::equal_mass(&p, 5).unwrap();
        let counts = table.bins().iter().map(|bin| bin.count);
        prop_assert!(counts.clone().max().unwrap() - counts.min().unwrap() <= 1);
    }

    #[test]
    fn augrc_is_an_auroc((probs, labels) in predictions()) {
        let p = Predictions::new(&probs, 3, &labels).unwrap();
        let curve = RiskCoverage::new(&p.confidences(), &p.errors()).unwrap();
        let of = |wanted: bool| p.top_labels().filter(|t| t.1 == wanted).map(|t| t.0).collect::<Vec<_>>();
        let auroc = OodScores::new(&of(false), &of(true)).map_or(0.5, |s| s.auroc());
        let accuracy = p.accuracy();
        let expected = (1.0 - auroc) * accuracy * (1.0 - accuracy) + (1.0 - accuracy).powi(2) / 2.0;
        prop_assert!((curve.augrc() - expected).abs() < 1e-12);
        prop_assert!((0.0..=1.0).contains(&curve.aurc()));
    }

    #[test]
    fn selective_curve_ignores_row_order(confidence in scores(), seed in vec(0_u8..2, 60)) {
        let loss: Vec<f64> = seed.iter().take(confidence.len()).map(|&e| f64::from(e)).collect();
        let reversed = |v: &[f64]| v.iter().rev().copied().collect::<Vec<_>>();
        let a = RiskCoverage::new(&confidence, &loss).unwrap();
        let b = RiskCoverage::new(&reversed(&confidence), &reversed(&loss)).unwrap();
        prop_assert!((a.aurc() - b.aurc()).abs() < 1e-12);
    }

    #[test]
    fn crps_is_positive_and_a_mixture_of_one_is_gaussian(
        points in vec((-5.0..5.0_f64, 0.01..4.0_f64, -5.0..5.0_f64), 1..20)
    ) {
        let mean: Vec<f64> = points.iter().map(|p| p.0).collect();
        let variance: Vec<f64> = points.iter().map(|p| p.1).collect();
        let target: Vec<f64> = points.iter().map(|p| p.2).collect();
        let gaussian = GaussianForecast::new(&mean, &variance, &target).unwrap();
        let mixture = MixtureForecast::new(&mean, Noise::PerDraw(&variance), &target).unwrap();
        prop_assert!(gaussian.crps() > 0.0);
        prop_assert!((gaussian.crps() - mixture.crps()).abs() < 1e-12);
        prop_assert!((gaussian.nll() - mixture.nll()).abs() < 1e-10);
        prop_assert_eq!(gaussian.coverage(0.9).unwrap(), mixture.coverage(0.9).unwrap());
        prop_assert!(gaussian.interval_width(0.9).unwrap() < gaussian.interval_width(0.95).unwrap());
    }

    #[test]
    fn mixture_is_no_worse_than_its_average_draw(means in vec(-3.0..3.0_f64, 12), target in vec(-3.0..3.0_f64, 3)) {
        let mixture = MixtureForecast::new(&means, Noise::Shared(0.4), &target).unwrap();
        let of_draw = |draw| MixtureForecast::new(draw, Noise::Shared(0.4), &target).unwrap();
        let draws: Vec<_> = means.chunks_exact(3).map(of_draw).collect();
        prop_assert!(mixture.nll() <= draws.iter().map(MixtureForecast::nll).sum::<f64>() / 4.0 + 1e-12);
        prop_assert!(mixture.crps() <= draws.iter().map(MixtureForecast::crps).sum::<f64>() / 4.0 + 1e-12);
        prop_assert!(mixture.crps() > 0.0);
    }

    #[test]
    fn entropies_add_up(weights in vec(0.0..1.0_f64, 4 * 5 * 3)) {
        let probs = normalised(weights.iter().map(|w| w.powi(4) + 1e-6).collect(), 3);
        let split = DrawProbs::new(&probs, 4, 5, 3).unwrap().entropy_split();
        for n in 0..5 {
            prop_assert!(split.epistemic[n] >= 0.0 && split.epistemic[n] <= 4.0_f64.ln() + 1e-12);
            prop_assert!((split.total[n] - split.aleatoric[n] - split.epistemic[n]).abs() < 1e-12);
            prop_assert!(split.total[n] <= 3.0_f64.ln() + 1e-12);
        }
    }

    #[test]
    fn equal_draws_have_no_epistemic_part((probs, _) in predictions(), draws in 1_usize..5) {
        let split = DrawProbs::new(&probs.repeat(draws), draws, probs.len() / 3, 3).unwrap().entropy_split();
        prop_assert!(split.epistemic.iter().all(|&e| e < 1e-12));
    }

    #[test]
    fn variances_are_those_of_the_mixture(means in vec(-3.0..3.0_f64, 8), noise in vec(0.1..2.0_f64, 8)) {
        let split = total_variance(&means, 2, Noise::PerDraw(&noise)).unwrap();
        for n in 0..2 {
            let second: f64 = (0..4).map(|k| means[2 * k + n].powi(2) + noise[2 * k + n]).sum::<f64>() / 4.0;
            prop_assert!((split.total()[n] - (second - split.mean[n].powi(2))).abs() < 1e-12);
        }
    }

    #[test]
    fn intervals_hold_together(values in vec(-1.0..1.0_f64, 2..60), seed: u64) {
        let settings = Bootstrap { resamples: 50, ..Bootstrap::seeded(seed) };
        let zeros = vec![0.0; values.len()];
        let difference = paired_difference(&values, &zeros, &settings).unwrap();
        let (lo, hi) = (values.iter().copied().fold(1.0, f64::min), values.iter().copied().fold(-1.0, f64::max));
        prop_assert!(difference.interval.lo <= difference.interval.hi);
        // of resampled pairs no mean lies outside them; Student's t may
        let resampled = difference.rule == IntervalRule::Bootstrap;
        prop_assert_eq!(resampled, values.len() >= 30);
        prop_assert!(!resampled || (lo <= difference.interval.lo && difference.interval.hi <= hi));
        prop_assert!((lo..=hi).contains(&median(&values).unwrap()));
    }
}
