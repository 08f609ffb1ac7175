//! Long, Shelhamer, Darrell: Fully Convolutional Networks for Semantic Segmentation (2015), as torchvision builds it: a
//! dilated ResNet that keeps an eighth of the image's size, a head, and an auxiliary head that is used in training alone.
//!
//! Torchvision drops a tenth of each head's features in training; we do not.

use fidgp::Key;
use fidgp::layer::{Conv2d, Conv2dConfig, Network, Pass, Slot};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use crate::parts::Parts;
use crate::resnet_block::{NormedConv, forward_normed, push_normed};
use crate::resnet_trunk::{Trunk, TrunkConfig};
use crate::{Depth, Error, LayerGeometry, LayerPlan, Result, Stem};

/// The four layers of the paper's FCN-ResNet50.
pub const PAPER_FOUR_FCN: [&str; 4] =
    ["backbone.layer3.5.conv1", "backbone.layer3.5.conv2", "backbone.layer4.1.conv1", "backbone.layer4.1.conv2"];

/// Sizes of an [`Fcn`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FcnConfig {
    /// Layers of the backbone.
    pub depth: Depth,
    /// Channels of the backbone's first stage, 64 in the paper.
    pub width: i64,
    /// Outputs of the head at each position.
    pub outputs: i64,
    /// Outputs of the auxiliary head; 0 for none.
    pub aux_outputs: i64,
    /// Channels in.
    pub channels: i64,
}

impl Default for FcnConfig {
    fn default() -> Self {
        Self { depth: Depth::D50, width: 64, outputs: 21, aux_outputs: 21, channels: 3 }
    }
}

impl FcnConfig {
    /// Builds the network under `path`.
    ///
    /// # Errors
    /// When a size is not positive, a setting is out of range, or the plan names a layer there is not.
    pub fn init(&self, path: &Path, plan: &LayerPlan, key: Key) -> Result<Fcn> {
        self.check()?;
        plan.check(&self.geometry([64, 64]))?;
        let parts = Parts::new(path, plan, key);
        let trunk = self.trunk();
        let aux = self.aux().map(|head| head.init(&parts.sub(AUX)));
        Ok(Fcn {
            trunk: trunk.init(&parts.sub("backbone"))?,
            aux_stage: trunk.counts()[..3].iter().sum(),
            head: self.head().init(&parts.sub(HEAD))?,
            aux: aux.transpose()?,
        })
    }

    /// Its layers, for images of the given height and width.
    pub fn geometry(&self, input: [i64; 2]) -> Vec<LayerGeometry> {
        let (mut layers, sizes) = self.trunk().geometry("backbone.", input);
        self.head().push(&mut layers, HEAD, sizes[3]);
        if let Some(aux) = self.aux() {
            aux.push(&mut layers, AUX, sizes[2]);
        }
        layers
    }

    fn trunk(&self) -> TrunkConfig {
        let Self { depth, width, channels, .. } = *self;
        TrunkConfig { depth, stem: Stem::Imagenet, channels, width, dilated: [false, true, true] }
    }

    fn head(&self) -> HeadConfig {
        HeadConfig { inputs: self.trunk().features(3), outputs: self.outputs }
    }

    fn aux(&self) -> Option<HeadConfig> {
        (self.aux_outputs > 0).then(|| HeadConfig { inputs: self.trunk().features(2), outputs: self.aux_outputs })
    }

    fn check(&self) -> Result<()> {
        let sizes = [("outputs", self.outputs), ("channels", self.channels), ("width", self.width)];
        if let Some((setting, value)) = sizes.into_iter().find(|(_, value)| *value < 1) {
            return Err(Error::setting(setting, value, "must be at least 1"));
        }
        if self.aux_outputs < 0 {
            return Err(Error::setting("aux_outputs", self.aux_outputs, "must be 0 (no auxiliary head) or greater"));
        }
        Ok(())
    }
}

const HEAD: &str = "classifier";
/// The head that runs in training alone.
pub const AUX: &str = "aux_classifier";

/// A 3×3 convolution to a quarter of the channels, and a 1×1 one to the outputs.
#[derive(Clone, Copy)]
struct HeadConfig {
    inputs: i64,
    outputs: i64,
}

impl HeadConfig {
    fn convs(self) -> [Conv2dConfig; 2] {
        let inner = (self.inputs / 4).max(1);
        [Conv2dConfig::same(self.inputs, inner, 3), Conv2dConfig::same(inner, self.outputs, 1).bias()]
    }

    fn init(self, parts: &Parts) -> Result<Head> {
        let [inner, last] = self.convs();
        let inner_conv = (parts.conv("0", inner)?, parts.batch_norm("1", inner.out_channels));
        Ok(Head { inner: inner_conv, last: parts.conv("4", last)? })
    }

    fn push(self, layers: &mut Vec<LayerGeometry>, name: &str, size: [i64; 2]) {
        let [inner, last] = self.convs();
        push_normed(layers, (format!("{name}.0"), format!("{name}.1")), inner, size);
        layers.push(LayerGeometry::conv(format!("{name}.4"), last, size));
    }
}

#[derive(Debug)]
struct Head {
    inner: NormedConv,
    last: Conv2d,
}

impl Head {
    fn forward(&self, h: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let h = forward_normed(&self.inner, h, pass)?.relu_();
        self.last.forward(&h, pass)
    }

    fn slots(&self) -> [&Slot; 2] {
        [&self.inner.0.slot, &self.last.slot]
    }
}

/// A fully convolutional network. Its outputs have an eighth of the image's size; whoever uses them enlarges them.
#[derive(Debug)]
pub struct Fcn {
    trunk: Trunk,
    /// The stage after which the auxiliary head looks.
    aux_stage: usize,
    head: Head,
    aux: Option<Head>,
}

impl Network for Fcn {
    /// In training the auxiliary head's outputs stand behind those of the head. Taps: every convolution by name, and
    /// `features`, the output of the last block.
    ///
    /// # Shapes
    /// `[N, channels, H, W]` → `[N, outputs (+ aux_outputs), ⌈H/8⌉, ⌈W/8⌉]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let (mut h, mut beside) = (x.shallow_clone(), None);
        for index in 0..self.stages() {
            h = self.stage(index, &h, pass)?;
            if index == self.aux_stage && pass.mode == fidgp::layer::Mode::Train {
                beside = self.aux.as_ref().map(|aux| aux.forward(&h, pass)).transpose()?;
            }
        }
        Ok(match beside {
            Some(aux) => Tensor::f_cat(&[h, aux], 1)?,
            None => h,
        })
    }

    /// The stem, each block, and the head.
    fn stages(&self) -> usize {
        self.trunk.stages() + 1
    }

    fn stage(&self, index: usize, h: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        if let Some(h) = self.trunk.stage(index, h, pass) {
            return h;
        }
        pass.tap("features", h);
        self.head.forward(h, pass)
    }

    fn first_drawn_stage(&self) -> usize {
        self.trunk.first_drawn_stage()
    }

    fn slots(&self) -> Vec<&Slot> {
        let aux = self.aux.iter().flat_map(Head::slots);
        self.trunk.slots().chain(self.head.slots()).chain(aux).collect()
    }
}
