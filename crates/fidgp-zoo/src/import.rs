//! Weights of other programs into a network, by name.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use tch::Tensor;
use tch::nn::VarStore;

use crate::import_report::{ImportReport, Mismatch};
use crate::{Error, Result, weights};

/// What wrappers put in front of every name.
const PREFIXES: [&str; 5] = ["module.", "model.", "state_dict.", "net.", "_orig_mod."];

/// Parts of names that mean the same: (elsewhere, here). `fc` and `linear` go both ways.
const ALIASES: [(&str, &str); 3] = [("shortcut.", "downsample."), ("linear.", "fc."), ("fc.", "linear.")];

/// What a parameter that belongs to no layer (a class token) is called behind its name, in networks that are built of a graph.
const OF_NO_LAYER: &str = ".value";

/// Where segmentation networks keep a classifier's layers.
const BACKBONE: &str = "backbone.";

/// How much of the network a file must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportMode<'a> {
    /// Every tensor, with its shape.
    Whole,
    /// What fits is taken; tensors that are missing or have another shape (a head for other classes) keep their values.
    Partial,
    /// Every tensor of the backbone: a classifier's file, for a network with another head, which keeps its values.
    Backbone {
        /// The network's last layer.
        head: &'a str,
    },
}

/// Reads a file and writes its tensors into the store.
///
/// # Errors
/// When the file cannot be read, or its tensors do not fit; then nothing is changed.
pub fn import(store: &VarStore, path: &Path, mode: ImportMode) -> Result<ImportReport> {
    import_tensors(store, weights::read(path)?, mode)
}

/// Writes named tensors into the store. `num_batches_tracked` is ignored.
///
/// # Errors
/// [`Error::Import`] with the whole report when they do not fit; then nothing is changed.
pub fn import_tensors(store: &VarStore, tensors: Vec<(String, Tensor)>, mode: ImportMode) -> Result<ImportReport> {
    let variables: BTreeMap<String, Tensor> = store.variables().into_iter().collect();
    let inner = variables.keys().any(|name| name.starts_with(BACKBONE));
    let concerns = |name: &str| match mode {
        ImportMode::Whole => true,
        ImportMode::Partial => false,
        ImportMode::Backbone { head } if !inner => !is_of(name, head),
        ImportMode::Backbone { .. } => name.starts_with(BACKBONE),
    };
    let (mut report, mut values) = assign(&variables, tensors);
    if let ImportMode::Backbone { head } = mode {
        values.retain(|name, _| inner || !is_of(name, head)); // a head that fits by chance is of other classes all the same
        report.matched.retain(|name| values.contains_key(name));
        report.renamed.retain(|(_, name)| values.contains_key(name));
    }
    let mismatched = report.shape_mismatch.iter().map(|mismatch| &mismatch.name);
    let unfit = report.missing.iter().chain(mismatched).any(|name| concerns(name));
    if unfit || report.found() == 0 {
        report.missing.retain(|name| concerns(name) || mode == ImportMode::Partial);
        return Err(Error::Import(Box::new(report)));
    }
    tch::no_grad(|| {
        for (name, value) in &values {
            variables[name].shallow_clone().copy_(value);
        }
    });
    Ok(report)
}

/// Whether a tensor is one of this layer.
pub fn is_of(tensor: &str, layer: &str) -> bool {
    tensor.strip_prefix(layer).is_some_and(|rest| rest.starts_with('.'))
}

/// Finds the place of every tensor, and says what became of each.
fn assign(
    variables: &BTreeMap<String, Tensor>,
    mut tensors: Vec<(String, Tensor)>,
) -> (ImportReport, HashMap<String, Tensor>) {
    let mut report = ImportReport::default();
    let mut values = HashMap::new();
    tensors.sort_by(|(one, _), (other, _)| one.cmp(other)); // files list them in any order, a report in one
    let (same, other): (Vec<_>, Vec<_>) = tensors.into_iter().partition(|(name, _)| variables.contains_key(name));
    for (from, value) in same.into_iter().chain(other) {
        if from.ends_with("num_batches_tracked") {
            continue;
        }
        let Some(name) = place(&from, variables).filter(|name| !values.contains_key(name)) else {
            report.unexpected.push(from);
            continue;
        };
        let (file, network) = (value.size(), variables[&name].size());
        if file != network {
            report.shape_mismatch.push(Mismatch { name, file, network });
            continue;
        }
        if from == name {
            report.matched.push(name.clone());
        } else {
            report.renamed.push((from, name.clone()));
        }
        values.insert(name, value);
    }
    let placed = |name: &&String| values.contains_key(*name) || report.shape_mismatch.iter().any(|m| m.name == **name);
    report.missing = variables.keys().filter(|name| !placed(name)).cloned().collect();
    (report, values)
}

/// The variable a name of the file stands for.
fn place(name: &str, variables: &BTreeMap<String, Tensor>) -> Option<String> {
    let mut bare = name;
    loop {
        let direct = variables.contains_key(bare).then(|| bare.to_owned());
        let alias =
            || ALIASES.iter().map(|(from, to)| bare.replace(from, to)).find(|name| variables.contains_key(name));
        let within = || Some(format!("{BACKBONE}{bare}")).filter(|name| variables.contains_key(name));
        let alone = || Some(format!("{bare}{OF_NO_LAYER}")).filter(|name| variables.contains_key(name));
        if let Some(found) = direct.or_else(alias).or_else(within).or_else(alone) {
            return Some(found);
        }
        bare = PREFIXES.iter().find_map(|prefix| bare.strip_prefix(prefix))?;
    }
}
