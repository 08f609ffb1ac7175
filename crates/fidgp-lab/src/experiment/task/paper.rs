//! What the paper reports of CamVid, to be printed beside our own numbers.

use fidgp_metrics::names;

use crate::config::{Layout, NetworkConfig, RunConfig, SegmentationConfig};
use crate::record::Published;

const SOURCE: &str =
    "the FiD-GP paper, FCN-ResNet50 started at COCO weights; best epoch on the test set, one seed, 100 ECE bins";

/// Method, mIoU, mean pixel accuracy, NLL, ECE; fractions.
const CAMVID: [(&str, [f64; 4]); 6] = [
    ("Deterministic", [0.622, 0.773, 0.57, 0.086]),
    ("BatchEnsemble", [0.631, 0.801, 0.36, 0.052]),
    ("FFG-U", [0.601, 0.771, 0.37, 0.083]),
    ("FiD-GP Reparam, 4 layers", [0.624, 0.782, 0.40, 0.075]),
    ("FiD-GP Matheron, 4 layers", [0.628, 0.789, 0.31, 0.074]),
    ("FiD-GP Matheron, all layers", [0.626, 0.792, 0.48, 0.071]),
];

/// The rows of the paper, for runs on CamVid with an FCN; none for others.
pub fn of(config: &RunConfig, pairs: &SegmentationConfig) -> Vec<Published> {
    let camvid = matches!(pairs.layout, Layout::Segnet | Layout::Camvid);
    if !camvid || !matches!(config.network, NetworkConfig::Fcn(_)) {
        return Vec::new();
    }
    let row = |(method, values): &(&str, [f64; 4])| Published {
        method: (*method).to_owned(),
        source: SOURCE.to_owned(),
        metrics: [names::SEG_MIOU, names::SEG_MEAN_ACC, names::SEG_NLL, names::CAL_ECE]
            .into_iter()
            .zip(values)
            .map(|(name, value)| (name.to_owned(), Some(*value)))
            .collect(),
    };
    CAMVID.iter().map(row).collect()
}
