//! The same benchmark on logits and features from elsewhere: one tensor for each set, under the set's name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fidgp_zoo::baseline::activation::Head;
use tch::{Kind, Tensor};

use super::bench::{Benchmark, Compared, compare};
use super::heldout::HELD_OUT;
use super::images::{Inputs, check_names, group};
use super::observe::Observe;
use super::observed::Observed;
use super::pipeline::{FitRows, Pipeline, fitted};
use super::settings::Settings;
use crate::error::{LabError, Result};
use crate::record::OodSetRecord;
use crate::train::checkpoint;

/// The ID training rows.
const FIT: &str = "fit";
/// Labels of a set's rows stand under its name and this.
const LABELS: &str = ".labels";

/// Splits a row into logits and features.
struct Split {
    classes: i64,
}

impl Observe for Split {
    fn observe(&self, rows: &Tensor) -> Result<Observed> {
        let rest = rows.size()[1] - self.classes;
        Ok(Observed {
            logits: rows.narrow(1, 0, self.classes),
            features: (rest > 0).then(|| rows.narrow(1, self.classes, rest)),
            ..Observed::default()
        })
    }
}

/// The files' tensors.
struct Arrays {
    path: PathBuf,
    logits: BTreeMap<String, Tensor>,
    features: Option<BTreeMap<String, Tensor>>,
    /// The file of the features.
    second: PathBuf,
}

impl Arrays {
    fn fault(&self, what: &str, why: &str) -> LabError {
        LabError::File { path: self.path.clone(), why: format!("`{what}` {why}") }
    }

    /// The same of the other file.
    fn fault_of_features(&self, what: &str, why: &str) -> LabError {
        LabError::File { path: self.second.clone(), why: format!("`{what}` {why}") }
    }

    /// Logits and features of a set side by side. `[N, K + n]`
    fn rows(&self, name: &str) -> Result<Tensor> {
        let missing = || self.fault(name, "is missing: every set needs a tensor [rows, classes] under its name");
        let logits = self.logits.get(name).ok_or_else(missing)?.to_kind(Kind::Double);
        if logits.dim() != 2 || logits.numel() == 0 {
            return Err(self.fault(name, &format!("is {:?}, expected [rows, classes], not empty", logits.size())));
        }
        finite("logits", &logits)?.map_or(Ok(()), |why| Err(self.fault(name, &why)))?;
        let Some(features) = &self.features else { return Ok(logits) };
        let features = features.get(name).ok_or_else(|| self.fault_of_features(name, "is missing"))?;
        if features.dim() != 2 || features.size()[0] != logits.size()[0] {
            let why =
                format!("has features {:?} and logits {:?}: one row for each example", features.size(), logits.size());
            return Err(self.fault_of_features(name, &why));
        }
        let features = features.to_kind(Kind::Double);
        finite("features", &features)?.map_or(Ok(()), |why| Err(self.fault_of_features(name, &why)))?;
        Ok(Tensor::f_cat(&[logits, features], 1)?)
    }

    /// The classes of a set's rows; none where it has no labels.
    fn labels(&self, name: &str, rows: i64, classes: i64) -> Result<Vec<i64>> {
        let key = format!("{name}{LABELS}");
        let Some(labels) = self.logits.get(&key) else { return Ok(Vec::new()) };
        if labels.size() != [rows] {
            return Err(self.fault(&key, &format!("is {:?}, expected [{rows}]", labels.size())));
        }
        if !matches!(labels.kind(), Kind::Int64 | Kind::Int | Kind::Int16 | Kind::Int8 | Kind::Uint8) {
            return Err(self.fault(&key, &format!("is {:?}: give labels as whole numbers", labels.kind())));
        }
        let labels: Vec<i64> = Vec::try_from(labels.to_kind(Kind::Int64))?;
        match labels.iter().position(|label| !(0..classes).contains(label)) {
            Some(row) => {
                let why =
                    format!("has label {} in row {row}; the logits have classes 0 to {}", labels[row], classes - 1);
                Err(self.fault(&key, &why))
            }
            None => Ok(labels),
        }
    }

    /// The last layer of the network, where the file has it. `[K, n]` and `[K]`
    fn head(&self, classes: i64, columns: i64) -> Result<Option<Head>> {
        let of = |name: &str| self.features.as_ref()?.get(name).map(|tensor| tensor.to_kind(Kind::Double));
        let (Some(weight), Some(bias)) = (of("head.weight"), of("head.bias")) else { return Ok(None) };
        let (features, found) = (columns - classes, (weight.size(), bias.size()));
        if found != (vec![classes, features], vec![classes]) {
            let why = format!("and head.bias are {found:?}, expected [{classes}, {features}] and [{classes}]");
            return Err(self.fault_of_features("head.weight", &why));
        }
        for (name, what, numbers) in [("head.weight", "weights", &weight), ("head.bias", "biases", &bias)] {
            finite(what, numbers)?.map_or(Ok(()), |why| Err(self.fault_of_features(name, &why)))?;
        }
        Ok(Some(Head { weight, bias }))
    }
}

