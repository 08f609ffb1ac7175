//! Long, Shelhamer, Darrell: Fully Convolutional Networks for Semantic Segmentation (2015), as torchvision builds it: a
//! dilated ResNet that keeps an eighth of the image's size, a head, and an auxiliary head that is used in training alone.
//!
//! Torchvision drops a tenth of each head's features in training; we do not.

use fidgp::Key;
use fidgp::layer::{Conv2d, Conv2dConfig, Network, Pass};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use crate::architecture::check_width;
use crate::resnet_block::{NormedConv, forward_normed, normed};
use crate::resnet_trunk::{Trunk, TrunkConfig};
use crate::{Architecture, Depth, Error, LayerPlan, ResnetConfig, Result, Stem, Takes, build};

/// The four layers of the paper's FCN-ResNet50.
pub const PAPER_FOUR_FCN: [&str; 4] =
    ["backbone.layer3.5.conv1", "backbone.layer3.5.conv2", "backbone.layer4.1.conv1", "backbone.layer4.1.conv2"];

/// Sizes of an [`Fcn`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FcnConfig {
    /// Layers of the backbone.
    pub depth: Depth,
    /// Channels of the backbone's first stage, 64 in the paper.
    #[serde(default = "ResnetConfig::usual_width")]
    pub width: i64,
    /// Outputs of the head at each position; as many as there are classes without it (21 where nobody says how many).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<i64>,
    /// Outputs of the auxiliary head, 0 for none; as many as the head without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aux_outputs: Option<i64>,
    /// Channels in.
    #[serde(skip, default = "FcnConfig::usual_channels")]
    pub channels: i64,
}

impl Default for FcnConfig {
    fn default() -> Self {
        Self { depth: Depth::D50, width: 64, outputs: None, aux_outputs: None, channels: 3 }
    }
}

impl FcnConfig {
    fn usual_channels() -> i64 {
        Self::default().channels
    }

    /// Outputs of the head and of the auxiliary head.
    fn stored(&self) -> [i64; 2] {
        let outputs = self.outputs.unwrap_or(21);
        [outputs, self.aux_outputs.unwrap_or(outputs)]
    }

    /// The plain network, without numbers yet.
    ///
    /// # Errors
    /// When a size is not positive.
    pub fn network(&self) -> Result<Fcn> {
        self.check_sizes()?;
        let trunk = self.trunk();
        Ok(Fcn {
            trunk: trunk.trunk("backbone.")?,
            aux_steps: 1 + trunk.counts()[..3].iter().sum::<usize>(),
            head: self.head().head(HEAD)?,
            aux: self.aux().map(|head| head.head(AUX)).transpose()?,
        })
    }

    /// The network by a plan, its numbers under `path`.
    ///
    /// # Errors
    /// As [`Self::network`] and [`build`].
    pub fn init(&self, path: &Path, plan: &LayerPlan, key: Key) -> Result<Fcn> {
        build(self.network()?, path, plan, key)
    }

    fn trunk(&self) -> TrunkConfig {
        let Self { depth, width, channels, .. } = *self;
        TrunkConfig { depth, stem: Stem::Imagenet, channels, width, dilated: [false, true, true] }
    }

    fn head(&self) -> HeadConfig {
        HeadConfig { inputs: self.trunk().features(3), outputs: self.stored()[0] }
    }

    fn aux(&self) -> Option<HeadConfig> {
        let [_, outputs] = self.stored();
        (outputs > 0).then(|| HeadConfig { inputs: self.trunk().features(2), outputs })
    }

    fn check_sizes(&self) -> Result<()> {
        let [outputs, aux_outputs] = self.stored();
        let sizes = [("outputs", outputs), ("channels", self.channels), ("width", self.width)];
        if let Some((setting, value)) = sizes.into_iter().find(|(_, value)| *value < 1) {
            return Err(Error::setting(setting, value, "must be at least 1"));
        }
        if aux_outputs < 0 {
            return Err(Error::setting("aux_outputs", aux_outputs, "must be 0 (no auxiliary head) or greater"));
        }
        Ok(())
    }
}

impl Architecture for FcnConfig {
    fn takes(&self) -> Takes {
        Takes::Pixels
    }

    fn fit(&mut self, input: &[i64], classes: i64) -> Result<()> {
        let outputs = self.outputs(classes);
        let aux_outputs = self.aux_outputs.unwrap_or(outputs);
        if aux_outputs != 0 && aux_outputs < classes {
            let why = format!("{aux_outputs} is less than the {classes} classes of the data; 0 is no auxiliary head");
            return Err(Error::network("aux_outputs", why));
        }
        (self.outputs, self.aux_outputs) = (Some(outputs), Some(aux_outputs));
        self.channels = input.first().copied().unwrap_or(self.channels);
        Ok(())
    }

    fn network(&self) -> Result<Box<dyn Network>> {
        Ok(Box::new(self.network()?))
    }

    fn name(&self) -> String {
        format!("fcn-resnet-{}", i64::from(self.depth))
    }

    fn check(&self) -> Result<()> {
        check_width(self.width)
    }

    fn outputs(&self, classes: i64) -> i64 {
        self.outputs.unwrap_or(classes)
    }

    fn has_backbone(&self) -> bool {
        true
    }
}

const HEAD: &str = "classifier";
const AUX: &str = "aux_classifier";

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

    fn head(self, name: &str) -> Result<Head> {
        let [inner, last] = self.convs();
        Ok(Head {
            inner: normed(format!("{name}.0"), format!("{name}.1"), inner)?,
            last: Conv2d::new(format!("{name}.4"), last)?,
        })
    }
}

#[derive(Debug)]
struct Head {
    inner: NormedConv,
    last: Conv2d,
}

fidgp::layers!(Head: inner, last);

impl Head {
    fn forward(&self, h: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let h = forward_normed(&self.inner, h, pass)?.relu_();
        self.last.forward(&h, pass)
    }
}

/// A fully convolutional network. Its outputs have an eighth of the image's size; whoever uses them enlarges them.
#[derive(Debug)]
pub struct Fcn {
    trunk: Trunk,
    /// Steps of the trunk in front of the auxiliary head.
    aux_steps: usize,
    head: Head,
    aux: Option<Head>,
}

fidgp::layers!(Fcn: trunk, head, aux);

impl Network for Fcn {
    /// In training the auxiliary head's outputs stand behind those of the head. Taps: every convolution by name, and
    /// `features`, the output of the last block.
    ///
    /// # Shapes
    /// `[N, channels, H, W]` → `[N, outputs (+ aux_outputs), ⌈H/8⌉, ⌈W/8⌉]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let third = self.trunk.forward(0..self.aux_steps, x, pass)?;
        let h = self.trunk.forward(self.aux_steps..self.trunk.steps(), &third, pass)?;
        pass.tap("features", &h);
        let outputs = self.head.forward(&h, pass)?;
        let aux = |pass: &mut Pass| self.aux.as_ref().map(|aux| aux.forward(&third, pass)).transpose();
        Ok(match pass.in_training(aux)?.flatten() {
            Some(aux) => Tensor::f_cat(&[outputs, aux], 1)?,
            None => outputs,
        })
    }

    fn head(&self) -> Option<&str> {
        Some(self.head.last.slot.name())
    }

    fn takes_empty_batches(&self) -> bool {
        true
    }
}
