//! Names follow torch-uncertainty (`group/Metric`), so that tables from both can be laid side by side.

/// Accuracy, fraction.
pub const CLS_ACC: &str = "cls/Acc";
/// Negative log-likelihood of the mean prediction, nats.
pub const CLS_NLL: &str = "cls/NLL";
/// Mean over draws of each draw's own negative log-likelihood, nats.
pub const CLS_NLL_PER_DRAW: &str = "cls/NLL_per_draw";
/// Brier score, summed over classes.
pub const CLS_BRIER: &str = "cls/Brier";
/// Mean entropy of the predictions, nats.
pub const CLS_ENTROPY: &str = "cls/Entropy";
/// Expected calibration error, equal-width bins.
pub const CAL_ECE: &str = "cal/ECE";
/// Expected calibration error, equal-mass bins.
pub const CAL_ADAPTIVE_ECE: &str = "cal/aECE";
/// Area under the risk-coverage curve.
pub const SC_AURC: &str = "sc/AURC";
/// Area under the generalised risk-coverage curve.
pub const SC_AUGRC: &str = "sc/AUGRC";
/// Largest coverage at a risk of at most 5 %.
pub const SC_COVERAGE_AT_5_RISK: &str = "sc/Cov@5Risk";
/// Risk at 80 % coverage.
pub const SC_RISK_AT_80_COVERAGE: &str = "sc/Risk@80Cov";
/// Area under the ROC curve, OoD positive.
pub const OOD_AUROC: &str = "ood/AUROC";
/// Average precision with OoD positive (AUPR-out).
pub const OOD_AUPR: &str = "ood/AUPR";
/// Average precision with ID positive (AUPR-in).
pub const OOD_AUPR_IN: &str = "ood/AUPR_IN";
/// ID inputs flagged when 95 % of the OoD inputs are caught (OpenOOD, torch-uncertainty).
pub const OOD_FPR95: &str = "ood/FPR95";
/// OoD inputs missed when 95 % of the ID inputs are kept (most papers).
pub const OOD_FPR95_ID_KEPT: &str = "ood/FPR95_ID_KEPT";
/// Mutual information between prediction and weights: the epistemic part, nats.
pub const ENS_MI: &str = "test/ens_MI";
/// Mean entropy over draws: the aleatoric part, nats.
pub const ENS_ENTROPY: &str = "test/ens_Entropy";
/// Mean intersection over union of the classes, fraction.
pub const SEG_MIOU: &str = "seg/mIoU";
/// Mean of the classes' pixel accuracies, fraction.
pub const SEG_MEAN_ACC: &str = "seg/mAcc";
/// Accuracy of all pixels, fraction.
pub const SEG_PIXEL_ACC: &str = "seg/pixAcc";
/// Negative log-likelihood of a pixel's class, nats.
pub const SEG_NLL: &str = "seg/NLL";
/// Brier score of a pixel, summed over classes.
pub const SEG_BRIER: &str = "seg/Brier";
/// Total uncertainty at object boundaries over that inside objects.
pub const SEG_BOUNDARY_RATIO: &str = "seg/BoundaryRatio";
/// The same of the epistemic part.
pub const SEG_BOUNDARY_RATIO_EPISTEMIC: &str = "seg/BoundaryRatio_epistemic";
/// Root mean squared error, target units.
pub const REG_RMSE: &str = "reg/RMSE";
/// Mean absolute error, target units.
pub const REG_MAE: &str = "reg/MAE";
/// Negative log density, nats.
pub const REG_NLL: &str = "reg/NLL";
/// Continuous ranked probability score, target units.
pub const REG_CRPS: &str = "reg/CRPS";
/// Fraction of targets inside the central interval.
pub const REG_COVERAGE: &str = "reg/Coverage";

/// Every name above, in the order a report prints them.
pub const ALL: [&str; 30] = [
    CLS_ACC,
    CLS_NLL,
    CLS_NLL_PER_DRAW,
    CLS_BRIER,
    CLS_ENTROPY,
    CAL_ECE,
    CAL_ADAPTIVE_ECE,
    SC_AURC,
    SC_AUGRC,
    SC_COVERAGE_AT_5_RISK,
    SC_RISK_AT_80_COVERAGE,
    OOD_AUROC,
    OOD_AUPR,
    OOD_AUPR_IN,
    OOD_FPR95,
    OOD_FPR95_ID_KEPT,
    ENS_MI,
    ENS_ENTROPY,
    SEG_MIOU,
    SEG_MEAN_ACC,
    SEG_PIXEL_ACC,
    SEG_NLL,
    SEG_BRIER,
    SEG_BOUNDARY_RATIO,
    SEG_BOUNDARY_RATIO_EPISTEMIC,
    REG_RMSE,
    REG_MAE,
    REG_NLL,
    REG_CRPS,
    REG_COVERAGE,
];
