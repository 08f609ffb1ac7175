//! He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition (2016). ResNet-18/34/50, named as in torchvision.

use fidgp::Key;
use fidgp::layer::{Linear, Network, Pass};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use crate::architecture::check_width;
pub use crate::resnet_trunk::{Depth, Stem};
use crate::resnet_trunk::{Trunk, TrunkConfig};
use crate::{Architecture, Error, LayerPlan, Result, Takes, build};

/// Sizes of a [`Resnet`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResnetConfig {
    /// Number of layers.
    pub depth: Depth,
    /// How the image enters.
    pub stem: Stem,
    /// Classes: the data's.
    #[serde(skip, default = "ResnetConfig::usual_classes")]
    pub classes: i64,
    /// Channels in: the data's.
    #[serde(skip, default = "ResnetConfig::usual_channels")]
    pub channels: i64,
    /// Channels of the first stage, 64 in the paper; later stages have 2, 4 and 8 times as many.
    #[serde(default = "ResnetConfig::usual_width")]
    pub width: i64,
    /// Upper bound of the spectral norm of every layer but the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spectral_norm: Option<f64>,
}

impl Default for ResnetConfig {
    fn default() -> Self {
        let (depth, stem) = (Depth::D18, Stem::Cifar);
        Self { depth, stem, classes: 100, channels: 3, width: 64, spectral_norm: None }
    }
}

impl ResnetConfig {
    fn usual_classes() -> i64 {
        Self::default().classes
    }

    fn usual_channels() -> i64 {
        Self::default().channels
    }

    pub(crate) fn usual_width() -> i64 {
        Self::default().width
    }

    /// ResNet-18 for 32×32 images.
    pub fn cifar(classes: i64) -> Self {
        Self { classes, ..Self::default() }
    }

    /// ResNet-18 for 224×224 images.
    pub fn imagenet() -> Self {
        Self { stem: Stem::Imagenet, classes: 1000, ..Self::default() }
    }

    /// The plain network, without numbers yet.
    ///
    /// # Errors
    /// When a size is not positive.
    pub fn network(&self) -> Result<Resnet> {
        self.check_sizes()?;
        Ok(Resnet { trunk: self.trunk().trunk("")?, fc: Linear::new("fc", self.features(), self.classes, true)? })
    }

    /// The network by a plan, its numbers under `path`.
    ///
    /// # Errors
    /// As [`Self::network`] and [`build`].
    pub fn init(&self, path: &Path, plan: &LayerPlan, key: Key) -> Result<Resnet> {
        build(self.network()?, path, plan, key)
    }

    /// Width of the penultimate features.
    pub fn features(&self) -> i64 {
        self.trunk().features(3)
    }

    fn trunk(&self) -> TrunkConfig {
        let Self { depth, stem, channels, width, .. } = *self;
        TrunkConfig { depth, stem, channels, width, dilated: [false; 3] }
    }

    fn check_sizes(&self) -> Result<()> {
        for (setting, value) in [("classes", self.classes), ("channels", self.channels), ("width", self.width)] {
            if value < 1 {
                return Err(Error::setting(setting, value, "must be at least 1"));
            }
        }
        Ok(())
    }
}

impl Architecture for ResnetConfig {
    fn takes(&self) -> Takes {
        Takes::Images
    }

    fn fit(&mut self, input: &[i64], outputs: i64) -> Result<()> {
        (self.channels, self.classes) = (input.first().copied().unwrap_or(self.channels), outputs);
        Ok(())
    }

    fn network(&self) -> Result<Box<dyn Network>> {
        Ok(Box::new(self.network()?))
    }

    fn name(&self) -> String {
        format!("resnet-{}", i64::from(self.depth))
    }

    fn check(&self) -> Result<()> {
        check_width(self.width)
    }

    fn spectral_norm(&self) -> Option<f64> {
        self.spectral_norm
    }

    fn unbind(&mut self) {
        self.spectral_norm = None;
    }
}

/// A residual network.
#[derive(Debug)]
pub struct Resnet {
    trunk: Trunk,
    fc: Linear,
}

fidgp::layers!(Resnet: trunk, fc);

impl Network for Resnet {
    /// Taps: every convolution by name, and `fc`.
    ///
    /// # Shapes
    /// `[N, channels, H, W]` → `[N, classes]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let h = self.trunk.forward(0..self.trunk.steps(), x, pass)?;
        let h = h.mean_dim([2i64, 3].as_slice(), false, h.kind());
        self.fc.forward(&h, pass)
    }

    fn takes_empty_batches(&self) -> bool {
        true
    }
}
