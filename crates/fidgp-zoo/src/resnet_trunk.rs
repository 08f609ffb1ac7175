//! What the ResNets have in common: stem and residual blocks, with or without dilation, under torchvision's names.

use fidgp::layer::{Conv2dConfig, Pass, Slot};
use tch::Tensor;

use crate::parts::Parts;
use crate::resnet::{Depth, Stem};
use crate::resnet_block::{Block, BlockConfig, NormedConv, forward_normed, push_normed};
use crate::{LayerGeometry, Result};

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

    /// Builds the trunk.
    pub(crate) fn init(&self, parts: &Parts) -> Result<Trunk> {
        let blocks = self.blocks().into_iter().map(|(name, block)| block.init(&parts.sub(&name)));
        Ok(Trunk {
            stem: (parts.conv("conv1", self.stem_conv())?, parts.batch_norm("bn1", self.width)),
            pool: self.stem == Stem::Imagenet,
            blocks: blocks.collect::<Result<_>>()?,
        })
    }

    /// Its layers, their names behind the prefix, and the size of the image after each stage.
    pub(crate) fn geometry(&self, prefix: &str, input: [i64; 2]) -> (Vec<LayerGeometry>, [[i64; 2]; 4]) {
        let mut layers = Vec::new();
        let stem = (format!("{prefix}conv1"), format!("{prefix}bn1"));
        push_normed(&mut layers, stem, self.stem_conv(), input);
        let mut size = layers[0].output;
        if self.stem == Stem::Imagenet {
            size = size.map(|side| (side - 1) / 2 + 1);
        }
        let mut after = Vec::new();
        for (name, block) in self.blocks() {
            layers.extend(block.geometry(&format!("{prefix}{name}"), size));
            size = size.map(|side| (side - 1) / block.stride + 1);
            after.push(size);
        }
        let mut last = 0;
        let stages = self.counts().map(|count| {
            last += count;
            after[last - 1]
        });
        (layers, stages)
    }
}

/// Stem and blocks.
#[derive(Debug)]
pub(crate) struct Trunk {
    stem: NormedConv,
    pool: bool,
    blocks: Vec<Block>,
}

impl Trunk {
    /// The stem and each block.
    pub(crate) fn stages(&self) -> usize {
        self.blocks.len() + 1
    }

    /// One of them; none where the trunk has ended.
    pub(crate) fn stage(&self, index: usize, h: &Tensor, pass: &mut Pass) -> Option<fidgp::Result<Tensor>> {
        if index > 0 {
            return self.blocks.get(index - 1).map(|block| block.forward(h, pass));
        }
        Some(forward_normed(&self.stem, h, pass).map(|mut h| {
            let h = h.relu_();
            if self.pool { h.max_pool2d([3, 3], [2, 2], [1, 1], [1, 1], false) } else { h }
        }))
    }

    /// The first stage that is random in evaluation; the number of stages where none is.
    pub(crate) fn first_drawn_stage(&self) -> usize {
        if self.stem.0.slot.is_random() {
            return 0;
        }
        let drawn = |block: &Block| block.slots().any(Slot::is_random);
        1 + self.blocks.iter().position(drawn).unwrap_or(self.blocks.len())
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        std::iter::once(&self.stem.0.slot).chain(self.blocks.iter().flat_map(Block::slots))
    }
}
