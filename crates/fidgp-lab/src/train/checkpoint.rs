//! Checkpoints: one safetensors file, written beside its place and then renamed, so that there is always a whole one.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use fidgp_zoo::weights::wrong_length;
use safetensors::{Dtype, SafeTensorError, SafeTensors, View};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

use crate::error::{LabError, Result};
use crate::record::write_atomically;

/// Numbers that are widened to be hashed: all of a network's would be several times its size.
const HASHED_AT_ONCE: i64 = 1 << 16;
const LAST_FILE: &str = "last.safetensors";

/// Where a training stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Epochs that are complete.
    pub epoch: u64,
    /// Optimiser steps that were made.
    pub step: u64,
    /// Steps of the epoch that is under way.
    pub step_in_epoch: u64,
    /// Best validation NLL so far and its epoch.
    pub best: Option<(f64, u64)>,
    /// Sums of the epoch that is under way, so that a resumed epoch reports what an uninterrupted one would.
    pub sums: Vec<f64>,
    /// Seconds of training before this moment.
    pub seconds: f64,
    /// Of what lies beside a checkpoint: the digest of the weights that it was fitted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_sha256: Option<String>,
}

/// A checkpoint in memory.
#[derive(Debug)]
pub struct Checkpoint {
    /// All tensors by name: the variables of the network, and the optimiser's under `optimiser.`.
    pub tensors: BTreeMap<String, Tensor>,
    /// Where the training stands.
    pub progress: Progress,
}

struct Bytes(Dtype, Vec<usize>, Vec<u8>);

impl View for &Bytes {
    fn dtype(&self) -> Dtype {
        self.0
    }
    fn shape(&self) -> &[usize] {
        &self.1
    }
    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        (&self.2).into()
    }
    fn data_len(&self) -> usize {
        self.2.len()
    }
}

/// Writes tensors and progress to `path`, atomically.
///
/// # Errors
/// When a tensor holds NaN or infinity, the disk is full or the folder cannot be written; an earlier file at `path` is then
/// still whole.
pub fn save(path: &Path, tensors: &[(String, Tensor)], progress: &Progress) -> Result<()> {
    let good = path.with_file_name(LAST_FILE);
    check_finite(tensors, progress, good.exists().then_some(good))?;
    let progress = serde_json::to_string(progress).map_err(|error| LabError::file(path, &error))?;
    write(path, tensors, ("progress", progress))
}

/// Writes tensors with a named text to `path`, atomically.
///
/// # Errors
/// As [`save`].
pub fn write(path: &Path, tensors: &[(String, Tensor)], (name, text): (&str, String)) -> Result<()> {
    let bytes = tensors
        .iter()
        .map(|(name, tensor)| Ok((name.as_str(), to_bytes(name, tensor)?)))
        .collect::<Result<Vec<_>>>()?;
    let metadata = HashMap::from([(name.to_owned(), text), ("format".to_owned(), "pt".to_owned())]);
    let data = safetensors::serialize(bytes.iter().map(|(name, bytes)| (name, bytes)), Some(metadata));
    Ok(write_atomically(path, &in_order(data.map_err(|error| LabError::file(path, &error))?))?)
}

/// The same file with its header in the order of names, so that equal content has equal bytes.
fn in_order(mut file: Vec<u8>) -> Vec<u8> {
    let Some((length, rest)) = file.split_first_chunk::<8>() else { return file };
    let header = rest.get(..u64::from_le_bytes(*length) as usize).unwrap_or_default();
    let sorted: Option<BTreeMap<String, BTreeMap<String, serde_json::Value>>> = serde_json::from_slice(header).ok();
    let text = sorted.and_then(|sorted| serde_json::to_vec(&sorted).ok()).filter(|text| text.len() <= header.len());
    if let Some(text) = text {
        let end = 8 + header.len();
        file[8..8 + text.len()].copy_from_slice(&text);
        file[8 + text.len()..end].fill(b' ');
    }
    file
}

/// SHA-256 of tensors under their names, in hex.
///
/// # Errors
/// When a tensor cannot be read.
pub fn sha256<'a>(tensors: impl IntoIterator<Item = (&'a String, &'a Tensor)>) -> Result<String> {
    let mut hasher = Sha256::new();
    for (name, tensor) in tensors {
        hasher.update(format!("{name} {:?}", tensor.size()));
        let flat = tensor.detach().to_device(Device::Cpu).f_reshape([-1])?;
        for piece in flat.f_split(HASHED_AT_ONCE, 0)? {
            let values = Vec::<f64>::try_from(piece.to_kind(Kind::Double))?;
            let bytes: Vec<_> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            hasher.update(bytes);
        }
    }
    Ok(format!("{:x}", hasher.finalize()))
}

/// The same of all variables of a network.
///
/// # Errors
/// As [`sha256`].
pub fn sha256_of(store: &VarStore) -> Result<String> {
    sha256(variables(store).iter().map(|(name, tensor)| (name, tensor)))
}

/// Fails when a tensor holds NaN or infinity: such a network is worth nothing and must not replace `good`, the checkpoint
/// that training can go on from.
///
/// # Errors
/// Names the tensor, the moment and the good checkpoint.
pub fn check_finite(tensors: &[(String, Tensor)], progress: &Progress, good: Option<PathBuf>) -> Result<()> {
    let Some(culprit) = not_finite(tensors) else { return Ok(()) };
    Err(LabError::Diverged {
        what: "non-finite parameters".to_owned(),
        epoch: progress.epoch + u64::from(progress.step_in_epoch > 0),
        moment: format!("after step {}", progress.step),
        culprit,
        checkpoint: good,
    })
}

