//! Which method's weight a layer holds, what it stores and how it is made from a plain one.

use fidgp::Key;
use fidgp::layer::{CustomWeight, DenseWeight, LayerGeometry, MakeWeight, PlannedWeight, Role};
use serde::{Deserialize, Serialize};
use tch::nn::Path;

use super::batch_ensemble::{BatchEnsembleConfig, BatchEnsembleWeight};
use super::ddu::DduHead;
use super::dropout::{DropoutConfig, DroppedInputs};
use super::laplace::{LaplaceConfig, LaplaceHead};
use super::mean_field::{MeanFieldConfig, MeanFieldWeight};
use super::sngp::{SngpConfig, SngpHead};
use super::spectral::SpectralWeight;
use super::svgp_head::{SvgpConfig, SvgpHead};
use crate::{Error, Result};

/// The weight of a method FiD-GP is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaselineSlot {
    /// MC dropout.
    Dropout(DropoutConfig),
    /// Mean-field variational inference.
    MeanField(MeanFieldConfig),
    /// BatchEnsemble.
    BatchEnsemble(BatchEnsembleConfig),
    /// A bound on the spectral norm.
    Spectral(f64),
    /// A Gaussian process in random features, for the last layer.
    Sngp(SngpConfig),
    /// Sparse variational Gaussian processes, for the last layer.
    Svgp(SvgpConfig),
    /// A density of the last layer's inputs.
    Ddu,
    /// A Laplace posterior of the last layer.
    Laplace(LaplaceConfig),
}

impl MakeWeight for BaselineSlot {
    fn make(&self, planned: &PlannedWeight, path: &Path, key: Key) -> fidgp::Result<Box<dyn CustomWeight>> {
        if let Some(head) = self.head(planned, path, key).map_err(Error::into_method)? {
            return Ok(head);
        }
        let role = if matches!(self, Self::MeanField(_)) { Role::Undecayed } else { Role::Decayed };
        let own_bias = matches!(self, Self::BatchEnsemble(_)); // one for every member, in place of the plain one
        let dense = planned.dense(&role.of(path), planned.bias && !own_bias, key);
        self.wrap(path, dense, planned.bias, key).map_err(Error::into_method)
    }

    fn is_random(&self) -> bool {
        matches!(self, Self::Dropout(_) | Self::MeanField(_) | Self::Svgp(_) | Self::Laplace(_))
    }
}

impl BaselineSlot {
    /// In place of a plain weight: the head of a linear layer, for a method that uses nothing of it.
    fn head(&self, planned: &PlannedWeight, path: &Path, key: Key) -> Result<Option<Box<dyn CustomWeight>>> {
        let (&[outputs, inputs], name) = (&planned.shape[..], &planned.name) else { return Ok(None) };
        Ok(match self {
            Self::Sngp(config) => Some(Box::new(SngpHead::init(path, [outputs, inputs], name, config, key)?)),
            Self::Svgp(config) => Some(Box::new(SvgpHead::init(path, [outputs, inputs], name, config, key)?)),
            _ => None,
        })
    }

    /// Makes the weight from a plain one.
    fn wrap(&self, path: &Path, dense: DenseWeight, bias: bool, key: Key) -> Result<Box<dyn CustomWeight>> {
        Ok(match self {
            Self::Dropout(config) => {
                config.check()?;
                Box::new(DroppedInputs::new(dense, *config))
            }
            Self::MeanField(config) => Box::new(MeanFieldWeight::init(path, dense, config)?),
            Self::BatchEnsemble(config) => Box::new(BatchEnsembleWeight::init(path, dense, bias, config, key)?),
            Self::Spectral(bound) => Box::new(SpectralWeight::init(path, dense, *bound, key)?),
            Self::Ddu => Box::new(DduHead::init(path, dense)?),
            Self::Laplace(config) => Box::new(LaplaceHead::init(path, dense, *config)?),
            Self::Sngp(_) | Self::Svgp(_) => {
                return Err(Error::setting(
                    "layers",
                    &dense.name,
                    "a Gaussian process is for the last, linear layer only",
                ));
            }
        })
    }

    /// Trainable numbers of a layer: `d_out·d_in` (dropout, spectral, DDU, Laplace), `2·d_out·d_in` (mean field), or
    /// `d_out·d_in + K(d_in + d_out)` and K biases (BatchEnsemble); those of the head in place of it (SNGP, SVGP).
    pub fn parameters(&self, layer: &LayerGeometry) -> i64 {
        let plain = layer.dense_parameters();
        let (outputs, inputs, biases) = layer.operation.widths();
        match self {
            Self::Dropout(_) | Self::Spectral(_) | Self::Ddu | Self::Laplace(_) => plain,
            Self::MeanField(_) => 2 * plain,
            Self::Sngp(config) => SngpHead::cost(config, [outputs, inputs])[0],
            Self::Svgp(config) => SvgpHead::cost(config, [outputs, inputs])[0],
            Self::BatchEnsemble(config) => plain - biases + config.members * (inputs + outputs + biases),
        }
    }

    /// Multiply-accumulates of one image, where they are not those of the plain layer.
    pub fn macs(&self, layer: &LayerGeometry) -> Option<i64> {
        let (outputs, inputs, _) = layer.operation.widths();
        match self {
            Self::Sngp(config) => Some(SngpHead::cost(config, [outputs, inputs])[2]),
            Self::Svgp(config) => Some(SvgpHead::cost(config, [outputs, inputs])[1]),
            Self::Ddu => Some(layer.macs() + DduHead::cost([outputs, inputs])[1]),
            _ => None,
        }
    }

    /// Multiply-accumulates of one draw of the weight; the noise of dropout and of mean field is elementwise, and the
    /// processes of SVGP are drawn for each image.
    pub fn draw_macs(&self, layer: &LayerGeometry) -> i64 {
        let (outputs, inputs, _) = layer.operation.widths();
        match self {
            Self::Laplace(config) => LaplaceHead::draw_macs(config, [outputs, inputs]),
            _ => 0,
        }
    }

    /// Stored numbers that are not trained: random features and precisions, densities, or the power iteration's two
    /// vectors.
    pub fn state(&self, layer: &LayerGeometry) -> i64 {
        let (outputs, inputs, biases) = layer.operation.widths();
        match (self, layer.weight()) {
            (Self::Sngp(config), _) => SngpHead::cost(config, [outputs, inputs])[1],
            (Self::Ddu, _) => DduHead::cost([outputs, inputs])[0],
            (Self::Laplace(config), _) => LaplaceHead::state(config, [outputs, inputs]),
            (Self::Spectral(_), Some((d_out, d_in))) => d_out + d_in - i64::from(biases > 0),
            _ => 0,
        }
    }
}
