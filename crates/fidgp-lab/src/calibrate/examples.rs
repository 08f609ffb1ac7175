//! Examples that a model was not trained on, and what it says of them.

use std::path::{Path, PathBuf};

use fidgp::predict::Effort;
use fidgp_data::{ImageFolder, Part, Table};
use fidgp_decision::calibration::Feature;
use fidgp_decision::evidence::Outside;
use fidgp_decision::fit::Named;
use fidgp_decision::{ClassEvidence, NumberEvidence};
use tch::Tensor;

use super::{Progress, Request};
use crate::config::{DataConfig, Known, RunConfig, Select};
use crate::error::{LabError, Result};
use crate::experiment::norms;
use crate::experiment::task::{Set, Sets, SplitRole, draw, part};
use crate::model::OwnPart;
use crate::predict::{ClassPrediction, Predictor, Trained, files, row_batches};
use crate::run_folder::norms::are_missing;
use crate::run_folder::{TrainedOn, same_classes, same_examples};
use crate::source::{Chunks, GivenRows, ImageSet};

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
pub struct Gathered {
    /// Where they are from, in words.
    pub source: String,
    /// What was said, and what is true.
    pub said: Said,
    /// Classes and columns.
    pub named: Named,
    /// What must be said with rules that are fitted to them.
    pub notes: Vec<String>,
    /// The inputs themselves.
    pub inputs: Inputs,
}

/// The inputs of examples, for showing some of them.
pub enum Inputs {
    /// Pictures of a data set.
    Set(Set),
    /// Files of the user's.
    Files(Vec<PathBuf>),
    /// Rows of a table.
    Rows(GivenRows),
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

/// Labelled examples, before the model is asked.
pub(super) enum Collected {
    /// Pictures of a data set.
    Set(Set),
    /// Files of the user's, with their classes.
    Files(Vec<PathBuf>, Vec<usize>),
    /// Rows of a table, with their numbers or classes.
    Rows(GivenRows, Vec<f64>),
}

impl Collected {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Set(set) => set.rows(),
            Self::Files(_, labels) => labels.len(),
            Self::Rows(_, targets) => targets.len(),
        }
    }

    /// What tells them from others.
    pub fn words(&self) -> String {
        match self {
            Self::Set(set) => format!("{:?} {:?}", set.classes(), set.labels()),
            Self::Files(files, labels) => format!("{files:?} {labels:?}"),
            Self::Rows(given, targets) => format!("{:?} {targets:?}", given.inputs),
        }
    }

    /// Some of them.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        Ok(match self {
            Self::Set(set) => Self::Set(set.select(rows)?),
            Self::Files(files, labels) => Self::Files(
                rows.iter().map(|&row| files[row].clone()).collect(),
                rows.iter().map(|&row| labels[row]).collect(),
            ),
            Self::Rows(given, targets) => {
                Self::Rows(given.select(rows), rows.iter().map(|&row| targets[row]).collect())
            }
        })
    }

    /// Hands out this process's part of them as the network takes them, with their labels; of a table all.
    pub fn as_inputs<T>(&self, trained: &Trained, take: &mut dyn FnMut(Chunks, &OwnPart) -> Result<T>) -> Result<T> {
        let (config, model) = (&trained.config, &trained.model);
        let labels = |labels: &[usize]| Tensor::from_slice(&labels.iter().map(|&one| one as i64).collect::<Vec<_>>());
        match self {
            Self::Set(set) => {
                let source = set.source(config, model, SplitRole::Measuring, model.store.device())?;
                let (size, all) = (config.predict.batch_size, source.len());
                let part = model.parts.part(all.div_ceil(size));
                take(source.some_chunks(size, part.own.clone()), &part)
            }
            Self::Files(paths, classes) => {
                let part = model.parts.part(paths.len().div_ceil(STEP));
                let rows = part.rows(STEP, paths.len());
                let parts = paths[rows.clone()].chunks(STEP).zip(classes[rows].chunks(STEP));
                let inputs = parts
                    .map(|(paths, classes)| Ok::<_, LabError>((vec![files::inputs(trained, paths)?], labels(classes))));
                take(Box::new(inputs), &part)
            }
            Self::Rows(given, targets) => {
                let view = trained.table.as_ref();
                let view = view.ok_or_else(|| LabError::config("data.set", "has no rows of classes"))?;
                let batches = row_batches(trained, view, ("the examples", &given.inputs))?;
                let classes: Vec<usize> = targets.iter().map(|&target| target as usize).collect();
                take(Box::new(std::iter::once(Ok((batches, labels(&classes))))), &OwnPart::default())
            }
        }
    }
}