/// What there is to say about tensors that hold NaN or infinity: the first of them, and how many more.
pub fn not_finite(tensors: &[(String, Tensor)]) -> Option<String> {
    let mut broken = tensors.iter().filter_map(|(name, tensor)| fidgp::linalg::check_finite(name, tensor, "").err());
    let first = broken.next()?.to_string();
    let first = first.trim_end_matches(['.', ' ']);
    Some(match broken.count() {
        0 => first.to_owned(),
        others => format!("{first}; so do {others} more tensors"),
    })
}

/// Reads a checkpoint.
///
/// # Errors
/// When the file is missing, truncated or no checkpoint; the message names it.
pub fn load(path: &Path) -> Result<Checkpoint> {
    Ok(load_with(path, "")?.0)
}

/// Reads a checkpoint, and the text of this name in its header.
///
/// # Errors
/// As [`load`].
pub fn load_with(path: &Path, name: &str) -> Result<(Checkpoint, Option<String>)> {
    let broken = |why: String| LabError::Checkpoint { path: path.to_owned(), why };
    let data = fidgp_files::bytes(path).map_err(|error| broken(error.to_string()))?;
    let unsound = |error: SafeTensorError| broken(wrong_length(&data).unwrap_or_else(|| error.to_string()));
    let (_, metadata) = SafeTensors::read_metadata(&data).map_err(unsound)?;
    let parsed = SafeTensors::deserialize(&data).map_err(unsound)?;
    let said = |name: &str| metadata.metadata().as_ref().and_then(|said| said.get(name));
    let progress = said("progress");
    let progress = progress.map_or(Ok(Progress::default()), |text| serde_json::from_str(text));
    let tensors = parsed.tensors().into_iter().map(|(name, view)| {
        let kind = kind_of(view.dtype())
            .ok_or_else(|| broken(format!("`{name}` has the unsupported type {:?}", view.dtype())))?;
        let shape: Vec<i64> = view.shape().iter().map(|&size| size as i64).collect();
        Ok((name, Tensor::f_from_data_size(view.data(), &shape, kind)?))
    });
    let progress = progress.map_err(|error| broken(error.to_string()))?;
    Ok((Checkpoint { tensors: tensors.collect::<Result<_>>()?, progress }, said(name).cloned()))
}

/// Copies a checkpoint's tensors into the variables of a network.
///
/// # Errors
/// When a variable is missing, has another shape or is not finite; nothing is copied then.
pub fn restore(path: &Path, checkpoint: &Checkpoint, store: &VarStore) -> Result<()> {
    let variables: BTreeMap<_, _> = store.variables().into_iter().collect();
    for (name, variable) in &variables {
        let found = checkpoint.tensors.get(name).map(Tensor::size);
        if found.as_ref() != Some(&variable.size()) {
            let found = found.map_or("missing".to_owned(), |shape| format!("{shape:?}"));
            let why = format!("`{name}` is {found} there and {:?} in the configured network", variable.size());
            return Err(LabError::Checkpoint { path: path.to_owned(), why });
        }
    }
    let stored: Vec<_> =
        variables.keys().map(|name| (name.clone(), checkpoint.tensors[name].shallow_clone())).collect();
    if let Some((name, _)) = stored.iter().find(|(_, tensor)| tensor.kind() == Kind::Int8) {
        let why = format!("`{name}` is stored in bytes, which stand for no numbers by themselves");
        return Err(LabError::Checkpoint { path: path.to_owned(), why });
    }
    if let Some(why) = not_finite(&stored) {
        let why = format!("{why}: its training has diverged");
        return Err(LabError::Checkpoint { path: path.to_owned(), why });
    }
    tch::no_grad(|| {
        for (name, mut variable) in variables {
            variable.copy_(&checkpoint.tensors[&name]);
        }
    });
    Ok(())
}

/// All variables of a network by name, in a fixed order.
pub fn variables(store: &VarStore) -> Vec<(String, Tensor)> {
    store.variables().into_iter().collect::<BTreeMap<_, _>>().into_iter().collect()
}

fn to_bytes(name: &str, tensor: &Tensor) -> Result<Bytes> {
    let (dtype, width) = match tensor.kind() {
        Kind::Float => (Dtype::F32, 4),
        Kind::Double => (Dtype::F64, 8),
        Kind::Half => (Dtype::F16, 2),
        Kind::BFloat16 => (Dtype::BF16, 2),
        Kind::Int64 => (Dtype::I64, 8),
        Kind::Int => (Dtype::I32, 4),
        Kind::Int16 => (Dtype::I16, 2),
        Kind::Int8 => (Dtype::I8, 1),
        Kind::Uint8 => (Dtype::U8, 1),
        Kind::Bool => (Dtype::BOOL, 1),
        other => return Err(LabError::config(name, format!("tensors of type {other:?} cannot be saved"))),
    };
    let tensor = tensor.detach().to_device(Device::Cpu).contiguous();
    let mut bytes = vec![0; tensor.numel() * width];
    tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
    Ok(Bytes(dtype, tensor.size().iter().map(|&size| size as usize).collect(), bytes))
}

fn kind_of(dtype: Dtype) -> Option<Kind> {
    Some(match dtype {
        Dtype::F32 => Kind::Float,
        Dtype::F64 => Kind::Double,
        Dtype::F16 => Kind::Half,
        Dtype::BF16 => Kind::BFloat16,
        Dtype::I64 => Kind::Int64,
        Dtype::I8 => Kind::Int8, // of model folders, with scales
        _ => return None,
    })
}

/// The file of the latest state in a run folder.
pub fn last(run: &Path) -> PathBuf {
    run.join("checkpoint").join(LAST_FILE)
}

/// The file of the best epoch by validation NLL in a run folder.
pub fn best(run: &Path) -> PathBuf {
    run.join("checkpoint").join("best.safetensors")
}
