//! Sun et al.: High-Resolution Representations for Labeling Pixels and Regions (2019). HRNetV2 under the names of the
//! released code; features are enlarged without aligned corners, as in its first release.

use fidgp::Key;
use fidgp::layer::{Conv2d, Conv2dConfig, Network, Pass};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use crate::architecture::check_width;
use crate::hrnet_module::{Chain, ChainConfig, Module, ModuleConfig, enlarged, transition};
use crate::resnet_block::{Block, BlockConfig, NormedConv, forward_normed, normed};
use crate::{Architecture, Error, LayerPlan, Result, Takes, build};

/// Our choice of four layers; the paper does not name its own: the last block at full resolution before the branches, and
/// the last block of the smallest branch.
pub const OUR_FOUR_HRNET: [&str; 4] =
    ["layer1.3.conv1", "layer1.3.conv2", "stage4.2.branches.3.3.conv1", "stage4.2.branches.3.3.conv2"];

/// Channels of the stem, and of `layer1` behind it.
const STEM: i64 = 64;
const FIRST: i64 = 4 * STEM;
/// Modules of `stage2`, `stage3` and `stage4`.
const MODULES: [usize; 3] = [1, 4, 3];

/// Sizes of an [`Hrnet`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HrnetConfig {
    /// Channels of the branch of the highest resolution; the others have 2, 4 and 8 times as many.
    #[serde(default = "HrnetConfig::usual_width")]
    pub width: i64,
    /// Outputs at each position: the data's classes.
    #[serde(skip, default = "HrnetConfig::usual_outputs")]
    pub outputs: i64,
    /// Channels in.
    #[serde(skip, default = "HrnetConfig::usual_channels")]
    pub channels: i64,
}

impl Default for HrnetConfig {
    fn default() -> Self {
        Self { width: 48, outputs: 19, channels: 3 }
    }
}

impl HrnetConfig {
    fn usual_width() -> i64 {
        Self::default().width
    }

    fn usual_outputs() -> i64 {
        Self::default().outputs
    }

    fn usual_channels() -> i64 {
        Self::default().channels
    }

    /// The plain network, without numbers yet.
    ///
    /// # Errors
    /// When a size is not positive.
    pub fn network(&self) -> Result<Hrnet> {
        let sizes = [("outputs", self.outputs), ("channels", self.channels), ("width", self.width)];
        if let Some((setting, value)) = sizes.into_iter().find(|(_, value)| *value < 1) {
            return Err(Error::setting(setting, value, "must be at least 1"));
        }
        let [first, second] = self.stem();
        let [inner, last] = self.head();
        Ok(Hrnet {
            stem: [
                normed("conv1".to_owned(), "bn1".to_owned(), first)?,
                normed("conv2".to_owned(), "bn2".to_owned(), second)?,
            ],
            blocks: blocks().map(|(name, block)| block.block(&name)).collect::<Result<_>>()?,
            stages: (0..MODULES.len()).map(|stage| self.stage(stage)).collect::<Result<_>>()?,
            inner: normed("last_layer.0".to_owned(), "last_layer.1".to_owned(), inner)?,
            last: Conv2d::new("last_layer.3", last)?,
        })
    }

    /// The network by a plan, its numbers under `path`.
    ///
    /// # Errors
    /// As [`Self::network`] and [`build`].
    pub fn init(&self, path: &Path, plan: &LayerPlan, key: Key) -> Result<Hrnet> {
        build(self.network()?, path, plan, key)
    }

    /// A stage; stage 0 is `stage2`.
    fn stage(&self, stage: usize) -> Result<Stage> {
        let chain = |chain: ChainConfig| chain.chain(&format!("transition{}.", stage + 1));
        let transition = self.transition(stage).into_iter().map(|config| config.map(chain).transpose());
        let module = |index: usize| self.module(stage).module(&format!("stage{}.{index}.", stage + 2));
        Ok(Stage {
            transition: transition.collect::<Result<_>>()?,
            modules: (0..MODULES[stage]).map(module).collect::<Result<_>>()?,
        })
    }

    fn stem(&self) -> [Conv2dConfig; 2] {
        [self.channels, STEM].map(|inputs| Conv2dConfig::same(inputs, STEM, 3).stride(2))
    }

    /// Widths of the branches of a stage; stage 0 is `stage2`.
    fn widths(&self, stage: usize) -> Vec<i64> {
        (0..stage + 2).map(|branch| self.width << branch).collect()
    }

