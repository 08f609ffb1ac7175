//! Examples that a model was not trained on, and what it says of them.

use std::path::{Path, PathBuf};

use fidgp::predict::Effort;
use fidgp_data::{ImageFolder, Part, Table};
use fidgp_decision::fit::Named;
use fidgp_decision::{ClassEvidence, NumberEvidence};

use super::{Progress, Request};
use crate::config::{DataConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::experiment::norms;
use crate::experiment::task::{Set, Sets, SplitRole, draw, part};
use crate::predict::{Predictor, files};
use crate::run_folder::norms::are_missing;
use crate::run_folder::{TrainedOn, same_classes, same_examples};
use crate::source::ImageSet;

/// Pictures, or rows, between two words on how far it is.
const STEP: usize = 64;

/// Where examples are from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// The validation part of the data that the model was trained on.
    Validation,
    /// Its test part.
    Test,
    /// A table with the target in it, or a folder of pictures in folders named after their classes.
    Path(PathBuf),
}

impl From {
    /// In words.
    pub fn words(&self, config: &RunConfig) -> String {
        match self {
            Self::Validation => format!("the validation part of {}", config.data.name()),
            Self::Test => format!("the test part of {}", config.data.name()),
            Self::Path(path) => path.display().to_string(),
        }
    }
}

/// Examples and what a model says of them.
#[derive(Debug)]
pub struct Gathered {
    /// Where they are from, in words.
    pub source: String,
    /// What was said, and what is true.
    pub said: Said,
    /// Classes and columns.
    pub named: Named,
    /// What must be said with rules that are fitted to them.
    pub notes: Vec<String>,
}

/// What was said, and what is true.
#[derive(Debug)]
pub enum Said {
    /// Of classes.
    Classes {
        /// Predictions.
        said: Vec<ClassEvidence>,
        /// The true classes.
        labels: Vec<usize>,
    },
    /// Of numbers.
    Numbers {
        /// Predictions.
        said: Vec<NumberEvidence>,
        /// The true numbers.
        targets: Vec<f64>,
    },
}

