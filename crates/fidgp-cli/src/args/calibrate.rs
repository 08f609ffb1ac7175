//! `fidgp calibrate`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fidgp_decision::Score;
use fidgp_decision::fit::Asked;
use fidgp_lab::calibrate::{From, Recalibrate};
use fidgp_metrics::conformal::SetScore;
use fidgp_metrics::recalibration::MapKind;

use super::Place;

/// Fit decision rules: sets or intervals, abstention, out-of-distribution alarm.
///
/// Sets and intervals contain the truth as often as their level says, for any network, as long as new inputs are like these
/// examples. A part of the examples checks the rules. Classes also get a temperature. The rules are stored in the folder
/// (calibration.json, temperature.json) and are valid for its weights only. predict, serve, monitor, report and export use them.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp calibrate runs/houses\n  fidgp calibrate runs/houses --levels 0.9 --wrong-beyond 50\n  \
    fidgp calibrate models/cifar100-resnet18-fidgp --examples test --sets raps --error 0.1 --data ~/data\n  \
    fidgp calibrate MODEL --examples labelled/"
)]
pub struct Calibrate {
    /// A run folder, or a model folder made by `fidgp export`
    #[arg(value_name = "RUN|MODEL")]
    pub folder: PathBuf,
    /// Examples: `validation`, `test`, a table that contains the target, or a folder with one folder of pictures per class
    #[arg(long, default_value = "validation", value_name = "PART|PATH")]
    pub examples: String,
    /// Levels of the sets or intervals
    #[arg(long, value_delimiter = ',', default_value = "0.9,0.95", value_name = "LEVEL,…")]
    pub levels: Vec<f64>,
    /// Kind of prediction set: lac (smallest), aps (larger for harder inputs), raps (aps without very large sets)
    #[arg(long, value_enum, default_value = "lac")]
    pub sets: Sets,
    /// Guarantee the level for each class, not only on average
    #[arg(long)]
    pub by_class: bool,
    /// Largest allowed share of wrong answers; the model abstains where it is less certain
    #[arg(long, default_value_t = 0.05)]
    pub error: f64,
    /// Answer this share of the inputs, the most certain ones; gives no guarantee on errors
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["error", "confidence"])]
    pub coverage: Option<f64>,
    /// Probability that --error holds, over the random choice of examples
    #[arg(long, default_value_t = 0.95)]
    pub confidence: f64,
    /// Numbers: a prediction is wrong if it is off by more than this; without it the model never abstains
    #[arg(long, value_name = "DISTANCE")]
    pub wrong_beyond: Option<f64>,
    /// Largest share of in-distribution inputs that may be called out of distribution
    #[arg(long, default_value_t = 0.05)]
    pub false_alarms: f64,
    /// Uncertainty that detects out-of-distribution inputs [default: total for classes, epistemic for numbers]
    #[arg(long, value_enum, value_name = "UNCERTAINTY")]
    pub ood_score: Option<OodScore>,
    /// Classes: how probabilities are recalibrated after the temperature (best: what has the lowest NLL on held-back examples)
    #[arg(long, value_enum, default_value = "best", value_name = "MAP")]
    pub recalibrate: Maps,
    /// Known out-of-distribution inputs, a folder of pictures or a table: counts how many the rules detect (repeatable)
    #[arg(long = "ood-inputs", alias = "foreign", value_name = "PATH")]
    pub foreign: Vec<PathBuf>,
    /// Tables: rows without the target, like those to come; the rules are fitted for their distribution (covariate shift)
    #[arg(long, value_name = "FILE")]
    pub target_inputs: Option<PathBuf>,
    /// Share of the examples that checks the rules
    #[arg(long, default_value_t = 0.2)]
    pub held_back: f64,
    /// Seed of the split between fitting and checking
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    pub place: Place,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Sets {
    Lac,
    Aps,
    Raps,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Maps {
    Best,
    None,
    VectorScaling,
    VennAbers,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OodScore {
    Confidence,
    Total,
    Epistemic,
}

impl Calibrate {
    /// What is to be promised.
    pub fn asked(&self) -> Asked {
        let sets = match self.sets {
            Sets::Lac => SetScore::Lac,
            Sets::Aps => SetScore::Aps,
            Sets::Raps => SetScore::Raps { penalty: 0.01, free: 5 }, // the values of its paper
        };
        Asked {
            levels: self.levels.clone(),
            sets,
            by_class: self.by_class,
            risk: self.error,
            confidence: self.confidence,
            coverage: self.coverage,
            wrong_beyond: self.wrong_beyond,
            false_alarms: self.false_alarms,
            held_back: self.held_back,
            seed: self.seed,
            ..Asked::usual(Score::Total)
        }
    }

    /// The uncertainty that was named.
    pub fn score(&self) -> Option<Score> {
        self.ood_score.map(|score| match score {
            OodScore::Confidence => Score::Confidence,
            OodScore::Total => Score::Total,
            OodScore::Epistemic => Score::Epistemic,
        })
    }

    /// The maps of probabilities that are tried.
    pub fn maps(&self) -> Recalibrate {
        match self.recalibrate {
            Maps::Best => Recalibrate::Best,
            Maps::None => Recalibrate::Never,
            Maps::VectorScaling => Recalibrate::Only(MapKind::VectorScaling),
            Maps::VennAbers => Recalibrate::Only(MapKind::VennAbers),
        }
    }

    /// Where the examples are from.
    pub fn from(&self) -> From {
        match self.examples.as_str() {
            "validation" => From::Validation,
            "test" => From::Test,
            path => From::Path(PathBuf::from(path)),
        }
    }
}
