//! The parts of HRNet: branches of several resolutions, and what carries features from one to the other.

use fidgp::layer::{Conv2dConfig, Pass};
use tch::Tensor;

use crate::Result;
use crate::resnet_block::{Block, BlockConfig, NormedConv, forward_normed, normed};

/// Blocks of each branch of a module.
const BLOCKS: usize = 4;

/// Convolutions with their normalisations, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChainConfig {
    /// Names of convolution and normalisation, the convolution, and whether it ends in a ReLU.
    pub steps: Vec<([String; 2], Conv2dConfig, bool)>,
}

impl ChainConfig {
    /// One step whose parts are `name.0` and `name.1`.
    pub(crate) fn of(name: &str, config: Conv2dConfig, relu: bool) -> Self {
        Self { steps: vec![([format!("{name}.0"), format!("{name}.1")], config, relu)] }
    }

    /// Halves the image so many times: `name.0.0`, `name.1.0`, …; only the last step changes the width.
    fn down(name: &str, inputs: i64, outputs: i64, times: usize, last_relu: bool) -> Self {
        let step = |index: usize| {
            let last = index + 1 == times;
            let config = Conv2dConfig::same(inputs, if last { outputs } else { inputs }, 3).stride(2);
            Self::of(&format!("{name}.{index}"), config, !last || last_relu).steps
        };
        Self { steps: (0..times).flat_map(step).collect() }
    }

    /// The chain, its names behind the prefix, without numbers yet.
    pub(crate) fn chain(&self, prefix: &str) -> Result<Chain> {
        let step = |([conv, norm], config, relu): &([String; 2], Conv2dConfig, bool)| {
            let layer = normed(format!("{prefix}{conv}"), format!("{prefix}{norm}"), *config)?;
            Ok(Step { layer, relu: *relu })
        };
        Ok(Chain { steps: self.steps.iter().map(step).collect::<Result<_>>()? })
    }
}

/// A convolution with its normalisation, and perhaps a ReLU.
#[derive(Debug)]
struct Step {
    layer: NormedConv,
    relu: bool,
}

/// Steps one after the other.
#[derive(Debug)]
pub(crate) struct Chain {
    steps: Vec<Step>,
}

fidgp::layers!(Step: layer);
fidgp::layers!(Chain: steps);

impl Chain {
    pub(crate) fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        self.steps.iter().try_fold(x.shallow_clone(), |h, step| {
            let h = forward_normed(&step.layer, &h, pass)?;
            Ok(if step.relu { h.relu() } else { h })
        })
    }
}

/// The chains that make the branches of the next stage; a branch without one is taken over.
pub(crate) fn transition(before: &[i64], after: &[i64]) -> Vec<Option<ChainConfig>> {
    let chain = |(i, &width): (usize, &i64)| match before.get(i) {
        Some(&same) if same == width => None,
        Some(&other) => Some(ChainConfig::of(&format!("{i}"), Conv2dConfig::same(other, width, 3), true)),
        None => {
            let last = before.len() - 1;
            Some(ChainConfig::down(&format!("{i}"), before[last], width, i - last, true))
        }
    };
    after.iter().enumerate().map(chain).collect()
}

/// Branches of these widths, each half the size of the one before, and the exchange between them.
#[derive(Clone, Debug)]
pub(crate) struct ModuleConfig {
    pub widths: Vec<i64>,
}

impl ModuleConfig {
    fn block(width: i64) -> BlockConfig {
        BlockConfig { inputs: width, width, stride: 1, dilation: 1, bottleneck: false }
    }

    /// What carries branch `from` to branch `to`; nothing for a branch itself.
    fn fuse(&self, to: usize, from: usize) -> Option<ChainConfig> {
        let (inputs, outputs) = (self.widths[from], self.widths[to]);
        let name = format!("fuse_layers.{to}.{from}");
        match from.cmp(&to) {
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(ChainConfig::of(&name, Conv2dConfig::same(inputs, outputs, 1), false)),
            std::cmp::Ordering::Less => Some(ChainConfig::down(&name, inputs, outputs, to - from, false)),
        }
    }

    /// The module, its names behind the prefix, without numbers yet.
    pub(crate) fn module(&self, prefix: &str) -> Result<Module> {
        let block = |branch: usize, index: usize| {
            Self::block(self.widths[branch]).block(&format!("{prefix}branches.{branch}.{index}"))
        };
        let branch = |branch: usize| (0..BLOCKS).map(|index| block(branch, index)).collect::<Result<Vec<_>>>();
        let count = self.widths.len();
        let fuse = |to: usize| {
            let from = |from: usize| self.fuse(to, from).map(|chain| chain.chain(prefix)).transpose();
            (0..count).map(from).collect::<Result<Vec<_>>>()
        };
        Ok(Module {
            branches: (0..count).map(branch).collect::<Result<_>>()?,
            fuse: (0..count).map(fuse).collect::<Result<_>>()?,
        })
    }
}

/// One exchange unit: blocks on every branch, then each branch becomes the sum of all, brought to its size.
#[derive(Debug)]
pub(crate) struct Module {
    branches: Vec<Vec<Block>>,
    fuse: Vec<Vec<Option<Chain>>>,
}

fidgp::layers!(Module: branches, fuse);

impl Module {
    /// # Shapes
    /// `[N, width_b, H/2^b, W/2^b]` for each branch → the same
    pub(crate) fn forward(&self, branches: Vec<Tensor>, pass: &mut Pass) -> fidgp::Result<Vec<Tensor>> {
        let mut after = Vec::with_capacity(branches.len());
        for (x, blocks) in branches.into_iter().zip(&self.branches) {
            after.push(blocks.iter().try_fold(x, |h, block| block.forward(&h, pass))?);
        }
        let mut fused = Vec::with_capacity(after.len());
        for (to, row) in self.fuse.iter().enumerate() {
            let mut sum = after[to].shallow_clone();
            for (from, chain) in row.iter().enumerate() {
                if let Some(chain) = chain {
                    let part = chain.forward(&after[from], pass)?;
                    let part = if from > to { enlarged(&part, &after[to])? } else { part };
                    sum = part + sum; // not in place: the branch itself is still needed
                }
            }
            fused.push(sum.relu());
        }
        Ok(fused)
    }
}

/// Brought to the height and width of another image, bilinearly, corners not aligned.
pub(crate) fn enlarged(x: &Tensor, like: &Tensor) -> fidgp::Result<Tensor> {
    let size = like.size();
    Ok(x.f_upsample_bilinear2d([size[2], size[3]], false, None, None)?)
}