/// The examples that were asked for.
pub(super) fn collect(predictor: &mut Predictor, request: &Request) -> Result<Collected> {
    let config = predictor.trained().config.clone();
    Ok(match (&config.data, &request.from) {
        (data, From::Path(path)) if data.has_classes() => folder(predictor, path)?,
        (data, _) if data.has_classes() => {
            let set = images(predictor, &config, request)?;
            let (classes, own) = (set.classes().len(), predictor.trained().classes.len());
            if classes != own {
                let why = format!("has {classes} classes, the network tells {own} apart");
                return Err(LabError::config("data", why));
            }
            Collected::Set(set)
        }
        (_, From::Path(path)) => {
            let (given, targets) = own_rows(predictor, path)?;
            Collected::Rows(given, targets)
        }
        _ => {
            let (given, targets) = table(predictor, request)?;
            Collected::Rows(given, targets)
        }
    })
}

/// What the model says of them.
pub(super) fn gather(
    predictor: &mut Predictor,
    collected: Collected,
    request: &Request,
    progress: Progress,
) -> Result<Gathered> {
    let mut found = match collected {
        Collected::Set(set) => pictures(predictor, set, progress)?,
        Collected::Files(paths, labels) => {
            let said = said_of_files(predictor, &paths, progress)?;
            let named = Named { classes: predictor.trained().classes.clone(), ..Named::default() };
            let (said, inputs) = (Said::Classes { said, labels }, Inputs::Files(paths));
            Gathered { source: String::new(), said, named, notes: Vec::new(), inputs }
        }
        Collected::Rows(given, targets) => rows(predictor, given, targets, progress)?,
    };
    let config = &predictor.trained().config;
    found.notes.extend(chosen_by(config, &request.from));
    Ok(Gathered { source: request.from.words(config), ..found })
}

