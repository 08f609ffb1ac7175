//! What can be typed after `fidgp compress`.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;
use fidgp_lab::config::Override;
use fidgp_lab::experiment::compress::Budget;

use super::{Place, at_least_1};

/// Make a trained network smaller, within a budget of parameters, bytes or accuracy.
///
/// Chooses an inducing size for each layer. A few batches of training images measure how sensitive the loss is to each layer. A
/// singular value decomposition weighted by this sensitivity gives the best weight of every rank and its cost. Layers that would
/// not get smaller stay plain. BatchNorm statistics are re-estimated. Prints accuracy, NLL and ECE on the test images, at the mean
/// weights and with weight draws, beside one common size with equally many parameters. With --out the network is then trained
/// for a few epochs, and calibrated where there are validation images.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp compress configs/cifar10-resnet20-fidgp.toml --weights resnet20.safetensors --budget parameters=0.5 --data ~/data\n  \
    fidgp compress resnet18.onnx --budget size=6MB --set data.name=cifar10 --set normalisation=imagenet --data ~/data --out runs/small\n  \
    fidgp train --resume runs/small"
)]
pub struct Compress {
    /// The config file, or an ONNX file. With ONNX, name the data with --set
    pub model: PathBuf,
    /// parameters=SHARE of the plain network's, size=6MB in f32, or accuracy-loss=POINTS on validation images
    #[arg(long)]
    pub budget: Budget,
    /// Weights of the plain network: .safetensors, .pt, .pth or .onnx [default: start.weights of the config; the ONNX file itself]
    #[arg(long)]
    pub weights: Option<PathBuf>,
    /// Shares of the plain parameters at which to compare per-layer sizes with one common size; empty for none
    #[arg(long, value_delimiter = ',', value_name = "SHARE,…", default_values = ["0.3", "0.4", "0.5", "0.7"])]
    pub curve: Vec<f64>,
    /// Number of training images that measure how sensitive the loss is to each layer
    #[arg(long, value_parser = at_least_1::<NonZero<usize>>, default_value = "512")]
    pub images: NonZero<usize>,
    /// Change a config value: dotted.key=value (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// Epochs of training behind the compression; 0 for none. Needs --out
    #[arg(long, default_value_t = 1)]
    pub epochs: u64,
    /// Save the compressed network as a run, with compress.json and compress.svg
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
