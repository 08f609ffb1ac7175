//! Golden numbers, computed in numpy (float64) from the definitions: right-closed bins of top-label confidence, Brier
//! summed over classes, AUROC with ties at ½.
#![allow(clippy::unreadable_literal, missing_docs, reason = "numbers are pasted whole")]

use fidgp_metrics::{OodScores, Predictions, ReliabilityTable};

/// 25 rows, 4 classes.
#[rustfmt::skip]
const PROBS: [f64; 100] = [
    0.7021694090278676, 0.05533285041346373, 0.0861861842202094, 0.1563115563384591,
    0.0015622865759164833, 0.026598014475615387, 0.9307678844889382, 0.041071814459529905,
    0.10061662081087588, 0.04972067982692014, 0.6960877864122796, 0.15357491294992423,
    0.04010893907196644, 0.4809484838506776, 0.07067567184556575, 0.4082669052317903,
    0.017110862055436528, 0.059584147735566514, 0.8120087096689222, 0.11129628054007482,
    0.016891849336465873, 0.039667105724162065, 0.9007499046343336, 0.042691140305038525,
    0.12728543832682065, 0.12682335638416378, 0.00040549819015696316, 0.7454857070988588,
    0.34913590805464284, 0.03771025902898258, 0.4739807786399944, 0.1391730542763803,
    0.2162509687556001, 0.06936742076385584, 0.048543301924767086, 0.665838308555777,
    0.5074779047775999, 0.4082976827108592, 0.027515076259690803, 0.05670933625185009,
    0.4471345714338569, 0.42636299637779934, 0.0430612634259018, 0.08344116876244202,
    0.546077577972027, 0.025547620546683015, 0.06187091741914085, 0.36650388406214907,
    0.025053005135407303, 0.127072911570664, 0.08731281993429918, 0.7605612633596296,
    0.6630219979787341, 0.006289215178493034, 0.13895246789375237, 0.1917363189490204,
    0.5850834609866828, 0.0013779780249662582, 0.4126002243467754, 0.0009383366415754088,
    0.03868196663695088, 0.16237324296705766, 0.7989273636642685, 1.742673172285873e-05,
    0.2197877909889494, 0.38733602399226913, 0.001243678862316294, 0.39163250615646517,
    0.043967606942255516, 0.033829295335631115, 0.6786336107507831, 0.24356948697133038,
    0.06974723032747757, 0.08288248975916733, 0.0008940099534376358, 0.8464762699599175,
    0.03069341294380448, 0.010368359707904418, 0.9549057794693996, 0.004032447878891598,
    0.2810297636797038, 0.096517527818402, 0.565602965844622, 0.056849742657272086,
    0.20657500866988884, 0.5671786806344776, 0.22503590738846274, 0.001210403307170918,
    0.029943087014993895, 0.013786057954598741, 0.912399350625076, 0.043871504405331295,
    0.04800001782193762, 0.2911689456832066, 0.05103142458036971, 0.6097996119144861,
    0.6086631331866177, 0.03376439662575267, 0.09365760507382422, 0.2639148651138054,
];
const LABELS: [usize; 25] = [2, 3, 0, 0, 0, 0, 2, 3, 3, 0, 1, 2, 3, 0, 0, 1, 1, 2, 2, 0, 2, 1, 1, 0, 3];
const ECE: [(usize, f64); 4] =
    [(10, 0.4523508736264589), (15, 0.4129491060086669), (20, 0.48034877595062314), (100, 0.5945926654126273)];

fn close(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-12, "{got} is not {expected}");
}

#[test]
fn classification_scores() {
    let predictions = Predictions::new(&PROBS, 4, &LABELS).unwrap();
    close(predictions.nll(), 2.339028592079487);
    close(predictions.accuracy(), 0.32);
    close(predictions.brier(), 1.0090897033885513);
}

#[test]
fn calibration_error_for_four_bin_counts() {
    let predictions = Predictions::new(&PROBS, 4, &LABELS).unwrap();
    for (bins, expected) in ECE {
        let ece = ReliabilityTable::equal_width(&predictions, bins).unwrap().ece();
        assert_eq!(ece.bins, bins);
        close(ece.value, expected);
    }
}

#[test]
fn adaptive_calibration_error() {
    let predictions = Predictions::new(&PROBS, 4, &LABELS).unwrap();
    for (bins, expected) in [(5, 0.3642560553537375), (15, 0.513727563587266)] {
        close(ReliabilityTable::equal_mass(&predictions, bins).unwrap().ece().value, expected);
    }
}

#[test]
fn a_table_filled_in_batches_is_the_same_table() {
    let whole = Predictions::new(&PROBS, 4, &LABELS).unwrap();
    let mut batched = ReliabilityTable::with_bins(15).unwrap();
    for (probs, labels) in PROBS.chunks(40).zip(LABELS.chunks(10)) {
        batched.extend(&Predictions::new(probs, 4, labels).unwrap());
    }
    let table = ReliabilityTable::equal_width(&whole, 15).unwrap();
    assert_eq!(batched.count(), 25);
    close(batched.ece().value, table.ece().value);
    close(batched.mce(), table.mce());
}

#[test]
fn auroc_with_ties() {
    let scores = OodScores::new(&[0.1, 0.2, 0.2, 0.5, 0.7], &[0.2, 0.6, 0.7, 0.9]).unwrap();
    close(scores.auroc(), 0.775);
}
