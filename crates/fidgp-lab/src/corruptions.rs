//! A classifier of images on images that were made worse, after the protocol of CIFAR-C: accuracy, calibration and uncertainty
//! by severity.

use std::path::PathBuf;
use std::time::Instant;

use fidgp::predict::{Effort, WeightDraws};
use fidgp_data::Part;
use fidgp_data::corruptions::{CORRUPTIONS, Corruption, SEVERITIES};
use fidgp_metrics::{Predictions, ReliabilityTable};
use tch::{Device, Kind, Tensor};

use crate::error::{LabError, Result};
use crate::evaluate::BINS;
use crate::ood::own_set;
use crate::ood::sets::{self, Cut, PixelSet};
use crate::predict::{Predictor, Trained};
use crate::record::commit;
use crate::record::corruptions::{CORRUPTIONS_SCHEMA, Corrupted, Corruptions, Level};
use crate::train::checkpoint;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct CorruptionSettings {
    /// The model, for the record.
    pub model: String,
    /// Names of corruptions; all where none is named.
    pub names: Vec<String>,
    /// Folder of the data sets.
    pub root: PathBuf,
    /// Most test images.
    pub limit: usize,
    /// Seed of the choice of images and of the corruptions.
    pub seed: u64,
    /// The command line.
    pub command: Option<String>,
}

/// Measures a model on the test images of its own data set, as they are and made worse; `say` hears about the progress.
///
/// # Errors
/// When the model does not classify images, a corruption has no such name, or the images cannot be read.
pub fn corrupted(trained: Trained, settings: &CorruptionSettings, say: &mut dyn FnMut(&str)) -> Result<Corruptions> {
    let started = Instant::now();
    let chosen = chosen(&settings.names)?;
    if trained.segments() {
        return Err(LabError::config("--corrupt", "is for classes of whole pictures, not of their pixels"));
    }
    let Some(view) = trained.view else {
        return Err(LabError::config("--corrupt", "is for pictures; this model takes rows of a table"));
    };
    let name = own_set(&trained.config.data, &settings.root)?;
    let cut = Cut { limit: settings.limit, seed: settings.seed };
    let set = sets::read(&settings.root, &name, Part::Test, view, cut)?;
    check_labels(&set, trained.classes.len())?;
    let weights_sha256 = checkpoint::sha256_of(&trained.model.store)?;
    let (method, device) = (trained.config.method.name().to_owned(), trained.model.store.device());
    let mut predictor = Predictor::new(trained, None, WeightDraws::MEMORY)?;
    let basis = predictor.basis(predictor.draws(Effort::default()));
    say(&format!("{} test images as they are", set.labels.len()));
    let clean = level(&mut predictor, &set.pixels, &set.labels)?;
    let mut corruptions = Vec::new();
    for corruption in chosen {
        say(&format!("{}, in {SEVERITIES} severities", corruption.name));
        let severities = (1..=SEVERITIES).map(|severity| {
            level(&mut predictor, &worse(corruption, &set.pixels, severity, settings.seed)?, &set.labels)
        });
        corruptions.push(Corrupted {
            name: corruption.name.to_owned(),
            about: corruption.about.to_owned(),
            severities: severities.collect::<Result<_>>()?,
        });
    }
    let mean = |place: usize| {
        let all: Vec<_> = corruptions.iter().map(|one| one.severities[place]).collect();
        Level::mean(&all)
    };
    Ok(Corruptions {
        schema: CORRUPTIONS_SCHEMA,
        model: settings.model.clone(),
        weights_sha256,
        method,
        basis,
        set: set.name,
        images: set.labels.len(),
        seed: settings.seed,
        commit: commit(),
        hardware: crate::device::hardware(device),
        command: settings.command.clone(),
        seconds: started.elapsed().as_secs_f64(),
        clean,
        mean: (0..SEVERITIES).filter_map(mean).collect(),
        corruptions,
    })
}

fn chosen(names: &[String]) -> Result<Vec<&'static Corruption>> {
    if names.is_empty() {
        return Ok(CORRUPTIONS.iter().collect());
    }
    let find = |name: &String| Corruption::find(name).map_err(|error| LabError::config("--corrupt", error.to_string()));
    names.iter().map(find).collect()
}

fn check_labels(set: &PixelSet, classes: usize) -> Result<()> {
    if set.labels.len() as i64 != set.pixels.size()[0] {
        return Err(LabError::config("data", "has test pictures without classes: accuracy needs them"));
    }
    match set.labels.iter().find(|&&label| label < 0 || label as usize >= classes) {
        Some(label) => Err(LabError::config("data", format!("has class {label}, the network tells {classes} apart"))),
        None => Ok(()),
    }
}

/// The images made worse, in the size that the network sees. `[N, C, H, W]`, bytes
fn worse(corruption: &Corruption, pixels: &Tensor, severity: usize, seed: u64) -> Result<Tensor> {
    let [_, channels, height, width] = pixels.size()[..] else {
        return Err(LabError::config("data", "holds no pictures"));
    };
    let size = [channels as usize, height as usize, width as usize];
    let bytes = Vec::<u8>::try_from(pixels.to_device(Device::Cpu).contiguous().reshape([-1]))?;
    let images = bytes.chunks_exact(size.iter().product::<usize>().max(1)).enumerate();
    let made = images.map(|(row, image)| corruption.apply(image, size, severity, (seed, row as u64)));
    let made = made.collect::<fidgp_data::Result<Vec<_>>>()?.concat();
    Ok(Tensor::from_slice(&made).f_reshape(pixels.size())?)
}

fn level(predictor: &mut Predictor, pixels: &Tensor, labels: &[i64]) -> Result<Level> {
    let said = predictor.classify(&pixels.to_kind(Kind::Float), 0, Effort::default())?;
    let classes = predictor.trained().classes.len();
    let normalised = said.iter().flat_map(|one| {
        let sum: f64 = one.probabilities.iter().sum();
        one.probabilities.iter().map(move |probability| probability / sum)
    });
    let probs: Vec<f64> = normalised.collect();
    let labels: Vec<usize> = labels.iter().map(|&label| label as usize).collect();
    let predictions = Predictions::new(&probs, classes, &labels)?;
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / said.len() as f64;
    Ok(Level {
        accuracy: predictions.accuracy(),
        nll: predictions.nll(),
        ece: ReliabilityTable::equal_width(&predictions, BINS)?.ece().value,
        total: mean(&mut said.iter().map(|one| one.total)),
        epistemic: mean(&mut said.iter().map(|one| one.epistemic)),
    })
}