    fn transition(&self, stage: usize) -> Vec<Option<ChainConfig>> {
        let before = if stage == 0 { vec![FIRST] } else { self.widths(stage - 1) };
        transition(&before, &self.widths(stage))
    }

    fn module(&self, stage: usize) -> ModuleConfig {
        ModuleConfig { widths: self.widths(stage) }
    }

    fn head(&self) -> [Conv2dConfig; 2] {
        let all = self.widths(MODULES.len() - 1).iter().sum();
        [Conv2dConfig::same(all, all, 1).bias(), Conv2dConfig::same(all, self.outputs, 1).bias()]
    }
}

impl Architecture for HrnetConfig {
    fn takes(&self) -> Takes {
        Takes::Pixels
    }

    fn fit(&mut self, input: &[i64], outputs: i64) -> Result<()> {
        (self.channels, self.outputs) = (input.first().copied().unwrap_or(self.channels), outputs);
        Ok(())
    }

    fn network(&self) -> Result<Box<dyn Network>> {
        Ok(Box::new(self.network()?))
    }

    fn name(&self) -> String {
        format!("hrnetv2-w{}", self.width)
    }

    fn check(&self) -> Result<()> {
        check_width(self.width)
    }
}

/// The bottlenecks of `layer1`.
fn blocks() -> impl Iterator<Item = (String, BlockConfig)> {
    (0..4).map(|index| {
        let inputs = if index == 0 { STEM } else { FIRST };
        (format!("layer1.{index}"), BlockConfig { inputs, width: STEM, stride: 1, dilation: 1, bottleneck: true })
    })
}

#[derive(Debug)]
struct Stage {
    transition: Vec<Option<Chain>>,
    modules: Vec<Module>,
}

fidgp::layers!(Stage: transition, modules);

impl Stage {
    fn forward(&self, branches: &[Tensor], pass: &mut Pass) -> fidgp::Result<Vec<Tensor>> {
        let mut now = Vec::with_capacity(self.transition.len());
        for (i, chain) in self.transition.iter().enumerate() {
            let from = &branches[i.min(branches.len() - 1)];
            now.push(match chain {
                Some(chain) => chain.forward(from, pass)?,
                None => from.shallow_clone(),
            });
        }
        self.modules.iter().try_fold(now, |branches, module| module.forward(branches, pass))
    }
}

/// HRNetV2. Its outputs have a quarter of the image's size; whoever uses them enlarges them.
#[derive(Debug)]
pub struct Hrnet {
    stem: [NormedConv; 2],
    blocks: Vec<Block>,
    stages: Vec<Stage>,
    inner: NormedConv,
    last: Conv2d,
}

fidgp::layers!(Hrnet: stem, blocks, stages, inner, last);

impl Hrnet {
    /// The stem, each block of `layer1`, and all branches together.
    fn steps(&self) -> usize {
        self.blocks.len() + 2
    }

    fn step(&self, step: usize, h: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        if step == 0 {
            return self.enter(h, pass);
        }
        match self.blocks.get(step - 1) {
            Some(block) => block.forward(h, pass),
            None => self.branches(h, pass),
        }
    }

    fn enter(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        self.stem.iter().try_fold(x.shallow_clone(), |h, layer| Ok(forward_normed(layer, &h, pass)?.relu()))
    }

    /// The branches, each brought to the size of the first, side by side. `[N, 15·width, h, w]`
    fn branches(&self, h: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let one = vec![h.shallow_clone()];
        let branches = self.stages.iter().try_fold(one, |branches, stage| stage.forward(&branches, pass))?;
        let same = branches.iter().map(|branch| enlarged(branch, &branches[0])).collect::<fidgp::Result<Vec<_>>>()?;
        Ok(Tensor::f_cat(&same, 1)?)
    }
}

impl Network for Hrnet {
    /// Taps: every convolution by name, and `features`, all branches side by side.
    ///
    /// # Shapes
    /// `[N, channels, H, W]` → `[N, outputs, ⌈H/4⌉, ⌈W/4⌉]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let h = pass.blocks(x, 0..self.steps(), |step, h, pass| self.step(step, h, pass))?;
        pass.tap("features", &h);
        let h = forward_normed(&self.inner, &h, pass)?.relu();
        self.last.forward(&h, pass)
    }

    fn takes_empty_batches(&self) -> bool {
        true
    }
}
