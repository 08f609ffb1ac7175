//! What is kept of the ID training images: fitted once, stored beside the model, used again while the weights stay.

use std::path::{Path, PathBuf};

use fidgp::ood::LeadingRows;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tch::{Device, Kind, Tensor};

use super::inducing::Inducing;
use super::observed::Observed;
use crate::error::Result;
pub use crate::files::STATISTICS_FILE;
use crate::record::ood::Columns;
use crate::train::checkpoint;
pub use crate::train::checkpoint::sha256_of as weights_sha256;

/// Share of ID-train energy that the leading rows of U must explain.
const ROW_ENERGY: f64 = 0.9;
/// Raised when what is stored, or how it is fitted, changes.
const VERSION: u32 = 4;

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
    fn read(path: &Path, signature: &Tensor) -> Option<Self> {
        Self::read_under(path, "signature", signature)
    }

    /// Reads statistics of this model, whatever images they are of; see [`of_model`].
    pub(super) fn read_of_model(path: &Path, signature: &Tensor) -> Option<Self> {
        Self::read_under(path, "model", signature)
    }

    fn read_under(path: &Path, name: &str, signature: &Tensor) -> Option<Self> {
        let tensors = checkpoint::load(path).ok()?.tensors;
        if tensors.get(name)? != signature {
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
            moments: under("moment/")
                .map(|(name, moment)| (after_number(name), moment.to_kind(Kind::Double)))
                .collect(),
            leading: under("leading/").map(|(_, basis)| LeadingRows::of_basis(basis.to_kind(Kind::Double))).collect(),
            columns: under("column/").map(column).collect::<Option<_>>()?,
        })
    }

    /// Whether they are of so many examples with these labels, of the sizes that a batch has, and finite throughout: the file
    /// may be a stranger's.
    pub fn fit_to(&self, first: &Observed, examples: i64, labels: &[i64]) -> bool {
        let width = |tensor: &Tensor| if tensor.dim() == 2 { tensor.size()[1] } else { -1 };
        let is = |tensor: &Tensor, size: [i64; 2]| tensor.size() == size && is_finite(tensor);
        let features = match (&self.features, &first.features) {
            (Some(stored), Some(seen)) => is(stored, [examples, width(seen)]),
            (stored, seen) => stored.is_none() && seen.is_none(),
        };
        let moment = |((own, moment), (layer, seen)): (&(String, Tensor), &(String, Tensor))| {
            own == layer && is(moment, [width(seen); 2])
        };
        let leading = |(own, (_, seen)): (&LeadingRows, &(String, Tensor))| {
            let basis = own.basis();
            width(basis) <= width(seen) && is(basis, [width(seen), width(basis)])
        };
        features
            && self.labels == labels
            && self.moments.len() == first.pooled.len()
            && self.moments.iter().zip(&first.pooled).all(moment)
            && self.leading.len() == first.rows.len()
            && self.leading.iter().zip(&first.rows).all(leading)
            && self
                .columns
                .values()
                .all(|own| own.len() as i64 == examples && own.iter().all(|value| value.is_finite()))
    }

    /// Writes them, whole or not at all. Features are f32 in the network and lose nothing here.
    ///
    /// # Errors
    /// When the disk fails.
    fn write(&self, path: &Path, signatures: &[(&str, &Tensor)]) -> Result<()> {
        let named = signatures.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.shallow_clone()));
        let mut tensors: Vec<_> = named.collect();
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

fn is_finite(tensor: &Tensor) -> bool {
    fidgp::linalg::check_finite("statistics", tensor, "").is_ok()
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
    digest(&format!("{VERSION} {weights_sha256} {}", serde_json::json!(basis)))
}

/// The same of all that other images or a closer look do not change: statistics that differ in these alone can be compared.
fn family(weights_sha256: &str, basis: &Basis) -> Tensor {
    let Basis { id, u, temperature, posterior_sha256, .. } = basis;
    digest(&format!("{VERSION} {weights_sha256} {}", serde_json::json!([id, u, temperature, posterior_sha256])))
}

/// The same of the weights alone: statistics of others are of no use any more.
fn weights(weights_sha256: &str) -> Tensor {
    digest(&format!("{VERSION} {weights_sha256}"))
}

/// The same of the model alone, for who brings pictures and no training images.
pub(super) fn of_model(weights_sha256: &str, u: &str, temperature: Option<f64>, posterior: Option<&str>) -> Tensor {
    digest(&format!("{VERSION} {weights_sha256} {}", serde_json::json!([u, temperature, posterior])))
}

fn digest(text: &str) -> Tensor {
    let digest = Sha256::digest(text);
    Tensor::from_slice(&digest.iter().map(|&byte| i64::from(byte)).collect::<Vec<_>>())
}

/// Where statistics are kept, and under which signature.
#[derive(Debug)]
pub struct StatisticsCache {
    /// The file.
    pub path: PathBuf,
    /// See [`signature`].
    signature: Tensor,
    /// The signature of the same with gradients, for who asks for none.
    fuller: Option<Tensor>,
    family: Tensor,
    weights: Tensor,
    /// See [`of_model`].
    model: Tensor,
}

impl StatisticsCache {
    /// A file for statistics of these weights.
    pub fn new(path: PathBuf, weights_sha256: &str, basis: &Basis) -> Self {
        let with = Basis {
            gradients: true,
            images: basis.images.clone(),
            u: basis.u.clone(),
            posterior_sha256: basis.posterior_sha256.clone(),
            ..*basis
        };
        Self {
            path,
            signature: signature(weights_sha256, basis),
            fuller: (!basis.gradients).then(|| signature(weights_sha256, &with)),
            family: family(weights_sha256, basis),
            weights: weights(weights_sha256),
            model: of_model(weights_sha256, &basis.u, basis.temperature, basis.posterior_sha256.as_deref()),
        }
    }

    /// What is kept of these images, from a look that was as close or closer.
    pub fn read(&self) -> Option<Statistics> {
        let fuller = || {
            let all = Statistics::read(&self.path, self.fuller.as_ref()?)?;
            Some(Statistics { leading: Vec::new(), ..all })
        };
        Statistics::read(&self.path, &self.signature).or_else(fuller)
    }

    /// Writes statistics, unless the file holds fuller ones of the same weights: of more images, or of as many with gradients or
    /// with another U, temperature or ID set. Whether it did.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn keep(&self, statistics: &Statistics) -> Result<bool> {
        if self.holds_more_than(statistics).unwrap_or(false) {
            return Ok(false);
        }
        let signatures = [
            ("signature", &self.signature),
            ("family", &self.family),
            ("weights", &self.weights),
            ("model", &self.model),
        ];
        statistics.write(&self.path, &signatures)?;
        Ok(true)
    }

    fn holds_more_than(&self, statistics: &Statistics) -> Option<bool> {
        let tensors = checkpoint::load(&self.path).ok()?.tensors;
        let is_family = tensors.get("family")? == &self.family;
        if !is_family && tensors.get("weights")? != &self.weights {
            return Some(false);
        }
        let rows = tensors.iter().find(|(name, _)| name.starts_with("column/")).map_or(0, |(_, column)| column.numel());
        let own = statistics.columns.values().next().map_or(0, Vec::len);
        let closer = self.fuller.is_some() && tensors.keys().any(|name| name.starts_with("leading/"));
        Some(rows > own || rows == own && (closer || !is_family))
    }
}
