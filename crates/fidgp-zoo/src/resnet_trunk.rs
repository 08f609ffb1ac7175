//! What the ResNets have in common: stem and residual blocks, with or without dilation, under torchvision's names.

use std::ops::Range;

use fidgp::layer::{Conv2dConfig, Pass};
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::resnet_block::{Block, BlockConfig, NormedConv, forward_normed, normed};
use crate::{Error, Result};

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

/// Sizes of a trunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrunkConfig {
    /// Which ResNet.
    pub depth: Depth,
    /// How the image enters.
    pub stem: Stem,
    /// Channels in.
    pub channels: i64,
    /// Channels of the first stage.
    pub width: i64,
    /// Stages (`layer2`, `layer3`, `layer4`) that dilate their kernels where they would halve the image.
    pub dilated: [bool; 3],
}

impl TrunkConfig {
    /// Channels after each of the four stages.
    pub(crate) fn features(&self, stage: usize) -> i64 {
        (self.width << stage) * if self.depth == Depth::D50 { 4 } else { 1 }
    }

    /// Blocks of each of the four stages.
    pub(crate) fn counts(&self) -> [usize; 4] {
        match self.depth {
            Depth::D18 => [2; 4],
            Depth::D34 | Depth::D50 => [3, 4, 6, 3],
        }
    }

    fn stem_conv(&self) -> Conv2dConfig {
        match self.stem {
            Stem::Cifar => Conv2dConfig::same(self.channels, self.width, 3),
            Stem::Imagenet => Conv2dConfig::same(self.channels, self.width, 7).stride(2),
        }
    }

    /// Name and sizes of every block. As in torchvision, the first block of a dilated stage still has the dilation of
    /// the stage before.
    fn blocks(&self) -> Vec<(String, BlockConfig)> {
        let (mut inputs, mut dilation) = (self.width, 1);
        let mut blocks = Vec::new();
        for (stage, count) in self.counts().into_iter().enumerate() {
            let dilates = stage > 0 && self.dilated[stage - 1];
            let before = dilation;
            dilation *= if dilates { 2 } else { 1 };
            for index in 0..count {
                let stride = if stage > 0 && index == 0 && !dilates { 2 } else { 1 };
                let block = BlockConfig {
                    inputs,
                    width: self.width << stage,
                    stride,
                    dilation: if index == 0 { before } else { dilation },
                    bottleneck: self.depth == Depth::D50,
                };
                inputs = block.outputs();
                blocks.push((format!("layer{}.{index}", stage + 1), block));
            }
        }
        blocks
    }

    /// The trunk, its names behind the prefix, without numbers yet.
    pub(crate) fn trunk(&self, prefix: &str) -> Result<Trunk> {
        let blocks = self.blocks().into_iter().map(|(name, block)| block.block(&format!("{prefix}{name}")));
        Ok(Trunk {
            stem: normed(format!("{prefix}conv1"), format!("{prefix}bn1"), self.stem_conv())?,
            pool: self.stem == Stem::Imagenet,
            blocks: blocks.collect::<Result<_>>()?,
        })
    }
}

/// Stem and blocks.
#[derive(Debug)]
pub(crate) struct Trunk {
    stem: NormedConv,
    pool: bool,
    blocks: Vec<Block>,
}

fidgp::layers!(Trunk: stem, blocks);

impl Trunk {
    /// The stem and each block.
    pub(crate) fn steps(&self) -> usize {
        self.blocks.len() + 1
    }

    /// Some of them, one after the other.
    pub(crate) fn forward(&self, steps: Range<usize>, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        pass.blocks(x, steps, |step, h, pass| match step {
            0 => self.enter(h, pass),
            _ => self.blocks[step - 1].forward(h, pass),
        })
    }

    fn enter(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let h = forward_normed(&self.stem, x, pass)?.relu_();
        Ok(if self.pool { h.max_pool2d([3, 3], [2, 2], [1, 1], [1, 1], false) } else { h })
    }
}
