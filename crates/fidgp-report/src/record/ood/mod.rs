//! The content of `ood.json`: what was compared, what was checked first, and what came of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use fidgp_metrics::{Interval, OodScores};
use serde::Serialize;

use super::store::write_json;
use super::{Hardware, Result};

mod control;
mod measured;
mod protocol;
mod recipe;
mod spectral;
mod timing;

pub use control::Control;
pub use measured::{MeasuredMetrics, MeasuredOod, MeasuredScore, MeasuredSet};
pub use protocol::PaperProtocol;
pub use recipe::{Base, Join, Layers, Pool, Recipe};
pub use spectral::{LayerSpectrum, Residuals, SetSpectrum, Spectral};
pub use timing::Timing;

/// The version of the layout.
pub const OOD_SCHEMA: &str = "fidgp-ood/1";

/// The scores of a set's images, by name: high means out of distribution.
pub type Columns = BTreeMap<String, Vec<f64>>;

/// One benchmark.
#[derive(Debug, Serialize)]
pub struct OodDocument {
    /// Version of this layout.
    pub schema: &'static str,
    /// The model.
    pub model: String,
    /// SHA-256 of its weights and buffers, however they are stored; none for arrays.
    pub weights_sha256: Option<String>,
    /// What its logits were divided by; none where `fidgp calibrate` fitted nothing.
    pub temperature: Option<f64>,
    /// Its method.
    pub method: String,
    /// The ID set.
    pub id: String,
    /// ID images in the table.
    pub id_images: usize,
    /// ID training images that statistics were fitted on.
    pub fit_images: usize,
    /// How many were asked for.
    pub fit: usize,
    /// Whether scores that need a backward pass were left out.
    pub forward_only: bool,
    /// Most images that were taken of a set; none where all were.
    pub limit: Option<usize>,
    /// Accuracy on the ID images at the one U; none without labels.
    pub accuracy: Option<f64>,
    /// Which U: `mean`, or the number of a draw.
    pub u: String,
    /// Draws of the mutual information; 0 for none.
    pub draws: u64,
    /// Seed of subsets, of the split into halves, and of the bootstrap.
    pub seed: u64,
    /// Commit of the code.
    pub commit: String,
    /// What it ran on.
    pub hardware: Hardware,
    /// The command.
    pub command: Option<String>,
    /// Whether failed controls were passed over.
    pub controls_skipped: bool,
    /// The controls.
    pub controls: Vec<Control>,
    /// The OoD sets.
    pub sets: Vec<OodSetRecord>,
    /// The scores, in the order of the table.
    pub scores: Vec<OodScoreRecord>,
    /// What was chosen, and on what; none where nothing was.
    pub chosen: Option<Chosen>,
    /// Scores that the model does not have or that could not be fitted, and why.
    pub left_out: Vec<String>,
    /// The paper's lemma, measured layer by layer; none without Bayesian layers.
    pub spectral: Option<Spectral>,
    /// What our scores cost beside a forward pass; none without Bayesian layers.
    pub cost: Option<Timing>,
    /// The released script's procedure with its null control, where it was asked for.
    pub paper_protocol: Option<PaperProtocol>,
    /// Seconds for scoring all sets.
    pub seconds: f64,
}

/// One OoD set.
#[derive(Debug, Clone, Serialize)]
pub struct OodSetRecord {
    /// Its name.
    pub name: String,
    /// `nearood` or `farood`.
    pub group: Group,
    /// Images scored.
    pub images: usize,
    /// Size and colour before the resize.
    pub native: String,
    /// Of its images, how many stand among the ID training images, pixel by pixel.
    pub duplicates: usize,
    /// AUROC of the mean pixel alone, the better direction.
    pub pixel_mean_auroc: f64,
    /// AUROC of the deviation of the pixels alone, the better direction.
    pub pixel_sd_auroc: f64,
    /// Why the set can be told apart without any network; empty where it cannot.
    pub trivial: Vec<String>,
}

/// How far a set is from the ID set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Shares its kind of images with the ID set.
    NearOod,
    /// Everything else.
    FarOod,
}

impl Group {
    /// `nearood` or `farood`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NearOod => "nearood",
            Self::FarOod => "farood",
        }
    }
}

/// One score.
#[derive(Debug, Serialize)]
pub struct OodScoreRecord {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Its metrics by set.
    pub sets: BTreeMap<String, OodMetrics>,
    /// Mean AUROC of the near sets; none without any.
    pub nearood: Option<f64>,
    /// Mean AUROC of the far sets; none without any.
    pub farood: Option<f64>,
}

