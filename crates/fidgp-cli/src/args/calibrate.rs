//! `fidgp calibrate`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fidgp_decision::Score;
use fidgp_decision::fit::Asked;
use fidgp_lab::calibrate::From;
use fidgp_metrics::conformal::SetScore;

use super::Place;

/// Fit rules for decisions to examples that were not trained on: sets or intervals, when to abstain, what is out of distribution.
///
/// Sets of classes and intervals hold the truth as often as their level says, whatever the network and the data, as long as new
/// inputs are like these examples. A share of the examples is held back to check what is promised. A run that classifies images
/// also gets a temperature, which its logits are divided by from then on. Everything is kept in the folder (calibration.json,
/// temperature.json), belongs to its weights, and is used by predict, serve, monitor and export.
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
    /// The examples: `validation`, `test`, a table with the target in it, or a folder of pictures in folders named after classes
    #[arg(long, default_value = "validation", value_name = "PART|PATH")]
    pub examples: String,
    /// Levels of the sets or intervals
    #[arg(long, value_delimiter = ',', default_value = "0.9,0.95", value_name = "LEVEL,…")]
    pub levels: Vec<f64>,
    /// How sets of classes are built: lac (the smallest), aps (they grow with the difficulty), raps (the same without a long tail)
    #[arg(long, value_enum, default_value = "lac")]
    pub sets: Sets,
    /// Sets that keep their level for every class by itself
    #[arg(long)]
    pub by_class: bool,
    /// Most wrong answers among those that are given; the others are abstained from
    #[arg(long, default_value_t = 0.05)]
    pub error: f64,
    /// Answer this share of the inputs, the surest; then no error rate is promised
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["error", "confidence"])]
    pub coverage: Option<f64>,
    /// The probability that this is kept, over choices of the examples
    #[arg(long, default_value_t = 0.95)]
    pub confidence: f64,
    /// Numbers: a prediction is wrong when it is off by more than this; without it there is no abstaining
    #[arg(long, value_name = "DISTANCE")]
    pub wrong_beyond: Option<f64>,
    /// Most in-distribution inputs that are called out of distribution
    #[arg(long, default_value_t = 0.05)]
    pub false_alarms: f64,
    /// The uncertainty that tells inputs out of distribution [default: total for classes, epistemic for numbers]
    #[arg(long, value_enum, value_name = "UNCERTAINTY")]
    pub ood_score: Option<OodScore>,
    /// Inputs that are known to be foreign, a folder of pictures or a table: how many the rules find is counted
    #[arg(long, value_name = "PATH")]
    pub foreign: Vec<PathBuf>,
    /// Share of the examples that is held back to check what is promised
    #[arg(long, default_value_t = 0.2)]
    pub held_back: f64,
    /// Seed of the division into examples for the rules and for the check
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

    /// Where the examples are from.
    pub fn from(&self) -> From {
        match self.examples.as_str() {
            "validation" => From::Validation,
            "test" => From::Test,
            path => From::Path(PathBuf::from(path)),
        }
    }
}
