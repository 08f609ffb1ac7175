//! He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition (2016), section 4.2: ResNet-20/32/44/56/110 for CIFAR.
//!
//! The shortcuts are "option A": where the shape changes the image is subsampled and padded with zero channels, so they
//! have no parameters. Layer names are those of the weights in common use: `conv1`, `layer1.0.conv1`, …, `linear`.

use fidgp::Key;
use fidgp::layer::{Conv2dConfig, Linear, Network, Pass, Slot};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use crate::parts::Parts;
use crate::resnet_block::{NormedConv, forward_normed, push_normed};
use crate::{Error, LayerGeometry, LayerPlan, Result};

/// Sizes of a [`ResnetCifar`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResnetCifarConfig {
    /// Number of layers, 6n + 2: 20, 32, 44, 56, 110.
    pub depth: i64,
    /// Classes.
    pub classes: i64,
    /// Channels of the first stage, 16 in the paper.
    pub width: i64,
}

impl Default for ResnetCifarConfig {
    fn default() -> Self {
        Self { depth: 20, classes: 10, width: 16 }
    }
}

/// Name of a block and its two convolutions.
type BlockPlan = (String, [Conv2dConfig; 2]);

impl ResnetCifarConfig {
    /// Builds the network under `path`.
    ///
    /// # Errors
    /// When the depth is not 6n + 2, a size is not positive, or the plan names a layer there is not.
    pub fn init(&self, path: &Path, plan: &LayerPlan, key: Key) -> Result<ResnetCifar> {
        self.check()?;
        plan.check(&self.geometry([32, 32]))?;
        let parts = Parts::new(path, plan, key);
        let normed = |parts: &Parts, i: usize, config: Conv2dConfig| -> Result<NormedConv> {
            Ok((parts.conv(&format!("conv{i}"), config)?, parts.batch_norm(&format!("bn{i}"), config.out_channels)))
        };
        let blocks = self.blocks().map(|(name, [first, second])| {
            let parts = parts.sub(&name);
            Ok(OptionABlock { first: normed(&parts, 1, first)?, second: normed(&parts, 2, second)? })
        });
        Ok(ResnetCifar {
            stem: normed(&parts, 1, self.stem())?,
            blocks: blocks.collect::<Result<_>>()?,
            linear: parts.linear("linear", 4 * self.width, self.classes)?,
        })
    }

    /// Its layers, for images of the given height and width.
    pub fn geometry(&self, input: [i64; 2]) -> Vec<LayerGeometry> {
        let mut layers = Vec::new();
        push_normed(&mut layers, ("conv1".into(), "bn1".into()), self.stem(), input);
        for (name, convs) in self.blocks() {
            for (config, i) in convs.into_iter().zip(1..) {
                let size = layers[layers.len() - 1].output;
                push_normed(&mut layers, (format!("{name}.conv{i}"), format!("{name}.bn{i}")), config, size);
            }
        }
        layers.push(LayerGeometry::linear("linear", 4 * self.width, self.classes));
        layers
    }

    fn stem(&self) -> Conv2dConfig {
        Conv2dConfig::same(3, self.width, 3)
    }

    fn blocks(&self) -> impl Iterator<Item = BlockPlan> {
        let (count, base) = ((self.depth - 2) / 6, self.width);
        (0..3).flat_map(move |stage| {
            (0..count).map(move |index| {
                let width = base << stage;
                let (inputs, stride) = if stage > 0 && index == 0 { (width / 2, 2) } else { (width, 1) };
                let first = Conv2dConfig::same(inputs, width, 3).stride(stride);
                (format!("layer{}.{index}", stage + 1), [first, Conv2dConfig::same(width, width, 3)])
            })
        })
    }

    fn check(&self) -> Result<()> {
        if self.depth < 8 || (self.depth - 2) % 6 != 0 {
            return Err(Error::setting("depth", self.depth, "must be 6n + 2: 20, 32, 44, 56 or 110"));
        }
        for (setting, value) in [("classes", self.classes), ("width", self.width)] {
            if value < 1 {
                return Err(Error::setting(setting, value, "must be at least 1"));
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct OptionABlock {
    first: NormedConv,
    second: NormedConv,
}

impl OptionABlock {
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let h = forward_normed(&self.first, x, pass)?.relu();
        let h = forward_normed(&self.second, &h, pass)?;
        Ok((h + self.shortcut(x)).relu())
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        [&self.first.0.slot, &self.second.0.slot].into_iter()
    }

    /// x itself, or every second pixel with zero channels on both sides.
    fn shortcut(&self, x: &Tensor) -> Tensor {
        let config = &self.first.0.config;
        let missing = config.out_channels - config.in_channels;
        if missing == 0 {
            return x.shallow_clone();
        }
        let sampled = x.slice(2, None, None, config.stride[0]).slice(3, None, None, config.stride[1]);
        sampled.constant_pad_nd([0, 0, 0, 0, missing / 2, missing - missing / 2])
    }
}

/// A residual network for CIFAR with option-A shortcuts.
#[derive(Debug)]
pub struct ResnetCifar {
    stem: NormedConv,
    blocks: Vec<OptionABlock>,
    linear: Linear,
}

impl Network for ResnetCifar {
    /// Taps: every convolution by name, `linear`, and `features`, the pooled output of the last block.
    ///
    /// # Shapes
    /// `[N, 3, H, W]` → `[N, classes]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        (0..self.stages()).try_fold(x.shallow_clone(), |h, index| self.stage(index, &h, pass))
    }

    /// The stem, each block, and the head.
    fn stages(&self) -> usize {
        self.blocks.len() + 2
    }

    fn stage(&self, index: usize, h: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        if index == 0 {
            return Ok(forward_normed(&self.stem, h, pass)?.relu());
        }
        if let Some(block) = self.blocks.get(index - 1) {
            return block.forward(h, pass);
        }
        let h = h.mean_dim([2i64, 3].as_slice(), false, h.kind());
        pass.tap("features", &h);
        self.linear.forward(&h, pass)
    }

    fn first_drawn_stage(&self) -> usize {
        if self.stem.0.slot.is_random() {
            return 0;
        }
        let drawn = |block: &OptionABlock| block.slots().any(Slot::is_random);
        1 + self.blocks.iter().position(drawn).unwrap_or(self.blocks.len())
    }

    fn slots(&self) -> Vec<&Slot> {
        let blocks = self.blocks.iter().flat_map(OptionABlock::slots);
        std::iter::once(&self.stem.0.slot).chain(blocks).chain([&self.linear.slot]).collect()
    }
}
