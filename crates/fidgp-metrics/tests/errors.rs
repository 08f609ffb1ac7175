//! Bad input is an error that says what to do, never a panic.
#![allow(missing_docs)]

use fidgp_metrics::{
    Bootstrap, DrawProbs, GaussianForecast, MetricError, MixtureForecast, Noise, OodScores, Predictions,
    ReliabilityTable, RiskCoverage, mean, names, paired_difference, rmse, sample_sd, total_variance,
};

const NAN: f64 = f64::NAN;

#[test]
fn predictions_refuse_what_is_no_table_of_probabilities() {
    let refuse = |probs: &[f64], classes, labels: &[usize]| Predictions::new(probs, classes, labels).unwrap_err();
    assert_eq!(refuse(&[], 2, &[]), MetricError::Empty { what: "labels" });
    assert_eq!(refuse(&[1.0], 0, &[0]), MetricError::Zero { what: "classes" });
    assert_eq!(refuse(&[1.0], 2, &[0]), MetricError::Length { what: "probs", expected: 2, got: 1 });
    assert_eq!(refuse(&[0.5, 0.4], 2, &[0]), MetricError::ProbabilitySum { row: 0, sum: 0.9 });
    assert_eq!(refuse(&[1.5, -0.5], 2, &[0]), MetricError::Probability { row: 0, class: 0, value: 1.5 });
    assert_eq!(refuse(&[0.5, 0.5], 2, &[7]), MetricError::Label { row: 0, label: 7, classes: 2 });
    assert!(matches!(refuse(&[0.5, NAN], 2, &[0]), MetricError::NotFinite { what: "probs", index: 1, .. }));
    assert!(matches!(refuse(&[0.5], usize::MAX, &[0, 1]), MetricError::Length { .. }));
}

#[test]
fn scores_refuse_nan_and_missing_sets() {
    assert_eq!(OodScores::new(&[], &[1.0]).unwrap_err(), MetricError::OneClass { missing: "ID" });
    let nan = OodScores::new(&[0.0, NAN], &[1.0]).unwrap_err();
    assert!(matches!(nan, MetricError::NotFinite { what: "ID scores", index: 1, .. }));
    assert!(OodScores::new(&[f64::NEG_INFINITY, 0.0], &[f64::INFINITY]).is_ok_and(|s| s.auroc() >= 1.0));
    let scores = OodScores::new(&[0.0], &[1.0]).unwrap();
    assert_eq!(scores.fpr_at_id_kept(95.0).unwrap_err(), MetricError::Level { value: 95.0 });
    let none = Bootstrap { resamples: 0, ..Bootstrap::seeded(0) };
    assert_eq!(scores.bootstrap(&none, OodScores::auroc).unwrap_err(), MetricError::Zero { what: "resamples" });
}

#[test]
fn forecasts_refuse_bad_variances_and_lengths() {
    let zero = GaussianForecast::new(&[0.0], &[0.0], &[0.0]).unwrap_err();
    assert_eq!(zero, MetricError::NotPositive { what: "variance", index: 0, value: 0.0 });
    assert_eq!(rmse(&[], &[]).unwrap_err(), MetricError::Empty { what: "mean" });
    assert_eq!(rmse(&[1.0], &[]).unwrap_err(), MetricError::Length { what: "target", expected: 1, got: 0 });
    let ragged = MixtureForecast::new(&[0.0; 3], Noise::Shared(1.0), &[0.0; 2]).unwrap_err();
    assert_eq!(ragged, MetricError::Length { what: "means", expected: 4, got: 3 });
    assert!(MixtureForecast::new(&[0.0; 4], Noise::PerPoint(&[1.0]), &[0.0; 2]).is_err());
    assert!(total_variance(&[], 0, Noise::Shared(1.0)).is_err());
    assert!(GaussianForecast::new(&[0.0], &[1.0], &[0.0]).unwrap().coverage(NAN).is_err());
}

#[test]
fn the_rest_refuses_too() {
    assert!(RiskCoverage::new(&[], &[]).is_err());
    assert!(RiskCoverage::new(&[NAN], &[0.0]).is_err());
    assert!(DrawProbs::new(&[], 0, 0, 0).is_err());
    assert!(mean(&[]).is_err());
    assert_eq!(sample_sd(&[1.0]).unwrap_err(), MetricError::TooFew { what: "values", need: 2, got: 1 });
    assert!(paired_difference(&[1.0], &[1.0, 2.0], &Bootstrap::seeded(0)).is_err());
    let one = paired_difference(&[1.0], &[2.0], &Bootstrap::seeded(0)).unwrap_err();
    assert_eq!(one, MetricError::TooFew { what: "pairs", need: 2, got: 1 });
    assert_eq!(ReliabilityTable::with_bins(0).unwrap_err(), MetricError::Zero { what: "bins" });
}

#[test]
fn messages_give_advice() {
    let logits = Predictions::new(&[3.0, -2.0], 2, &[0]).unwrap_err().to_string();
    assert_eq!(logits, "row 0, class 0: 3 is not a probability in [0, 1]; pass softmax outputs, not logits");
    let level = OodScores::new(&[0.0], &[1.0]).unwrap().fpr_at_ood_caught(95.0).unwrap_err().to_string();
    assert_eq!(level, "level 95 is not between 0 and 1; write 95 % as 0.95");
}

#[test]
fn metric_names_are_distinct() {
    let mut sorted = names::ALL;
    sorted.sort_unstable();
    assert!(sorted.windows(2).all(|pair| pair[0] != pair[1]));
}
