//! What can be typed after `fidgp wrap`.

use std::path::PathBuf;

use clap::Args;
use fidgp_lab::config::Override;

use super::Place;

/// Make a trained network Bayesian, and measure what it keeps before any training.
///
/// Each Bayesian layer starts at the best fit to the given weight within its inducing rank. Prints accuracy, NLL and ECE on the
/// test images before and after, and for each layer the share of its energy (squared singular values) that is kept.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp wrap configs/cifar10-resnet20-fidgp.toml --weights resnet20.safetensors --data ~/data --out runs/wrapped\n  \
    fidgp train --resume runs/wrapped\n  \
    fidgp wrap resnet18.onnx --set data.name=cifar10 --set normalisation=imagenet --data ~/data --out runs/resnet18"
)]
pub struct Wrap {
    /// The config file, or an ONNX file. With ONNX, name the data with --set
    pub config: PathBuf,
    /// Weights of the plain network: .safetensors, .pt or .pth [default: start.weights of the config]
    #[arg(long)]
    pub weights: Option<PathBuf>,
    /// Change a config value: dotted.key=value (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// Save the wrapped network as a run that `fidgp train --resume` trains
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Write even if the folder holds a run
    #[arg(long, requires = "out")]
    pub force: bool,
    #[command(flatten)]
    pub place: Place,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}