/// Says where the first NaN or infinity is; nothing where there is none.
fn finite(what: &str, numbers: &Tensor) -> Result<Option<String>> {
    let sound = Vec::<bool>::try_from(numbers.f_isfinite()?.f_reshape([-1])?)?;
    let columns = numbers.size().get(1).copied().unwrap_or(1).max(1) as usize;
    let place = sound.iter().position(|is_finite| !is_finite);
    Ok(place.map(|place| {
        let [row, column] = [place / columns, place % columns];
        format!("holds a number that is not finite: its {what}, row {row}, column {column}; leave such rows out")
    }))
}

/// Benchmarks arrays; `settings.id` names the ID rows (`id` where it does not), `fit` are the ID training rows.
///
/// # Errors
/// When a file or tensor is missing or has another shape, or, with [`LabError::Refused`], when a control fails.
pub fn run_arrays(
    logits: &Path,
    features: Option<&Path>,
    settings: &Settings,
    say: &mut dyn FnMut(&str),
) -> Result<Benchmark> {
    let started = Instant::now();
    let id = settings.id.clone().unwrap_or_else(|| "id".to_owned());
    check_names(settings, &id)?;
    let second = features.unwrap_or(logits).to_owned();
    let features = features.map(|path| Ok::<_, LabError>(checkpoint::load(path)?.tensors)).transpose()?;
    let arrays = Arrays { path: logits.to_owned(), logits: checkpoint::load(logits)?.tensors, features, second };
    let rows = arrays.rows(&id)?;
    let classes = arrays.logits.get(&id).map_or(0, |logits| logits.size()[1]);
    let observer = Split { classes };
    let of = |name: &String| -> Result<Tensor> {
        let own = arrays.rows(name)?;
        let (found, expected) = (own.size()[1], rows.size()[1]);
        if found == expected {
            Ok(own)
        } else {
            Err(arrays.fault(name, &format!("has {found} columns, {id} has {expected}")))
        }
    };
    let fit = if arrays.logits.contains_key(FIT) { Some(of(&FIT.to_owned())?) } else { None };
    let pipeline = if let Some(fit) = &fit {
        let labels = arrays.labels(FIT, fit.size()[0], classes)?;
        let (batch, seed, more) = (settings.batch, settings.seed, settings.more.scores.as_slice());
        let rows = FitRows { rows: fit, labels: &labels, batch, seed, more };
        fitted(&observer, &rows, (arrays.head(classes, fit.size()[1])?, &[]), None, say)?
    } else {
        say("no tensor `fit` (ID training rows): scores that need fitting are left out");
        Pipeline::unfitted(&observer, &settings.more.scores)
    };
    let set = |name: &String| -> Result<(OodSetRecord, Tensor)> {
        let own = of(name)?;
        let record = OodSetRecord {
            name: name.clone(),
            group: group(&id, name, &settings.near),
            images: own.size()[0] as usize,
            native: "array".to_owned(),
            duplicates: fit.as_ref().map_or(0, |fit| equal_rows(fit, &own)),
            pixel_mean_auroc: f64::NAN,
            pixel_sd_auroc: f64::NAN,
            trivial: Vec::new(),
        };
        Ok((record, own))
    };
    let validation = settings.choose_on.iter().filter(|name| *name != HELD_OUT);
    let validation = validation.map(|name| Ok(Inputs { name: name.clone(), rows: of(name)?, labels: vec![] }));
    let compared = Compared {
        validation: validation.collect::<Result<_>>()?,
        ood: settings.ood.iter().map(set).collect::<Result<_>>()?,
        fit_images: fit.as_ref().map_or(0, |fit| fit.size()[0] as usize),
        method: "arrays".to_owned(),
        device: tch::Device::Cpu,
        id: Inputs {
            labels: arrays.labels(&id, rows.size()[0], classes)?,
            name: id.clone(),
            rows: rows.shallow_clone(),
        },
    };
    compare(&pipeline, compared, settings, started, say)
}

/// How many rows of a set stand, to the last bit, among others.
fn equal_rows(among: &Tensor, set: &Tensor) -> usize {
    let bits = |t: &Tensor| -> Vec<Vec<u64>> {
        let rows = (0..t.size()[0]).filter_map(|i| Vec::<f64>::try_from(t.get(i)).ok());
        rows.map(|row| row.into_iter().map(f64::to_bits).collect()).collect()
    };
    let known: std::collections::HashSet<Vec<u64>> = bits(among).into_iter().collect();
    bits(set).iter().filter(|row| known.contains(*row)).count()
}
