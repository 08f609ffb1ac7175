//! The sets of a benchmark: read, checked and described before anything is scored.

use std::path::Path;

use fidgp_data::{Part, split};
use fidgp_metrics::OodScores;
use tch::Tensor;

use super::altered::altered;
use super::heldout::HELD_OUT;
use super::sets::{self, Cut, MIXED, NOISE, PixelSet};
use super::settings::Settings;
use crate::config::{ArraysConfig, DataConfig, FolderConfig};
use crate::error::{LabError, Result};
use crate::predict::Trained;
use crate::record::{Group, OodSetRecord};
use crate::source::View;

/// AUROC of one number of the raw pixels from which on a pair counts as trivially separable.
const TRIVIAL: f64 = 0.95;

/// Under which the scores of the ID set are kept.
pub(super) const ID: &str = "id";

/// A set ready to be scored: one row of inputs for each example.
#[derive(Debug)]
pub(super) struct Inputs {
    pub name: String,
    pub rows: Tensor,
    pub labels: Vec<i64>,
}

/// The sets of a model's benchmark.
pub(super) struct Images {
    /// As the ID set is called, or where it is.
    pub id_name: String,
    /// The ID set.
    pub id: PixelSet,
    /// ID training images that scores are fitted on.
    pub fit: PixelSet,
    /// Sets that recipes are chosen on.
    pub validation: Vec<Inputs>,
    /// The OoD sets.
    pub ood: Vec<(OodSetRecord, Tensor)>,
}

impl Images {
    /// Reads them, as a model sees images.
    ///
    /// # Errors
    /// When a set is not there, cannot be meant, or has classes that the model does not.
    pub fn read(predictor: &Trained, settings: &Settings) -> Result<Self> {
        let view =
            predictor.square_view().ok_or_else(|| LabError::config("MODEL", "takes rows of a table, not images"))?;
        let id_name = checked_id(&predictor.config.data, settings)?;
        let cut = Cut { limit: settings.limit, seed: settings.seed };
        let whole = if sets::in_memory(&id_name) { usize::MAX } else { settings.fit };
        let mut train = sets::read(&settings.root, &id_name, Part::Train, view, Cut { limit: whole, ..cut })?;
        let mut id = sets::read(&settings.root, &id_name, Part::Test, view, cut)?;
        if predictor.segments() {
            train.labels.clear(); // folders of pictures with masks are cities, not classes
            id.labels.clear();
        }
        check_labels(predictor, &train)?;
        check_labels(predictor, &id)?;
        let moments = sets::pixel_moments(&id.pixels)?;
        let (mut ood, mut validation) = (Vec::new(), Vec::new());
        for name in &settings.ood {
            let set = match altered(name, &id, settings.seed) {
                Some(set) => set,
                None => sets::read(&settings.root, name, Part::Test, view, cut)?,
            };
            let group = group(&id_name, &set.name, &settings.near);
            ood.push((set_record(&set, &id, &train, &moments, group)?, set.pixels));
        }
        for name in settings.choose_on.iter().filter(|name| *name != HELD_OUT) {
            let set = validation_set(name, &train, settings, view)?;
            validation.push(Inputs { name: set.name, rows: set.pixels, labels: Vec::new() });
        }
        let fit = some_of(&train, settings.fit, settings.seed);
        Ok(Self { id_name, id, fit, validation, ood })
    }

    /// At most so many images of the ID set and of each OoD set.
    pub fn first(&self, most: usize) -> (Tensor, Vec<(String, Tensor)>) {
        let part = |pixels: &Tensor| pixels.narrow(0, 0, pixels.size()[0].min(most as i64));
        let sets = self.ood.iter().map(|(set, pixels)| (set.name.clone(), part(pixels)));
        (part(&self.id.pixels), sets.collect())
    }
}

/// The name of the ID set for a model that is trained on such data.
///
/// # Errors
/// When it cannot be told, or the OoD sets cannot be meant beside it.
pub(crate) fn checked_id(data: &DataConfig, settings: &Settings) -> Result<String> {
    let id = id_name(data, settings)?;
    check_names(settings, &id)?;
    Ok(id)
}

fn id_name(data: &DataConfig, settings: &Settings) -> Result<String> {
    settings.id.as_ref().map_or_else(|| own_set(data, &settings.root), |name| Ok(name.clone()))
}

/// The set that a model is trained on: its name in the catalogue, or its folder.
///
/// # Errors
/// When it has no images.
pub(crate) fn own_set(data: &DataConfig, root: &Path) -> Result<String> {
    match data {
        DataConfig::Images { name, .. } => Ok(name.clone()),
        DataConfig::Arrays(ArraysConfig { path, .. }) | DataConfig::Folder(FolderConfig { path, .. }) => {
            Ok(root.join(path).display().to_string())
        }
        DataConfig::Segmentation(pairs) if pairs.picture_folder().is_some() => {
            let folder = pairs.picture_folder().unwrap_or_default();
            Ok(root.join(folder).display().to_string())
        }
        _ => Err(LabError::config("--id", "is missing: say which set the model was trained on")),
    }
}