impl Said {
    /// How many examples there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Classes { labels, .. } => labels.len(),
            Self::Numbers { targets, .. } => targets.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The examples that were asked for.
pub(super) fn gather(predictor: &mut Predictor, request: &Request, progress: Progress) -> Result<Gathered> {
    let config = predictor.trained().config.clone();
    let found = match (&config.data, &request.from) {
        (DataConfig::Segmentation(_), _) => {
            let why = "is a segmentation: rules for decisions are for classes of pictures and for numbers";
            return Err(LabError::config("data.set", why));
        }
        (data, From::Path(path)) if data.has_classes() => folder(predictor, path, progress)?,
        (data, _) if data.has_classes() => {
            let set = images(predictor, &config, request)?;
            pictures(predictor, &set, progress)?
        }
        (_, From::Path(path)) => {
            let (rows, targets) = own_rows(predictor, path)?;
            numbers(predictor, &rows, targets, progress)?
        }
        _ => {
            let table = table(&config, request)?;
            numbers(predictor, table.features(), table.targets().to_vec(), progress)?
        }
    };
    Ok(Gathered { source: request.from.words(&config), ..found })
}

/// Labelled pictures of the model's own data.
fn images(predictor: &mut Predictor, config: &RunConfig, request: &Request) -> Result<Set> {
    if are_missing(config, &predictor.trained().model) {
        let sets = Sets::read(config, &request.data)?;
        estimate_norms(predictor, config, &sets)?;
    }
    if request.from == From::Test {
        let set = part(config, &request.data, Part::Test)?;
        same_classes(&request.folder, set.classes())?;
        return Ok(set);
    }
    let sets = Sets::read(config, &request.data)?;
    same_classes(&request.folder, sets.train.classes())?;
    same_examples(&request.folder, &sets.train.trained_on())?;
    sets.validation.ok_or_else(no_validation)
}

/// A predictor's draws need statistics of their own, which a run may not have kept.
fn estimate_norms(predictor: &mut Predictor, config: &RunConfig, sets: &Sets) -> Result<()> {
    let device = predictor.trained().model.store.device();
    predictor.changed(|trained| {
        let train = sets.train.source(config, &trained.model, SplitRole::Measuring, device)?;
        norms::estimate(config, &mut trained.model, train.as_ref())
    })
}

fn no_validation() -> LabError {
    let why = "leaves no validation examples, and rules are never fitted to those of training: name others with --examples \
               FILE|FOLDER, or --examples test for the test part";
    LabError::config("data.validation_fraction", why)
}

/// What the model says of labelled pictures.
pub(super) fn pictures(predictor: &mut Predictor, set: &Set, progress: Progress) -> Result<Gathered> {
    let trained = predictor.trained();
    let (classes, config) = (trained.classes.clone(), trained.config.clone());
    if set.classes().len() != classes.len() {
        let why = format!("has {} classes, the network tells {} apart", set.classes().len(), classes.len());
        return Err(LabError::config("data", why));
    }
    let source = set.source(&config, &trained.model, SplitRole::Measuring, trained.model.store.device())?;
    let said = said_of(predictor, source.as_ref(), progress)?;
    let labels = set.labels().iter().map(|&label| label as usize).collect();
    let named = Named { classes, ..Named::default() };
    Ok(Gathered { source: String::new(), said: Said::Classes { said, labels }, named, notes: Vec::new() })
}

fn said_of(predictor: &mut Predictor, source: &dyn ImageSet, progress: Progress) -> Result<Vec<ClassEvidence>> {
    let (mut said, all, mut number) = (Vec::new(), source.len(), 0);
    for chunk in source.chunks(STEP) {
        for batch in &chunk?.0 {
            let found = predictor.classify_inputs(batch, number, Effort::default())?;
            said.extend(found.iter().map(crate::predict::ClassPrediction::evidence));
            number += 1;
            progress(said.len(), all);
        }
    }
    Ok(said)
}

/// Pictures of the user's, in folders named after classes of the model.
fn folder(predictor: &mut Predictor, path: &Path, progress: Progress) -> Result<Gathered> {
    let folder = ImageFolder::open(path)?;
    let classes = predictor.trained().classes.clone();
    let place = |name: &String| {
        let why = || format!("holds a folder `{name}`, which is no class of the model");
        classes
            .iter()
            .position(|class| class == name)
            .ok_or_else(|| LabError::File { path: path.to_owned(), why: why() })
    };
    let places = folder.class_names().iter().map(place).collect::<Result<Vec<_>>>()?;
    let labels: Vec<usize> = folder.labels().iter().map(|&label| places[label as usize]).collect();
    let files = folder.files();
    let mut said = Vec::new();
    for part in files.chunks(STEP) {
        for (_, found) in files::classify(predictor, part, Effort::default())? {
            said.push(found?.evidence());
        }
        progress(said.len(), files.len());
    }
    let named = Named { classes, ..Named::default() };
    Ok(Gathered { source: String::new(), said: Said::Classes { said, labels }, named, notes: Vec::new() })
}

/// The rows of a table of the user's, with the target among its columns.
fn own_rows(predictor: &Predictor, path: &Path) -> Result<(Vec<f64>, Vec<f64>)> {
    match &predictor.trained().table {
        Some(view) => Ok((view.rows(path)?, view.targets(path)?)),
        None => Err(LabError::config("--examples", "is for models of tables of one's own, whose columns have names")),
    }
}

/// Rows of the model's own data.
fn table(config: &RunConfig, request: &Request) -> Result<Table> {
    let missing = || no_validation();
    match &config.data {
        DataConfig::Synthetic1d { .. } => {
            let (points, validated) = draw(config)?;
            match request.from {
                From::Test => Ok(points.test),
                _ if validated => Ok(points.validation),
                _ => Err(missing()),
            }
        }
        DataConfig::Table(table) => {
            let parts = table.read(&request.data)?;
            let trained_on = TrainedOn { examples: parts.train.rows(), sha256: parts.train.fingerprint() };
            same_examples(&request.folder, &trained_on)?;
            if request.from == From::Test { Ok(parts.test) } else { parts.validation.ok_or_else(missing) }
        }
        _ => Err(LabError::config("data.set", "has no rows that rules could be fitted to")),
    }
}

/// What the model says of rows.
fn numbers(predictor: &mut Predictor, rows: &[f64], targets: Vec<f64>, progress: Progress) -> Result<Gathered> {
    let width = (rows.len() / targets.len().max(1)).max(1);
    let mut said: Vec<NumberEvidence> = Vec::new();
    for part in rows.chunks(width * STEP * STEP) {
        let found = predictor.regress(part, Effort::default())?;
        said.extend(found.iter().map(|one| one.evidence(predictor.trained().table.as_ref())));
        progress(said.len(), targets.len());
    }
    let names = predictor.trained().feature_names()?;
    let columns = (0..width).map(|column| rows.iter().skip(column).step_by(width).copied().collect()).collect();
    let features = names.into_iter().map(|name| fidgp_decision::calibration::Feature { name, levels: Vec::new() });
    let named = Named { features: features.collect(), columns, ..Named::default() };
    Ok(Gathered { source: String::new(), said: Said::Numbers { said, targets }, named, notes: Vec::new() })
}
