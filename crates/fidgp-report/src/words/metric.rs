use fidgp_metrics::names;

/// Which way a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Larger is better.
    Higher,
    /// Smaller is better.
    Lower,
    /// Neither: it describes.
    Neither,
}

/// How a metric is printed and what it means.
#[derive(Debug, Clone, PartialEq)]
pub struct Words {
    /// Which way it improves.
    pub better: Better,
    /// Whether a fraction is printed as per cent.
    pub percent: bool,
    /// One sentence.
    pub meaning: String,
}

/// Name, direction, per cent, meaning.
type Entry = (&'static str, Better, bool, &'static str);

const TABLE: [Entry; 40] = [
    (
        names::SEG_MIOU,
        Better::Higher,
        true,
        "Overlap of prediction and truth, intersection over union, mean over the classes.",
    ),
    (names::SEG_MEAN_ACC, Better::Higher, true, "Pixels of a class that are given it, mean over the classes."),
    (names::SEG_PIXEL_ACC, Better::Higher, true, "Pixels whose most probable class is the right one."),
    (
        names::SEG_NLL,
        Better::Lower,
        false,
        "Negative log probability of the right class, nats per pixel, without void pixels.",
    ),
    (names::SEG_BRIER, Better::Lower, false, "Squared distance of a pixel's probabilities from the truth."),
    (
        names::SEG_BOUNDARY_RATIO,
        Better::Neither,
        false,
        "Total uncertainty within two pixels of an object's boundary, over that inside objects.",
    ),
    (names::SEG_BOUNDARY_RATIO_EPISTEMIC, Better::Neither, false, "The same of the epistemic part."),
    (names::CLS_ACC, Better::Higher, true, "Inputs whose most probable class is the right one."),
    (
        names::CLS_NLL,
        Better::Lower,
        false,
        "Negative log probability of the right class, nats per input; confident errors cost most.",
    ),
    (
        names::CLS_NLL_PER_DRAW,
        Better::Lower,
        false,
        "The same for single weight draws, averaged: never below the one above.",
    ),
    (
        names::CLS_BRIER,
        Better::Lower,
        false,
        "Squared distance of the probabilities from the truth, summed over classes.",
    ),
    (
        names::CLS_ENTROPY,
        Better::Neither,
        false,
        "Mean entropy of the predictions, nats: how undecided the network is.",
    ),
    (names::CAL_ECE, Better::Lower, true, "Mean distance between confidence and accuracy, over bins of equal width."),
    (names::CAL_ADAPTIVE_ECE, Better::Lower, true, "The same over bins that hold equally many inputs."),
    (
        names::SC_AURC,
        Better::Lower,
        false,
        "Mean error rate over all coverages, the most confident inputs answered first.",
    ),
    (names::SC_AUGRC, Better::Lower, false, "Mean rate of silent errors over all coverages."),
    (names::SC_COVERAGE_AT_5_RISK, Better::Higher, true, "Inputs that can be answered with at most 5 % errors."),
    (names::SC_RISK_AT_80_COVERAGE, Better::Lower, true, "Error rate when the least confident fifth is refused."),
    (
        names::OOD_AUROC,
        Better::Higher,
        true,
        "Chance that an out-of-distribution input scores higher than an in-distribution one; 50 % is guessing.",
    ),
    (names::OOD_AUPR, Better::Higher, true, "Average precision with out-of-distribution inputs as positives."),
    (names::OOD_AUPR_IN, Better::Higher, true, "Average precision with in-distribution inputs as positives."),
    (
        names::OOD_FPR95,
        Better::Lower,
        true,
        "In-distribution inputs flagged when 95 % of the out-of-distribution ones are caught.",
    ),
    (
        names::OOD_FPR95_ID_KEPT,
        Better::Lower,
        true,
        "Out-of-distribution inputs missed when 95 % of the in-distribution ones are kept.",
    ),
    (
        names::ENS_MI,
        Better::Neither,
        false,
        "Epistemic part of the uncertainty, nats: what the weight draws disagree on.",
    ),
    (
        names::ENS_ENTROPY,
        Better::Neither,
        false,
        "Aleatoric part of the uncertainty, nats: what every draw is unsure of.",
    ),
    (names::REG_RMSE, Better::Lower, false, "Root mean squared error of the predicted mean, in target units."),
    (names::REG_MAE, Better::Lower, false, "Mean absolute error of the predicted mean, in target units."),
    (
        names::REG_NLL,
        Better::Lower,
        false,
        "Negative log density of the target, nats; low if the deviations fit the errors.",
    ),
    (names::REG_CRPS, Better::Lower, false, "Distance of the predicted distribution from the target, in target units."),
    (
        names::REG_COVERAGE,
        Better::Neither,
        true,
        "Targets inside the predicted interval; should be near the interval's level.",
    ),
    (
        "reg/RMSE_truth",
        Better::Lower,
        false,
        "Distance of the mean from the noiseless truth, where there is training data.",
    ),
    ("reg/EpistemicSD", Better::Neither, false, "Mean epistemic σ on the test points."),
    ("reg/EpistemicSD_in_range", Better::Neither, false, "Mean epistemic σ where there is training data."),
    ("reg/EpistemicSD_gap", Better::Neither, false, "Mean epistemic σ in the gap between the data."),
    ("reg/EpistemicSD_outside", Better::Neither, false, "Mean epistemic σ well outside the data."),
    (
        "reg/EpistemicSD_gap_ratio",
        Better::Higher,
        false,
        "Gap over in range: above 1 the network knows where data is missing.",
    ),
    (
        "reg/EpistemicSD_outside_ratio",
        Better::Higher,
        false,
        "Outside over in range; bounded activations can pull it below 1.",
    ),
    (
        "reg/TruthInside_in_range",
        Better::Higher,
        true,
        "Share of points whose true value is within two epistemic σ of the mean, where there is training data.",
    ),
    ("reg/TruthInside_gap", Better::Higher, true, "The same in the gap between the data."),
    ("reg/TruthInside_outside", Better::Higher, true, "The same well outside the data."),
];

/// What is known about a metric. `reg/RMSE/gap` is `reg/RMSE` on the part `gap`; an unknown name describes itself.
///
/// ```
/// use fidgp_report::words::metric::{Better, words};
///
/// assert_eq!(words("ood/AUROC/svhn").better, Better::Higher);
/// assert!(words("ood/AUROC/svhn").meaning.ends_with("Part: svhn."));
/// assert_eq!(words("validation/cls/Acc").meaning, "The same on the validation part.");
/// ```
pub fn words(name: &str) -> Words {
    if let Some(metric) = name.strip_prefix("validation/") {
        return Words { meaning: "The same on the validation part.".to_owned(), ..words(metric) };
    }
    let (base, part) = base_and_part(name);
    let Some((_, better, percent, meaning)) = TABLE.iter().find(|entry| entry.0 == base) else {
        return Words { better: Better::Neither, percent: false, meaning: String::new() };
    };
    let part = part.map_or(String::new(), |part| format!(" Part: {part}."));
    Words { better: *better, percent: *percent, meaning: format!("{meaning}{part}") }
}

/// The place of a metric in a table: known ones in the order of their list, then the others.
pub fn order(name: &str) -> (usize, &str) {
    let base = base_and_part(name).0;
    (TABLE.iter().position(|entry| entry.0 == base).unwrap_or(TABLE.len()), name)
}

fn base_and_part(name: &str) -> (&str, Option<&str>) {
    match name.match_indices('/').nth(1) {
        Some((at, _)) => (&name[..at], Some(&name[at + 1..])),
        None => (name, None),
    }
}
