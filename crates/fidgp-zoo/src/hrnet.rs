//! Sun et al.: High-Resolution Representations for Labeling Pixels and Regions (2019). HRNetV2 under the names of the
//! released code; features are enlarged without aligned corners, as in its first release.

use fidgp::Key;
use fidgp::layer::{Conv2d, Conv2dConfig, Network, Pass, Slot};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use crate::hrnet_module::{Chain, ChainConfig, Module, ModuleConfig, enlarged, transition};
use crate::parts::Parts;
use crate::resnet_block::{Block, BlockConfig, NormedConv, forward_normed, push_normed};
use crate::{Error, LayerGeometry, LayerPlan, Result};

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
#[serde(default, deny_unknown_fields)]
pub struct HrnetConfig {
    /// Channels of the branch of the highest resolution; the others have 2, 4 and 8 times as many.
    pub width: i64,
    /// Outputs at each position.
    pub outputs: i64,
    /// Channels in.
    pub channels: i64,
}

impl Default for HrnetConfig {
    fn default() -> Self {
        Self { width: 48, outputs: 19, channels: 3 }
    }
}

impl HrnetConfig {
    /// Builds the network under `path`.
    ///
    /// # Errors
    /// When a size is not positive, a setting is out of range, or the plan names a layer there is not.
    pub fn init(&self, path: &Path, plan: &LayerPlan, key: Key) -> Result<Hrnet> {
        let sizes = [("outputs", self.outputs), ("channels", self.channels), ("width", self.width)];
        if let Some((setting, value)) = sizes.into_iter().find(|(_, value)| *value < 1) {
            return Err(Error::setting(setting, value, "must be at least 1"));
        }
        plan.check(&self.geometry([64, 64]))?;
        let parts = Parts::new(path, plan, key);
        let [first, second] = self.stem();
        let stage = |stage: usize| -> Result<Stage> {
            let chain = |chain: Option<ChainConfig>| {
                chain.map(|chain| chain.init(&parts.sub(&transition_name(stage)))).transpose()
            };
            let module = |index: usize| self.module(stage).init(&parts.sub(&format!("{}.{index}", stage_name(stage))));
            Ok(Stage {
                transition: self.transition(stage).into_iter().map(chain).collect::<Result<_>>()?,
                modules: (0..MODULES[stage]).map(module).collect::<Result<_>>()?,
            })
        };
        let [inner, last] = self.head();
        Ok(Hrnet {
            stem: [
                (parts.conv("conv1", first)?, parts.batch_norm("bn1", STEM)),
                (parts.conv("conv2", second)?, parts.batch_norm("bn2", STEM)),
            ],
            blocks: blocks().map(|(name, block)| block.init(&parts.sub(&name))).collect::<Result<_>>()?,
            stages: (0..MODULES.len()).map(stage).collect::<Result<_>>()?,
            inner: (parts.conv("last_layer.0", inner)?, parts.batch_norm("last_layer.1", inner.out_channels)),
            last: parts.conv("last_layer.3", last)?,
        })
    }

    /// Its layers, for images of the given height and width.
    pub fn geometry(&self, input: [i64; 2]) -> Vec<LayerGeometry> {
        let mut layers = Vec::new();
        let mut size = input;
        for (config, i) in self.stem().into_iter().zip(1..) {
            push_normed(&mut layers, (format!("conv{i}"), format!("bn{i}")), config, size);
            size = layers[layers.len() - 1].output;
        }
        for (name, block) in blocks() {
            layers.extend(block.geometry(&name, size));
        }
        let mut sizes = vec![size];
        for (stage, modules) in MODULES.into_iter().enumerate() {
            let before = sizes.clone();
            for (i, chain) in self.transition(stage).into_iter().enumerate() {
                let from = before[i.min(before.len() - 1)];
                let after = chain.map(|chain| chain.push(&mut layers, &format!("{}.", transition_name(stage)), from));
                match sizes.get_mut(i) {
                    Some(size) => *size = after.unwrap_or(from),
                    None => sizes.push(after.unwrap_or(from)),
                }
            }
            for index in 0..modules {
                self.module(stage).push(&mut layers, &format!("{}.{index}.", stage_name(stage)), &sizes);
            }
        }
        let [inner, last] = self.head();
        push_normed(&mut layers, ("last_layer.0".into(), "last_layer.1".into()), inner, size);
        layers.push(LayerGeometry::conv("last_layer.3", last, size));
        layers
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

/// The bottlenecks of `layer1`.
fn blocks() -> impl Iterator<Item = (String, BlockConfig)> {
    (0..4).map(|index| {
        let inputs = if index == 0 { STEM } else { FIRST };
        (format!("layer1.{index}"), BlockConfig { inputs, width: STEM, stride: 1, dilation: 1, bottleneck: true })
    })
}

const STAGE: &str = "stage";
const TRANSITION: &str = "transition";

fn stage_name(stage: usize) -> String {
    format!("{STAGE}{}", stage + 2)
}

fn transition_name(stage: usize) -> String {
    format!("{TRANSITION}{}", stage + 1)
}

/// Whether a layer is one of the branches, which run together.
pub fn is_of_branches(layer: &str) -> bool {
    layer.starts_with(STAGE) || layer.starts_with(TRANSITION)
}

#[derive(Debug)]
struct Stage {
    transition: Vec<Option<Chain>>,
    modules: Vec<Module>,
}

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

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        let chains = self.transition.iter().flatten().flat_map(Chain::slots);
        chains.chain(self.modules.iter().flat_map(Module::slots))
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

impl Hrnet {
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
        (0..self.stages()).try_fold(x.shallow_clone(), |h, index| self.stage(index, &h, pass))
    }

    /// The stem, each block of `layer1`, all branches together, and the head.
    fn stages(&self) -> usize {
        self.blocks.len() + 3
    }

    fn stage(&self, index: usize, h: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        if index == 0 {
            return self
                .stem
                .iter()
                .try_fold(h.shallow_clone(), |h, layer| Ok(forward_normed(layer, &h, pass)?.relu()));
        }
        if let Some(block) = self.blocks.get(index - 1) {
            return block.forward(h, pass);
        }
        if index == self.blocks.len() + 1 {
            return self.branches(h, pass);
        }
        pass.tap("features", h);
        let h = forward_normed(&self.inner, h, pass)?.relu();
        self.last.forward(&h, pass)
    }

    fn first_drawn_stage(&self) -> usize {
        if self.stem.iter().any(|(conv, _)| conv.slot.is_random()) {
            return 0;
        }
        let blocks = self.blocks.iter().position(|block| block.slots().any(Slot::is_random));
        let branches = self.stages.iter().flat_map(Stage::slots).any(Slot::is_random);
        1 + blocks.unwrap_or(self.blocks.len() + usize::from(!branches))
    }

    fn slots(&self) -> Vec<&Slot> {
        let stem = self.stem.iter().map(|(conv, _)| &conv.slot);
        let blocks = self.blocks.iter().flat_map(Block::slots);
        let stages = self.stages.iter().flat_map(Stage::slots);
        stem.chain(blocks).chain(stages).chain([&self.inner.0.slot, &self.last.slot]).collect()
    }
}
