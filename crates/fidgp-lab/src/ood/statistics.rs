//! What is kept of the ID training images: fitted once, stored beside the model, used again while the weights stay.

use std::path::{Path, PathBuf};

use fidgp::ood::LeadingRows;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tch::{Device, Kind, Tensor};

use super::observe::Inducing;
use super::observed::Observed;
use super::scorer::Columns;
use crate::error::Result;
pub use crate::files::STATISTICS_FILE;
use crate::train::checkpoint;
pub use crate::train::checkpoint::sha256_of as weights_sha256;

/// Share of ID-train energy that the leading rows of U must explain.
const ROW_ENERGY: f64 = 0.9;
/// Raised when what is stored, or how it is fitted, changes.
const VERSION: u32 = 3;

/// Observations of ID training images, reduced to what scores are fitted on.
#[derive(Debug, Default)]
pub struct Statistics {
    /// The class of each image; empty where there are none.
    pub labels: Vec<i64>,
    /// Penultimate features. `[N, n]`
    pub features: Option<Tensor>,
    /// Second moment of every pooled input. `[C, C]` each
    pub moments: Vec<(String, Tensor)>,
    /// The leading rows of U of every Bayesian layer; none without gradients.
    pub leading: Vec<LeadingRows>,
    /// The scores of the images themselves.
    pub columns: Columns,
}

/// What stored statistics must agree on, beside the weights.
#[derive(Debug, Serialize)]
pub struct Basis<'a> {
    /// The ID set.
    pub id: &'a str,
    /// Of the training images that they are fitted on.
    pub images: String,
    /// The seed that picked them.
    pub seed: u64,
    /// Images in a batch.
    pub batch: usize,
    /// Which U.
    pub u: String,
    /// Draws.
    pub draws: u64,
    /// Whether gradients were taken.
    pub gradients: bool,
    /// What the logits were divided by; none where nothing was fitted.
    pub temperature: Option<f64>,
    /// Of the linearised posterior; none where weights are drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub posterior_sha256: Option<String>,
}

impl Statistics {
    /// All but the columns, from observations.
    ///
    /// # Errors
    /// When a decomposition fails.
    pub fn of(seen: &Observed, labels: &[i64], inducing: &[Inducing]) -> Result<Self> {
        let moment = |(layer, x): &(String, Tensor)| (layer.clone(), x.mt().matmul(x) / x.size()[0].max(1) as f64);
        let leading = inducing.iter().zip(&seen.rows).map(|(layer, (_, q))| {
            Ok(LeadingRows::fit(&layer.u.to_device(Device::Cpu).to_kind(Kind::Double), q, ROW_ENERGY)?)
        });
        Ok(Self {
            labels: labels.to_vec(),
            features: seen.features.as_ref().map(Tensor::shallow_clone),
            moments: seen.pooled.iter().map(moment).collect(),
            leading: leading.collect::<Result<_>>()?,
            columns: Columns::new(),
        })
    }

    /// Reads statistics with this signature; none where the file is missing, broken or of other weights or settings.
    pub fn read(path: &Path, signature: &Tensor) -> Option<Self> {
        let tensors = checkpoint::load(path).ok()?.tensors;
        if tensors.get("signature")? != signature {
            return None;
        }
        let under = |prefix: &'static str| {
            tensors.iter().filter_map(move |(name, tensor)| Some((name.strip_prefix(prefix)?.to_owned(), tensor)))
        };
        let column = |(name, tensor): (String, &Tensor)| Some((name, Vec::<f64>::try_from(tensor).ok()?));
        let after_number = |name: String| name.split_once('/').map(|(_, layer)| layer.to_owned()).unwrap_or(name);
        Some(Self {
            labels: Vec::try_from(tensors.get("labels")?).ok()?,
            features: tensors.get("features").map(|features| features.to_kind(Kind::Double)),
            moments: under("moment/").map(|(name, moment)| (after_number(name), moment.shallow_clone())).collect(),
            leading: under("leading/").map(|(_, basis)| LeadingRows::of_basis(basis.shallow_clone())).collect(),
            columns: under("column/").map(column).collect::<Option<_>>()?,
        })
    }

    /// Writes them, whole or not at all. Features are f32 in the network and lose nothing here.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn write(&self, path: &Path, signature: &Tensor) -> Result<()> {
        let mut tensors = vec![("signature".to_owned(), signature.shallow_clone())];
        tensors.push(("labels".to_owned(), Tensor::from_slice(&self.labels)));
        tensors.extend(self.features.iter().map(|features| ("features".to_owned(), features.to_kind(Kind::Float))));
        let moments = self.moments.iter().enumerate();
        tensors.extend(moments.map(|(i, (layer, t))| (format!("moment/{i:03}/{layer}"), t.shallow_clone())));
        let leading = self.leading.iter().enumerate();
        tensors.extend(leading.map(|(i, rows)| (format!("leading/{i:03}"), rows.basis().contiguous())));
        let columns = self.columns.iter();
        tensors.extend(columns.map(|(name, values)| (format!("column/{name}"), Tensor::from_slice(values))));
        checkpoint::write(path, &tensors, ("ood", "statistics of ID training images".to_owned()))
    }
}

/// SHA-256 of pixels and of how many there are each way, in hex. `[N, C, H, W]`, bytes
///
/// # Errors
/// When they cannot be read.
pub fn sha256(pixels: &Tensor) -> Result<String> {
    let mut hasher = Sha256::new();
    hasher.update(format!("{:?}", pixels.size()));
    hasher.update(Vec::<u8>::try_from(pixels.reshape([-1]))?);
    Ok(format!("{:x}", hasher.finalize()))
}

/// SHA-256 of the weights' own and of the basis, as 32 numbers: other weights have other statistics.
pub fn signature(weights_sha256: &str, basis: &Basis) -> Tensor {
    let digest = Sha256::digest(format!("{VERSION} {weights_sha256} {}", serde_json::json!(basis)));
    Tensor::from_slice(&digest.iter().map(|&byte| i64::from(byte)).collect::<Vec<_>>())
}

/// Where statistics are kept, and under which signature.
#[derive(Debug)]
pub struct StatisticsCache {
    /// The file.
    pub path: PathBuf,
    /// See [`signature`].
    pub signature: Tensor,
}
