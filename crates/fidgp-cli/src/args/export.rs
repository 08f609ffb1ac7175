//! `fidgp export`

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Place;

/// Export a trained model as a folder, an ONNX file or a PyTorch state dict.
///
/// The folder has the form of the Hugging Face Hub: config.json, model.safetensors, preprocessor_config.json and a card
/// with the run's results. `fidgp predict FOLDER` needs nothing else. Other formats are single files: `onnx`, a graph for any
/// runtime whose outputs are probabilities (or mean), uncertainties and, of a calibrated model, sets or intervals, acceptance and
/// p-values; `torch`, the posterior mean or one draw of the weights as a plain state dict.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp export runs/houses --out houses-model\n  fidgp export runs/houses --format onnx --draws 8 --out houses.onnx\n  \
    fidgp export models/cifar100-resnet18-fidgp --format onnx --draws mean --out resnet18.onnx\n  \
    fidgp export models/cifar100-resnet18-fidgp --format torch --draw 3 --out draw3.safetensors"
)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub struct Export {
    /// A run folder or a model folder
    #[arg(value_name = "RUN|MODEL")]
    pub run: PathBuf,
    /// Where to write the model: a folder, or a file for the formats onnx and torch
    #[arg(long)]
    pub out: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value = "folder")]
    pub format: Format,
    /// onnx: number of weight draws to store, `mean` (the posterior mean), or `linearised` (the closed form, for tables)
    /// [default: the draws of the run's config]
    #[arg(long, value_name = "K|mean|linearised")]
    pub draws: Option<String>,
    /// torch: write this draw of the weights, the first being 0, instead of the posterior mean
    #[arg(long, value_name = "NUMBER")]
    pub draw: Option<u64>,
    /// onnx: leave the normalisation out; inputs come normalised, as the network takes them
    #[arg(long)]
    pub normalised: bool,
    /// Type of the stored matrices. f16 and bf16 halve the size, int8 (a scale for each row) quarters it; matrices that rounding
    /// would change too much stay in f32
    #[arg(long, value_enum, default_value = "f32")]
    pub dtype: Dtype,
    /// Measure the model before and after rounding on its test data, which takes twice the time of `fidgp eval`
    #[arg(long)]
    pub measure: bool,
    /// Write even if the folder holds a model
    #[arg(long)]
    pub force: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Folder,
    Onnx,
    Torch,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Dtype {
    F32,
    F16,
    Bf16,
    Int8,
}
