//! He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition (2016), section 4.2: ResNet-20/32/44/56/110 for CIFAR.
//!
//! The shortcuts are "option A": where the shape changes the image is subsampled and padded with zero channels, so they
//! have no parameters. Layer names are those of the weights in common use: `conv1`, `layer1.0.conv1`, …, `linear`.

use fidgp::Key;
use fidgp::layer::{Conv2dConfig, Linear, Network, Pass};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use crate::resnet_block::{NormedConv, forward_normed, normed};
use crate::{Architecture, Error, LayerPlan, Result, Takes, build};

/// Sizes of a [`ResnetCifar`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResnetCifarConfig {
    /// Number of layers, 6n + 2: 20, 32, 44, 56, 110.
    pub depth: i64,
    /// Classes: the data's.
    #[serde(skip, default = "ResnetCifarConfig::usual_classes")]
    pub classes: i64,
    /// Channels of the first stage, 16 in the paper.
    #[serde(skip, default = "ResnetCifarConfig::usual_width")]
    pub width: i64,
    /// Upper bound of the spectral norm of every layer but the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spectral_norm: Option<f64>,
}

impl Default for ResnetCifarConfig {
    fn default() -> Self {
        Self { depth: 20, classes: 10, width: 16, spectral_norm: None }
    }
}

/// Name of a block and its two convolutions.
type BlockPlan = (String, [Conv2dConfig; 2]);

impl ResnetCifarConfig {
    fn usual_classes() -> i64 {
        Self::default().classes
    }

    fn usual_width() -> i64 {
        Self::default().width
    }

    /// The plain network, without numbers yet.
    ///
    /// # Errors
    /// When the depth is not 6n + 2 or a size is not positive.
    pub fn network(&self) -> Result<ResnetCifar> {
        self.check_sizes()?;
        let blocks = self.blocks().map(|(name, [first, second])| {
            Ok(OptionABlock {
                first: normed(format!("{name}.conv1"), format!("{name}.bn1"), first)?,
                second: normed(format!("{name}.conv2"), format!("{name}.bn2"), second)?,
            })
        });
        Ok(ResnetCifar {
            stem: normed("conv1".to_owned(), "bn1".to_owned(), self.stem())?,
            blocks: blocks.collect::<Result<_>>()?,
            linear: Linear::new("linear", 4 * self.width, self.classes, true)?,
        })
    }

    /// The network by a plan, its numbers under `path`.
    ///
    /// # Errors
    /// As [`Self::network`] and [`build`].
    pub fn init(&self, path: &Path, plan: &LayerPlan, key: Key) -> Result<ResnetCifar> {
        build(self.network()?, path, plan, key)
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

    fn check_sizes(&self) -> Result<()> {
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

impl Architecture for ResnetCifarConfig {
    fn takes(&self) -> Takes {
        Takes::Images
    }

    fn fit(&mut self, input: &[i64], outputs: i64) -> Result<()> {
        if input.first() != Some(&3) {
            let why = "= \"resnet-cifar\" takes colour images; use \"resnet\" for these";
            return Err(Error::network("kind", why));
        }
        self.classes = outputs;
        Ok(())
    }

    fn network(&self) -> Result<Box<dyn Network>> {
        Ok(Box::new(self.network()?))
    }

    fn name(&self) -> String {
        format!("resnet-cifar-{}", self.depth)
    }

    fn spectral_norm(&self) -> Option<f64> {
        self.spectral_norm
    }

    fn unbind(&mut self) {
        self.spectral_norm = None;
    }
}

#[derive(Debug)]
struct OptionABlock {
    first: NormedConv,
    second: NormedConv,
}

fidgp::layers!(OptionABlock: first, second);

impl OptionABlock {
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let h = forward_normed(&self.first, x, pass)?.relu();
        let h = forward_normed(&self.second, &h, pass)?;
        Ok((h + self.shortcut(x)).relu())
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

fidgp::layers!(ResnetCifar: stem, blocks, linear);

impl Network for ResnetCifar {
    /// Taps: every convolution by name, and `linear`.
    ///
    /// # Shapes
    /// `[N, 3, H, W]` → `[N, classes]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let h = pass.blocks(x, 0..=self.blocks.len(), |step, h, pass| match step {
            0 => Ok(forward_normed(&self.stem, h, pass)?.relu()),
            _ => self.blocks[step - 1].forward(h, pass),
        })?;
        let h = h.mean_dim([2i64, 3].as_slice(), false, h.kind());
        self.linear.forward(&h, pass)
    }

    fn takes_empty_batches(&self) -> bool {
        true
    }
}
