//! The residual blocks of ResNet-18/34 (basic) and ResNet-50 (bottleneck), under torchvision's names.

use fidgp::layer::{BatchNorm, Conv2d, Conv2dConfig, Pass};
use tch::Tensor;

use crate::Result;

/// Sizes of one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockConfig {
    /// Channels in.
    pub inputs: i64,
    /// Channels of the 3×3 convolutions.
    pub width: i64,
    /// Stride of the block.
    pub stride: i64,
    /// Dilation of the 3×3 convolutions.
    pub dilation: i64,
    /// Whether it is a 1×1-3×3-1×1 bottleneck with four times the width at its end.
    pub bottleneck: bool,
}

impl BlockConfig {
    /// Channels out.
    pub(crate) fn outputs(&self) -> i64 {
        if self.bottleneck { 4 * self.width } else { self.width }
    }

    /// The convolutions of the residual branch, in order.
    fn branch(&self) -> Vec<Conv2dConfig> {
        let Self { inputs, width, stride, dilation, .. } = *self;
        let wide = |inputs: i64| Conv2dConfig::same(inputs, width, 3).dilation(dilation);
        if self.bottleneck {
            let middle = wide(width).stride(stride);
            vec![Conv2dConfig::same(inputs, width, 1), middle, Conv2dConfig::same(width, self.outputs(), 1)]
        } else {
            vec![wide(inputs).stride(stride), wide(width)]
        }
    }

    /// The 1×1 convolution of the shortcut, where the shape changes.
    fn shortcut(&self) -> Option<Conv2dConfig> {
        let changes = self.stride != 1 || self.inputs != self.outputs();
        changes.then(|| Conv2dConfig::same(self.inputs, self.outputs(), 1).stride(self.stride))
    }

    /// The block of this name, without numbers yet.
    pub(crate) fn block(&self, name: &str) -> Result<Block> {
        let branch = self.branch().into_iter().zip(1..);
        let branch = branch.map(|(config, i)| normed(format!("{name}.conv{i}"), format!("{name}.bn{i}"), config));
        let shortcut = self
            .shortcut()
            .map(|config| normed(format!("{name}.downsample.0"), format!("{name}.downsample.1"), config));
        Ok(Block { branch: branch.collect::<Result<_>>()?, shortcut: shortcut.transpose()? })
    }
}

/// A convolution and its normalisation, of these names.
pub(crate) fn normed(conv: String, norm: String, config: Conv2dConfig) -> Result<NormedConv> {
    Ok((Conv2d::new(conv, config)?, BatchNorm::new(norm, config.out_channels)?))
}

/// A convolution and its normalisation.
pub(crate) type NormedConv = (Conv2d, BatchNorm);

/// `norm(conv(x))`
pub(crate) fn forward_normed((conv, norm): &NormedConv, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
    let y = conv.forward(x, pass)?;
    norm.forward(&y, pass)
}

/// A residual block: `relu(branch(x) + shortcut(x))`.
#[derive(Debug)]
pub(crate) struct Block {
    branch: Vec<NormedConv>,
    shortcut: Option<NormedConv>,
}

fidgp::layers!(Block: branch, shortcut);

impl Block {
    /// # Shapes
    /// `[N, inputs, H, W]` → `[N, outputs, H/stride, W/stride]`
    pub(crate) fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let (last, first) = self.branch.split_last().expect("a block has convolutions");
        let mut h = x.shallow_clone();
        for layer in first {
            h = forward_normed(layer, &h, pass)?.relu_();
        }
        let mut h = forward_normed(last, &h, pass)?;
        let shortcut = match &self.shortcut {
            Some(layer) => forward_normed(layer, x, pass)?,
            None => x.shallow_clone(),
        };
        Ok(h.g_add_(&shortcut).relu_())
    }
}