pub(super) fn check_names(settings: &Settings, id: &str) -> Result<()> {
    if settings.ood.is_empty() {
        return Err(LabError::config("--ood", "is empty: name at least one set, such as --ood cifar10,svhn"));
    }
    if let Some(name) = settings.choose_on.iter().find(|name| settings.ood.contains(name)) {
        let why = "is also in --ood: what is chosen on a set must not be reported on it; take it out of one of them";
        return Err(LabError::config(format!("--choose-on {name}"), why));
    }
    if let Some(name) = settings.ood.iter().chain(&settings.choose_on).find(|name| *name == id) {
        return Err(LabError::config(
            format!("--ood {name}"),
            "is the ID set itself; the controls compare it with itself",
        ));
    }
    let shown: Vec<_> = settings.ood.iter().map(|name| sets::shown_name(name)).collect();
    for (i, name) in shown.iter().enumerate() {
        if settings.ood[..i].contains(&settings.ood[i]) {
            return Err(LabError::config(format!("--ood {name}"), "is named twice"));
        }
        if shown[..i].contains(name) {
            let why = format!("is the second set called `{name}`: tables could not tell them apart; rename its folder");
            return Err(LabError::config(format!("--ood {}", settings.ood[i]), why));
        }
        if name == ID {
            let why = "has the name under which the ID set's own scores are kept; rename its folder";
            return Err(LabError::config(format!("--ood {}", settings.ood[i]), why));
        }
    }
    match settings.near.iter().find(|name| !settings.ood.contains(name)) {
        Some(name) => Err(LabError::config(format!("--near {name}"), "is not among the --ood sets")),
        None => Ok(()),
    }
}

fn check_labels(predictor: &Trained, set: &PixelSet) -> Result<()> {
    let classes = predictor.classes.len() as i64;
    match set.labels.iter().find(|&&label| label >= classes) {
        Some(label) => {
            let why = format!("has class {label}, the model has {classes} classes: it was trained on another set");
            Err(LabError::config(format!("--id {}", set.name), why))
        }
        None => Ok(()),
    }
}

fn validation_set(name: &str, train: &PixelSet, settings: &Settings, view: View) -> Result<PixelSet> {
    let count = settings.limit.min(train.pixels.size()[0] as usize).min(2000);
    match name {
        MIXED if train.labels.is_empty() => {
            Err(LabError::config("--choose-on mixed", "mixes images of two classes; the ID set has none"))
        }
        NOISE => Ok(sets::noise(&some_of(train, 1000, settings.seed).pixels, count as i64, settings.seed)),
        MIXED => Ok(sets::mixed(train, count, settings.seed)),
        _ => sets::read(&settings.root, name, Part::Test, view, Cut { limit: settings.limit, seed: settings.seed }),
    }
}

fn some_of(set: &PixelSet, count: usize, seed: u64) -> PixelSet {
    let n = set.pixels.size()[0] as usize;
    let mut rows = split::epoch_order(n, seed, 0);
    rows.truncate(count);
    let index: Vec<i64> = rows.iter().map(|&row| row as i64).collect();
    PixelSet {
        name: set.name.clone(),
        pixels: set.pixels.index_select(0, &Tensor::from_slice(&index)),
        labels: rows.iter().filter_map(|&row| set.labels.get(row).copied()).collect(),
        native: set.native.clone(),
    }
}

/// CIFAR-10 and CIFAR-100 are near each other, and so is what the user says.
pub(super) fn group(id: &str, name: &str, near: &[String]) -> Group {
    let sibling = matches!((id, name), ("cifar10", "cifar100") | ("cifar100", "cifar10"));
    let said = near.iter().any(|said| said == name || Path::new(said).file_name().is_some_and(|file| file == name));
    if sibling || said { Group::NearOod } else { Group::FarOod }
}

fn set_record(
    set: &PixelSet,
    id: &PixelSet,
    train: &PixelSet,
    (mean, sd): &(Vec<f64>, Vec<f64>),
    group: Group,
) -> Result<OodSetRecord> {
    let (own_mean, own_sd) = sets::pixel_moments(&set.pixels)?;
    let either =
        |id: &[f64], ood: &[f64]| OodScores::new(id, ood).map(|scores| scores.auroc().max(1.0 - scores.auroc()));
    let (pixel_mean_auroc, pixel_sd_auroc) = (either(mean, &own_mean)?, either(sd, &own_sd)?);
    let mut trivial = Vec::new();
    for (what, auroc) in [("mean pixel", pixel_mean_auroc), ("deviation of the pixels", pixel_sd_auroc)] {
        if auroc >= TRIVIAL {
            trivial.push(format!("the {what} alone has AUROC {:.1}", 100.0 * auroc));
        }
    }
    if set.native != id.native {
        trivial.push(format!("comes as {}, the ID set as {}", set.native, id.native));
    }
    Ok(OodSetRecord {
        name: set.name.clone(),
        group,
        images: set.pixels.size()[0] as usize,
        native: set.native.clone(),
        duplicates: sets::duplicates(&train.pixels, &set.pixels)?,
        pixel_mean_auroc,
        pixel_sd_auroc,
        trivial,
    })
}