/// What must be said of examples by which the epoch was chosen.
fn chosen_by(config: &RunConfig, from: &From) -> Option<String> {
    let why = "the epoch was chosen by these examples (train.select = \"best\"): the guarantees hold only approximately; for exact ones name \
               others with --examples";
    (*from == From::Validation && config.train.select == Select::Best).then(|| why.to_owned())
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
fn pictures(predictor: &mut Predictor, set: Set, progress: Progress) -> Result<Gathered> {
    let trained = predictor.trained();
    let (classes, config) = (trained.classes.clone(), trained.config.clone());
    let source = set.source(&config, &trained.model, SplitRole::Measuring, trained.model.store.device())?;
    let said = said_of(predictor, source.as_ref(), progress)?;
    let labels = set.labels().iter().map(|&label| label as usize).collect();
    let named = Named { classes, ..Named::default() };
    let (said, inputs) = (Said::Classes { said, labels }, Inputs::Set(set));
    Ok(Gathered { source: String::new(), said, named, notes: Vec::new(), inputs })
}

fn said_of(predictor: &mut Predictor, source: &dyn ImageSet, progress: Progress) -> Result<Vec<ClassEvidence>> {
    let part = predictor.trained().model.parts.part(source.len().div_ceil(STEP));
    let (mut said, own, mut number) = (Vec::new(), part.rows(STEP, source.len()).len(), part.own.start as u64);
    for chunk in source.some_chunks(STEP, part.own.clone()) {
        for batch in &chunk?.0 {
            let found = predictor.classify_inputs(batch, number, Effort::default())?;
            said.extend(found.iter().map(ClassPrediction::evidence));
            number += 1;
            progress(said.len(), own);
        }
    }
    classes_of_all(said, &part)
}

/// What all processes say, in the order of the examples.
fn classes_of_all(own: Vec<ClassEvidence>, part: &OwnPart) -> Result<Vec<ClassEvidence>> {
    let row = |one: ClassEvidence| [vec![one.total, one.aleatoric, one.epistemic], one.probabilities].concat();
    let all = part.numbers(own.into_iter().map(row).collect(), "predictions")?;
    let evidence = |row: Vec<f64>| ClassEvidence {
        probabilities: row[3..].to_vec(),
        total: row[0],
        aleatoric: row[1],
        epistemic: row[2],
        outside: Outside::default(),
    };
    Ok(all.into_iter().map(evidence).collect())
}

/// Pictures of the user's, in folders named after classes of the model.
fn folder(predictor: &Predictor, path: &Path) -> Result<Collected> {
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
    Ok(Collected::Files(folder.files().to_vec(), labels))
}

/// What the model says of picture files.
pub(super) fn said_of_files(
    predictor: &mut Predictor,
    files: &[PathBuf],
    progress: Progress,
) -> Result<Vec<ClassEvidence>> {
    let part = predictor.trained().model.parts.part(files.len().div_ceil(STEP));
    let (mut said, own) = (Vec::new(), &files[part.rows(STEP, files.len())]);
    for some in own.chunks(STEP) {
        for (_, found) in files::classify(predictor, some, Effort::default())? {
            said.push(found?.evidence());
        }
        progress(said.len(), own.len());
    }
    classes_of_all(said, &part)
}

/// The rows of a table of the user's, with the target among its columns.
fn own_rows(predictor: &Predictor, path: &Path) -> Result<(GivenRows, Vec<f64>)> {
    match &predictor.trained().table {
        Some(view) => Ok((view.rows(path)?, view.targets(path, &predictor.trained().classes)?)),
        None => Err(LabError::config("--examples", "is for models of tables of one's own, whose columns have names")),
    }
}

/// Rows of the model's own data.
fn table(predictor: &Predictor, request: &Request) -> Result<(GivenRows, Vec<f64>)> {
    let trained = predictor.trained();
    let config = &trained.config;
    let numbers = |table: &Table| -> Result<GivenRows> {
        Ok(GivenRows::of_numbers(table.features().to_vec(), trained.feature_names()?))
    };
    let missing = || no_validation();
    match &config.data {
        DataConfig::Synthetic1d { .. } => {
            let (points, validated) = draw(config)?;
            let table = match request.from {
                From::Test => points.test,
                _ if validated => points.validation,
                _ => return Err(missing()),
            };
            Ok((numbers(&table)?, table.targets().to_vec()))
        }
        DataConfig::Table(table) => {
            let known = trained.table.as_ref().map(|view| Known { encoding: &view.columns, classes: &trained.classes });
            let parts = table.read(&request.data, config.target_kind(), known)?;
            let trained_on = TrainedOn { examples: parts.train.rows(), sha256: parts.train.fingerprint() };
            same_examples(&request.folder, &trained_on)?;
            let [validation, test] = parts.given.map_or([None, None], |given| given.map(Some));
            let (table, given) = if request.from == From::Test {
                (parts.test, test)
            } else {
                (parts.validation.ok_or_else(missing)?, validation)
            };
            let given = match given.filter(|_| !parts.encoding.is_empty()) {
                Some(given) => GivenRows::of_encoded(given, parts.encoding.names()),
                None => numbers(&table)?,
            };
            Ok((given, table.targets().to_vec()))
        }
        _ => Err(LabError::config("data.set", "has no rows that rules could be fitted to")),
    }
}

/// What the model says of rows.
fn rows(predictor: &mut Predictor, given: GivenRows, targets: Vec<f64>, progress: Progress) -> Result<Gathered> {
    let width = (given.inputs.len() / targets.len().max(1)).max(1);
    let said = match said_of_rows(predictor, (&given.inputs, width), progress)? {
        RowsSaid::Numbers(said) => Said::Numbers { said, targets },
        RowsSaid::Classes(said) => {
            Said::Classes { said, labels: targets.into_iter().map(|label| label as usize).collect() }
        }
    };
    let trained = predictor.trained();
    let (features, columns) = if let Some(view) = &trained.table {
        view.kept_columns(&given)
    } else {
        let columns = (0..width).map(|column| given.inputs.iter().skip(column).step_by(width).copied().collect());
        let feature = |name: &String| Feature { name: name.clone(), levels: Vec::new() };
        (given.names.iter().map(feature).collect(), columns.collect())
    };
    let logarithm = trained.table.as_ref().is_some_and(|view| view.scale.target_log);
    let named = Named { classes: trained.classes.clone(), features, columns, logarithm };
    Ok(Gathered { source: String::new(), said, named, notes: Vec::new(), inputs: Inputs::Rows(given) })
}

/// What the model says of rows.
pub(super) enum RowsSaid {
    /// Classes.
    Classes(Vec<ClassEvidence>),
    /// Numbers.
    Numbers(Vec<NumberEvidence>),
}

/// What the model says of rows of so many inputs.
pub(super) fn said_of_rows(
    predictor: &mut Predictor,
    (inputs, width): (&[f64], usize),
    progress: Progress,
) -> Result<RowsSaid> {
    let (total, step) = (inputs.len() / width, STEP * STEP);
    let part = predictor.trained().model.parts.part(total.div_ceil(step));
    let own = part.rows(step, total);
    let (mut classified, mut regressed, count) = (Vec::new(), Vec::new(), own.len());
    let numbers = predictor.trained().classes.is_empty();
    for some in inputs[own.start * width..own.end * width].chunks(width * step) {
        if numbers {
            let found = predictor.regress(some, Effort::default())?;
            regressed.extend(found.iter().map(|one| vec![one.mean, one.sd, one.epistemic_sd]));
        } else {
            let found = predictor.classify_rows(some, Effort::default())?;
            classified.extend(found.iter().map(ClassPrediction::evidence));
        }
        progress(classified.len() + regressed.len(), count);
    }
    let view = predictor.trained().table.as_ref();
    let outside = |row: &[f64]| view.map_or_else(Outside::default, |view| view.outside(row));
    let rows = inputs.chunks_exact(width);
    if numbers {
        let number = |(row, said): (&[f64], Vec<f64>)| NumberEvidence {
            mean: said[0],
            sd: said[1],
            epistemic_sd: said[2],
            outside: outside(row),
        };
        return Ok(RowsSaid::Numbers(rows.zip(part.numbers(regressed, "predictions")?).map(number).collect()));
    }
    let all = classes_of_all(classified, &part)?;
    let with_row = |(row, said): (&[f64], ClassEvidence)| ClassEvidence { outside: outside(row), ..said };
    Ok(RowsSaid::Classes(rows.zip(all).map(with_row).collect()))
}
