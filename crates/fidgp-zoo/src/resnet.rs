//! He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition (2016). ResNet-18/34/50, named as in torchvision.

use fidgp::Key;
use fidgp::layer::{Linear, Network, Pass, Slot};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use crate::parts::Parts;
use crate::resnet_trunk::{Trunk, TrunkConfig};
use crate::{Error, LayerGeometry, LayerPlan, Result};

/// How the image enters the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stem {
    /// A 3×3 convolution at stride 1 and no pooling, for 32×32 images.
    Cifar,
    /// A 7×7 convolution at stride 2 and a 3×3 max-pool at stride 2, for 224×224 images.
    Imagenet,
}

/// Which ResNet; written as its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub enum Depth {
    /// Basic blocks 2-2-2-2.
    D18,
    /// Basic blocks 3-4-6-3.
    D34,
    /// Bottlenecks 3-4-6-3.
    D50,
}

impl TryFrom<i64> for Depth {
    type Error = Error;

    fn try_from(depth: i64) -> Result<Self> {
        match depth {
            18 => Ok(Self::D18),
            34 => Ok(Self::D34),
            50 => Ok(Self::D50),
            _ => Err(Error::setting("depth", depth, "must be 18, 34 or 50; `resnet-cifar` has 20 and 56")),
        }
    }
}

impl From<Depth> for i64 {
    fn from(depth: Depth) -> Self {
        match depth {
            Depth::D18 => 18,
            Depth::D34 => 34,
            Depth::D50 => 50,
        }
    }
}

/// Sizes of a [`Resnet`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResnetConfig {
    /// Number of layers.
    pub depth: Depth,
    /// How the image enters.
    pub stem: Stem,
    /// Classes.
    pub classes: i64,
    /// Channels in.
    pub channels: i64,
    /// Channels of the first stage, 64 in the paper; later stages have 2, 4 and 8 times as many.
    pub width: i64,
}

impl Default for ResnetConfig {
    fn default() -> Self {
        Self { depth: Depth::D18, stem: Stem::Cifar, classes: 100, channels: 3, width: 64 }
    }
}

impl ResnetConfig {
    /// ResNet-18 for 32×32 images.
    pub fn cifar(classes: i64) -> Self {
        Self { classes, ..Self::default() }
    }

    /// ResNet-18 for 224×224 images.
    pub fn imagenet() -> Self {
        Self { stem: Stem::Imagenet, classes: 1000, ..Self::default() }
    }

    /// Builds the network under `path`.
    ///
    /// # Errors
    /// When a size is not positive, a setting is out of range, or the plan names a layer there is not.
    pub fn init(&self, path: &Path, plan: &LayerPlan, key: Key) -> Result<Resnet> {
        self.check()?;
        plan.check(&self.geometry([32, 32]))?;
        let parts = Parts::new(path, plan, key);
        Ok(Resnet { trunk: self.trunk().init(&parts)?, fc: parts.linear("fc", self.features(), self.classes)? })
    }

    /// Its layers, for images of the given height and width.
    pub fn geometry(&self, input: [i64; 2]) -> Vec<LayerGeometry> {
        let (mut layers, _) = self.trunk().geometry("", input);
        layers.push(LayerGeometry::linear("fc", self.features(), self.classes));
        layers
    }

    /// Width of the penultimate features.
    pub fn features(&self) -> i64 {
        self.trunk().features(3)
    }

    fn trunk(&self) -> TrunkConfig {
        let Self { depth, stem, channels, width, .. } = *self;
        TrunkConfig { depth, stem, channels, width, dilated: [false; 3] }
    }

    fn check(&self) -> Result<()> {
        for (setting, value) in [("classes", self.classes), ("channels", self.channels), ("width", self.width)] {
            if value < 1 {
                return Err(Error::setting(setting, value, "must be at least 1"));
            }
        }
        Ok(())
    }
}

/// A residual network.
#[derive(Debug)]
pub struct Resnet {
    trunk: Trunk,
    fc: Linear,
}

impl Network for Resnet {
    /// Taps: every convolution by name, `fc`, and `features`, the pooled output of the last block.
    ///
    /// # Shapes
    /// `[N, channels, H, W]` → `[N, classes]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        (0..self.stages()).try_fold(x.shallow_clone(), |h, index| self.stage(index, &h, pass))
    }

    /// The stem, each block, and the head.
    fn stages(&self) -> usize {
        self.trunk.stages() + 1
    }

    fn stage(&self, index: usize, h: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        if let Some(h) = self.trunk.stage(index, h, pass) {
            return h;
        }
        let h = h.mean_dim([2i64, 3].as_slice(), false, h.kind());
        pass.tap("features", &h);
        self.fc.forward(&h, pass)
    }

    fn first_drawn_stage(&self) -> usize {
        self.trunk.first_drawn_stage()
    }

    fn slots(&self) -> Vec<&Slot> {
        self.trunk.slots().chain([&self.fc.slot]).collect()
    }
}