/// Metrics of one score on one set. OoD is high.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(non_snake_case, reason = "the names of OpenOOD's columns")]
pub struct OodMetrics {
    /// Area under the ROC curve, ties ½.
    pub AUROC: f64,
    /// Its bootstrap interval.
    pub interval: Interval,
    /// Average precision, ID positive.
    pub AUPR_IN: f64,
    /// Average precision, OoD positive.
    pub AUPR_OUT: f64,
    /// ID images flagged when 95 % of the OoD images are caught (OpenOOD).
    pub FPR95_OOD_CAUGHT: f64,
    /// OoD images that pass when 95 % of the ID images are kept (most papers).
    pub FPR95_ID_KEPT: f64,
}

impl OodMetrics {
    /// All of them, with an interval from 500 seeded resamples.
    ///
    /// # Errors
    /// When a set is empty or a score is NaN.
    pub fn of(id: &[f64], ood: &[f64], seed: u64) -> fidgp_metrics::Result<Self> {
        let scores = OodScores::new(id, ood)?;
        let bootstrap = fidgp_metrics::Bootstrap { resamples: 500, level: 0.95, seed };
        Ok(Self {
            AUROC: scores.auroc(),
            interval: scores.bootstrap(&bootstrap, OodScores::auroc)?,
            AUPR_IN: scores.aupr_in(),
            AUPR_OUT: scores.aupr_out(),
            FPR95_OOD_CAUGHT: scores.fpr95_ood_caught(),
            FPR95_ID_KEPT: scores.fpr95_id_kept(),
        })
    }
}

impl OodMetrics {
    /// OpenOOD's columns: FPR@95 in both conventions, AUROC, AUPR with ID positive, AUPR with OoD positive.
    pub fn columns(&self) -> [f64; 5] {
        [self.FPR95_OOD_CAUGHT, self.FPR95_ID_KEPT, self.AUROC, self.AUPR_IN, self.AUPR_OUT]
    }
}

impl OodScoreRecord {
    /// The means of OpenOOD's columns over a group's sets; none without any.
    pub fn group(&self, sets: &[OodSetRecord], group: Group) -> Option<[f64; 5]> {
        let own = sets.iter().filter(|set| set.group == group).filter_map(|set| self.sets.get(&set.name));
        let own: Vec<[f64; 5]> = own.map(OodMetrics::columns).collect();
        (!own.is_empty()).then(|| std::array::from_fn(|i| own.iter().map(|c| c[i]).sum::<f64>() / own.len() as f64))
    }
}

/// What was chosen.
#[derive(Debug, Serialize)]
pub struct Chosen {
    /// The sets it was chosen on; none of them is in the table.
    pub on: Vec<String>,
    /// ID images it was chosen with; none of them is in the table.
    pub id_images: usize,
    /// The recipe.
    pub recipe: Recipe,
    /// In words.
    pub says: String,
    /// Mean AUROC on the sets it was chosen on: the largest of all recipes, so too good.
    pub auroc: f64,
    /// How many recipes there were.
    pub candidates: usize,
}

impl OodDocument {
    /// Writes it as JSON, whole or not at all.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_json(path, self)
    }

    /// OpenOOD's table as CSV: a row for each score and set, then `nearood` and `farood`.
    pub fn csv(&self) -> String {
        let accuracy = self.accuracy.map_or(String::new(), |value| format!("{:.2}", 100.0 * value));
        let percent = |value: f64| format!("{:.2}", 100.0 * value);
        let mut text =
            "score,set,FPR@95 (OoD caught),FPR@95 (ID kept),AUROC,AUROC lo,AUROC hi,AUPR_IN,AUPR_OUT,ACC\n".to_owned();
        for score in &self.scores {
            for set in &self.sets {
                let Some(m) = score.sets.get(&set.name) else { continue };
                let [caught, kept, auroc, of_id, of_ood] = m.columns();
                let numbers = [caught, kept, auroc, m.interval.lo, m.interval.hi, of_id, of_ood];
                let numbers = numbers.map(percent);
                let _ = writeln!(text, "{},{},{},{accuracy}", score.name, set.name, numbers.join(","));
            }
            for group in [Group::NearOod, Group::FarOod] {
                if let Some(means) = score.group(&self.sets, group) {
                    let [caught, kept, auroc, of_id, of_ood] = means.map(percent);
                    let name = group.name();
                    let _ =
                        writeln!(text, "{},{name},{caught},{kept},{auroc},,,{of_id},{of_ood},{accuracy}", score.name);
                }
            }
        }
        text
    }
}
