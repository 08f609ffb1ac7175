//! What a network's outputs mean.

use fidgp::layer::Curvature;
use fidgp::objective::{Gaussian, categorical_curvature, categorical_nll, pixel_mass, pixel_nll};
use tch::nn::Path;
use tch::{Kind, Tensor};

use super::Signature;
use crate::config::{LikelihoodConfig, RunConfig};
use crate::error::{LabError, Result};

/// What a network's outputs mean.
#[derive(Debug)]
pub enum Likelihood {
    /// Mean (and perhaps deviation) of a number.
    Gaussian(Gaussian),
    /// Logits of classes.
    Categorical {
        /// Label smoothing in training.
        smoothing: f64,
    },
    /// Logits of classes for every pixel.
    Pixels(Pixels),
}

/// What the outputs of a segmentation network mean.
#[derive(Debug)]
pub struct Pixels {
    /// Number of classes.
    pub classes: i64,
    /// Outputs of the head; those of the auxiliary head stand behind them in training.
    outputs: i64,
    /// Weight of the auxiliary head's loss.
    aux_weight: f64,
    /// How much a pixel of each class counts. `[classes]`
    weights: Option<Tensor>,
}

impl Pixels {
    /// Loss of the head, and of the auxiliary head where it has spoken. Scalar.
    fn nll(&self, outputs: &Tensor, targets: &Tensor) -> Tensor {
        let of = |first: i64| pixel_nll(&outputs.narrow(1, first, self.classes), targets, self.weights.as_ref());
        if outputs.size()[1] > self.outputs { of(0) + of(self.outputs) * self.aux_weight } else { of(0) }
    }
}

impl Likelihood {
    /// Mean negative log-likelihood of a batch; targets are repeated for each member of the network. Scalar.
    pub fn nll(&self, outputs: &Tensor, targets: &Tensor) -> Tensor {
        let members = outputs.size()[0] / targets.size()[0].max(1);
        let times: Vec<_> = std::iter::once(members).chain(targets.size().iter().skip(1).map(|_| 1)).collect();
        let repeated = if members > 1 { targets.repeat(times) } else { targets.shallow_clone() };
        let targets = &repeated;
        match self {
            Self::Gaussian(gaussian) => gaussian.nll(outputs, targets),
            Self::Categorical { smoothing } => categorical_nll(outputs, targets, *smoothing),
            Self::Pixels(pixels) => pixels.nll(outputs, targets),
        }
    }

    /// What the mean NLL of these targets counts beside that of others: rows, or pixels that have a class by their weight.
    pub fn mass(&self, targets: &Tensor) -> f64 {
        match self {
            Self::Pixels(pixels) => pixel_mass(targets, pixels.weights.as_ref()).double_value(&[]),
            Self::Gaussian(_) | Self::Categorical { .. } => targets.size().first().copied().unwrap_or(0) as f64,
        }
    }

    /// Expected second derivatives of the NLL by the outputs. `[N, K]`
    pub fn curvature(&self, outputs: &Tensor) -> Curvature {
        match self {
            Self::Gaussian(gaussian) => gaussian.curvature(outputs),
            Self::Categorical { .. } | Self::Pixels(_) => categorical_curvature(outputs),
        }
    }
}

/// The likelihood of a config, and the outputs it needs of the network.
pub(super) fn likelihood(root: &Path, config: &RunConfig, signature: &Signature) -> Result<(Likelihood, i64)> {
    match (&config.likelihood, signature) {
        (LikelihoodConfig::Gaussian { noise, beta_nll }, Signature::Regression { .. }) => {
            let path = root / "likelihood";
            let gaussian = match config.copies() {
                1 => Gaussian::init(&path, *noise)?,
                members => Gaussian::of_members(&path, *noise, members)?,
            };
            let gaussian = gaussian.weighted(*beta_nll)?;
            Ok((Likelihood::Gaussian(gaussian), Gaussian::outputs(*noise)))
        }
        (LikelihoodConfig::Categorical { smoothing }, Signature::Classification { classes, .. }) => {
            Ok((Likelihood::Categorical { smoothing: *smoothing }, *classes))
        }
        (LikelihoodConfig::Pixels { aux_weight, class_weights }, Signature::Segmentation { classes, .. }) => {
            let outputs = config.network.outputs(*classes);
            if outputs < *classes {
                let why = format!("{outputs} is less than the {classes} classes of the data");
                return Err(LabError::config("network.outputs", why));
            }
            let to = |weights: &Vec<f64>| Tensor::from_slice(weights).to_kind(Kind::Float).to_device(root.device());
            let weights = class_weights.as_ref().map(to);
            Ok((Likelihood::Pixels(Pixels { classes: *classes, outputs, aux_weight: *aux_weight, weights }), *classes))
        }
        (other, _) => {
            let given = match other {
                LikelihoodConfig::Gaussian { .. } => "gaussian",
                LikelihoodConfig::Categorical { .. } => "categorical",
                LikelihoodConfig::Pixels { .. } => "pixels",
            };
            let (what, fits) = match signature {
                Signature::Regression { .. } => ("a number", "gaussian"),
                Signature::Classification { .. } => ("class labels", "categorical"),
                Signature::Segmentation { .. } => ("masks", "pixels"),
            };
            Err(LabError::config("likelihood.kind", format!("= \"{given}\" does not fit {what}; use \"{fits}\"")))
        }
    }
}
