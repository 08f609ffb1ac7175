//! Networks of the zoo as graphs, their values under the names of our layers.

use std::collections::BTreeMap;

use fidgp::layer::{Conv2dConfig, Layer, Operation};
use fidgp_onnx::Sketch;
use fidgp_zoo::{Activation, MlpConfig, Stem};
use tch::Tensor;

use crate::config::NetworkConfig;
use crate::error::{LabError, Result};
use crate::model::Signature;
use crate::predict::Trained;

/// The graph of a network, with these parameters.
///
/// # Errors
/// When there is none of this kind of network.
pub(super) fn graph(
    trained: &Trained,
    parameters: &BTreeMap<String, Tensor>,
    signature: &Signature,
) -> Result<Vec<u8>> {
    let layers = trained.model.network.layers();
    let shape = match signature {
        Signature::Classification { image, .. } => image.to_vec(),
        Signature::Rows { features, .. } | Signature::Regression { features } => vec![*features],
        Signature::Segmentation { .. } => return Err(no_graph(&trained.config.network)),
    };
    let (sketch, x) = Sketch::new(parameters, &shape);
    let operations = layers.iter().map(|layer| (layer.name().to_owned(), layer.operation())).collect();
    let mut walk = Walk { sketch, operations };
    let output = match &trained.config.network {
        NetworkConfig::Mlp(config) => walk.mlp(&x, config)?,
        NetworkConfig::Resnet(config) => walk.resnet(&x, config.stem == Stem::Imagenet)?,
        NetworkConfig::ResnetCifar(_) => walk.resnet_cifar(&x)?,
        other => return Err(no_graph(other)),
    };
    let width = outputs(&layers);
    Ok(walk.sketch.finish(&output, &[width])?)
}

fn no_graph(network: &NetworkConfig) -> LabError {
    let name = network.name();
    let why = format!("is for tables and classes of images, not for {name}; --format torch takes every network");
    LabError::config("--format onnx", why)
}

/// A network that is written down layer by layer; sizes are those of its layers.
struct Walk<'a> {
    sketch: Sketch<'a>,
    operations: BTreeMap<String, Operation>,
}

impl Walk<'_> {
    fn mlp(&mut self, x: &str, config: &MlpConfig) -> Result<String> {
        let count = config.hidden.len();
        let mut h = x.to_owned();
        for number in 1..=count {
            h = self.sketch.linear(&h, &format!("fc{number}"), true)?;
            if config.batch_norm {
                h = self.sketch.batch_norm(&h, &format!("bn{number}"))?;
            }
            if number == 1 && (config.frequency - 1.0).abs() > 0.0 {
                let frequency = self.sketch.number(config.frequency);
                h = self.sketch.apply("Mul", &[&h, &frequency]);
            }
            h = self.activation(&h, config.activation);
        }
        Ok(self.sketch.linear(&h, &format!("fc{}", count + 1), true)?)
    }

    fn activation(&mut self, x: &str, activation: Activation) -> String {
        let sketch = &mut self.sketch;
        match activation {
            Activation::Relu => sketch.apply("Relu", &[x]),
            Activation::Tanh => sketch.apply("Tanh", &[x]),
            Activation::Sine => sketch.apply("Sin", &[x]),
            Activation::Silu => {
                let gate = sketch.apply("Sigmoid", &[x]);
                sketch.apply("Mul", &[x, &gate])
            }
            Activation::Gelu => {
                let (root, one, half) =
                    (sketch.number(std::f64::consts::SQRT_2), sketch.number(1.0), sketch.number(0.5));
                let scaled = sketch.apply("Div", &[x, &root]);
                let erf = sketch.apply("Erf", &[&scaled]);
                let sum = sketch.apply("Add", &[&erf, &one]);
                let share = sketch.apply("Mul", &[&sum, &half]);
                sketch.apply("Mul", &[x, &share])
            }
        }
    }

    fn resnet(&mut self, x: &str, pool: bool) -> Result<String> {
        let mut h = self.normed(x, "conv1", "bn1")?;
        h = self.sketch.apply("Relu", &[&h]);
        if pool {
            h = self.sketch.max_pool(&h, 3, 2, 1);
        }
        for block in self.blocks() {
            h = self.block(&h, &block)?;
        }
        self.head(&h, "fc")
    }

    fn resnet_cifar(&mut self, x: &str) -> Result<String> {
        let mut h = self.normed(x, "conv1", "bn1")?;
        h = self.sketch.apply("Relu", &[&h]);
        for block in self.blocks() {
            h = self.option_a(&h, &block)?;
        }
        self.head(&h, "linear")
    }

    /// Names of residual blocks, in order.
    fn blocks(&self) -> Vec<String> {
        let has = |block: &String| self.operations.contains_key(&format!("{block}.conv1"));
        let of_stage = |stage: usize| (0..).map(move |index| format!("layer{stage}.{index}")).take_while(has);
        (1..=4).flat_map(of_stage).collect()
    }

    /// `relu(branch(x) + shortcut(x))`
    fn block(&mut self, x: &str, name: &str) -> Result<String> {
        let count = (1..=3).take_while(|i| self.operations.contains_key(&format!("{name}.conv{i}"))).count();
        let mut h = x.to_owned();
        for number in 1..=count {
            h = self.normed(&h, &format!("{name}.conv{number}"), &format!("{name}.bn{number}"))?;
            if number < count {
                h = self.sketch.apply("Relu", &[&h]);
            }
        }
        let shortcut = format!("{name}.downsample.0");
        let other = if self.operations.contains_key(&shortcut) {
            self.normed(x, &shortcut, &format!("{name}.downsample.1"))?
        } else {
            x.to_owned()
        };
        let sum = self.sketch.apply("Add", &[&h, &other]);
        Ok(self.sketch.apply("Relu", &[&sum]))
    }

    /// The same with a shortcut without parameters.
    fn option_a(&mut self, x: &str, name: &str) -> Result<String> {
        let first = format!("{name}.conv1");
        let h = self.normed(x, &first, &format!("{name}.bn1"))?;
        let h = self.sketch.apply("Relu", &[&h]);
        let h = self.normed(&h, &format!("{name}.conv2"), &format!("{name}.bn2"))?;
        let conv = self.conv(&first)?;
        let missing = conv.out_channels - conv.in_channels;
        let other = if missing == 0 {
            x.to_owned()
        } else {
            self.sketch.thinned(x, conv.stride, [missing / 2, missing - missing / 2])
        };
        let sum = self.sketch.apply("Add", &[&h, &other]);
        Ok(self.sketch.apply("Relu", &[&sum]))
    }

    fn head(&mut self, x: &str, name: &str) -> Result<String> {
        let pooled = self.sketch.average(x);
        Ok(self.sketch.linear(&pooled, name, true)?)
    }

    fn normed(&mut self, x: &str, conv: &str, norm: &str) -> Result<String> {
        let config = self.conv(conv)?;
        let h = self.sketch.conv(x, conv, &config)?;
        Ok(self.sketch.batch_norm(&h, norm)?)
    }

    fn conv(&self, name: &str) -> Result<Conv2dConfig> {
        match self.operations.get(name) {
            Some(Operation::Conv(conv)) => Ok(*conv),
            _ => Err(LabError::config(name, "is no convolution of the network")),
        }
    }
}

/// Outputs of the last layer.
fn outputs(layers: &[&dyn Layer]) -> i64 {
    let linear = |layer: &&&dyn Layer| matches!(layer.operation(), Operation::Linear { .. });
    layers.iter().rfind(linear).map_or(1, |layer| layer.operation().widths().0)
}
