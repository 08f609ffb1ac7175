//! Tasks: what a network is asked for, one file each.
//!
//! | file | data | a network gives |
//! |---|---|---|
//! | `regression.rs` | tables, the curve of `curve.rs` | a number |
//! | `uci.rs` | UCI tables: a regression for each split | a number |
//! | `table_classes.rs` | tables | a class |
//! | `classification.rs` | labelled images | a class |
//! | `segmentation.rs` | pictures with masks | a class for every pixel |
//!
//! A task of one's own implements [`Task`] and goes into [`run_task`](super::run_task); to have it in configs, it gets a
//! line in [`open`].

mod classification;
pub(crate) mod curve;
mod image_sets;
mod paper;
mod regression;
mod segmentation;
mod table_classes;
mod uci;

pub use classification::Classification;
pub(super) use classification::spreads_of;
pub(crate) use curve::draw;
pub use image_sets::{Set, Sets, SplitRole, part};
pub use regression::Regression;
pub use segmentation::Segmentation;
pub use table_classes::TableClasses;
pub use uci::Uci;

use std::path::Path;

use crate::config::{DataConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::evaluate::Spread;
use crate::model::{Model, Signature};
use crate::predict::Trained;
use crate::record::{Examples, Figure, MetricNotes, Metrics, Published};
use crate::run_folder::TrainedOn;
use crate::source::Source;

/// The data of a run, read: what a network for them is like, what it is trained on, how it is measured and shown.
pub trait Task {
    /// The config, with what the data say of themselves.
    fn config(&self) -> &RunConfig;

    /// What a network for it takes and gives.
    ///
    /// # Errors
    /// When the data do not allow one.
    fn signature(&self) -> Result<Signature>;

    /// The names of the classes; none where numbers are predicted.
    fn classes(&self) -> &[String] {
        &[]
    }

    /// What a run remembers of its training examples; none where they follow from the config.
    fn trained_on(&self) -> Option<TrainedOn> {
        None
    }

    /// The training examples as a model sees them.
    ///
    /// # Errors
    /// When they do not fit the model, or are not there.
    fn examples<'a>(&'a self, model: &Model, role: SplitRole) -> Result<Box<dyn Source + 'a>>;

    /// How a model is measured on examples that were held out; none where there are none.
    ///
    /// # Errors
    /// When they do not fit the model.
    fn measure<'a>(&'a self, part: HeldOut, model: &Model) -> Result<Option<Measure<'a>>>;

    /// Uncertainty on examples that were held out, and on the same scrambled; none where a task cannot tell.
    ///
    /// # Errors
    /// When they do not fit the model.
    fn spreads(&self, model: &Model, draws: u64) -> Result<Option<Spreads>> {
        let _ = (model, draws);
        Ok(None)
    }

    /// The metric that epochs are chosen by: the lower, the better.
    fn chosen_by(&self) -> &'static str;

    /// SHA-256 of the test examples; none where they follow from the config.
    fn test_sha256(&self) -> Option<String> {
        None
    }

    /// Writes into a run folder what those need who use the network without the data.
    ///
    /// # Errors
    /// When the disk fails.
    fn keep(&self, run: &Path) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// What will be measured, in words, where that takes a while.
    fn announces(&self) -> Option<String> {
        None
    }

    /// What others report of the same.
    fn published(&self) -> Vec<Published> {
        Vec::new()
    }
}

/// Data that are divided into training and test data several times: a task for each division, trained and measured by itself.
pub trait Divided: Sync {
    /// The config of the whole run.
    fn config(&self) -> &RunConfig;

    /// What a network for any of the tasks takes and gives.
    fn signature(&self) -> Signature;

    /// How many divisions there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The task of one division.
    ///
    /// # Errors
    /// When there is no such division, or it leaves too few examples.
    fn task(&self, split: usize) -> Result<Box<dyn Task>>;

    /// The metric that is shown while divisions are trained, and that epochs are chosen by.
    fn chosen_by(&self) -> &'static str;

    /// What must be said with the metrics.
    fn notes(&self) -> MetricNotes {
        MetricNotes::new()
    }

    /// What others report of the same.
    fn published(&self) -> Vec<Published> {
        Vec::new()
    }
}

/// Examples that no network is trained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldOut {
    /// For choosing.
    Validation,
    /// For reporting.
    Test,
}

/// Uncertainty on held-out inputs, and on the same inputs scrambled.
#[derive(Clone, Debug, PartialEq)]
pub struct Spreads {
    /// Which inputs.
    pub part: HeldOut,
    /// As they are.
    pub own: Spread,
    /// Scrambled; none where that changes nothing.
    pub scrambled: Option<Spread>,
}

/// What is wanted of a measurement.
#[derive(Clone, Copy, Debug)]
pub enum Want<'a> {
    /// Metrics alone, as after an epoch.
    Metrics,
    /// Everything there is; pictures go into this run folder, if one is given.
    Everything(Option<&'a Path>),
}

/// Measures a model with so many draws.
pub type Measure<'a> = Box<dyn Fn(&Model, u64, Want) -> Result<Measured> + 'a>;

/// What came of a measurement.
#[derive(Debug, Default)]
pub struct Measured {
    /// Metric values.
    pub metrics: Metrics,
    /// What must be said with them.
    pub notes: MetricNotes,
    /// What each example contributed, where that is kept.
    pub examples: Option<Examples>,
    /// The data of the figure, where there is one.
    pub figure: Option<Figure>,
    /// Seconds that it took for more than predicting and measuring.
    pub aside: f64,
}

/// Reads the data of a config.
///
/// # Errors
/// When a file is missing or broken, or the data do not allow what the config asks for.
pub fn open(config: &RunConfig, root: &Path) -> Result<Box<dyn Task>> {
    Ok(match &config.data {
        DataConfig::Synthetic1d { .. } => Box::new(Regression::of_curve(config)?),
        DataConfig::Table(table) if config.predicts_classes() => Box::new(TableClasses::read(config, table, root)?),
        DataConfig::Table(table) => Box::new(Regression::of_table(config, table, root)?),
        DataConfig::Images { .. } | DataConfig::Arrays(_) | DataConfig::Folder(_) => {
            Box::new(Classification::read(config, root)?)
        }
        DataConfig::Segmentation(pairs) => Box::new(Segmentation::read(config, pairs, root)?),
        DataConfig::Uci { .. } => {
            return Err(LabError::config(
                "data.set",
                "= \"uci\" keeps no weights of its splits; their metrics are in results.json",
            ));
        }
    })
}

/// Reads the data of a config where they are divided several times.
///
/// # Errors
/// When a file is missing or broken.
pub fn open_divided(config: &RunConfig, root: &Path) -> Result<Option<Box<dyn Divided>>> {
    Ok(match &config.data {
        DataConfig::Uci { .. } => Some(Box::new(Uci::read(config, root)?)),
        _ => None,
    })
}

/// Reads the data that a trained model is measured on.
///
/// # Errors
/// As [`open`].
pub fn reopen(predictor: &Trained, root: &Path) -> Result<Box<dyn Task>> {
    Ok(match &predictor.config.data {
        DataConfig::Table(table) if predictor.config.predicts_classes() => {
            Box::new(TableClasses::of_model(predictor, table, root)?)
        }
        DataConfig::Table(table) => Box::new(Regression::of_model(predictor, table, root)?),
        data if data.has_classes() => Box::new(Classification::of_model(predictor, root)?),
        _ => return open(&predictor.config, root),
    })
}
