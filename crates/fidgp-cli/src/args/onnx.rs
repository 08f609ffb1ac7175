//! What can be typed behind `fidgp onnx`.

use std::num::NonZero;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};

/// Look at ONNX files, and run them as they are.
#[derive(Debug, Subcommand)]
pub enum Onnx {
    /// List layers with shapes, parameters and MACs, inputs and outputs, and unsupported operators
    Inspect(OnnxInspect),
    /// Run a graph on tensors of a safetensors file, to compare with another runtime
    Run(OnnxRun),
    /// List the supported operators
    Operators,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp onnx inspect network.onnx\n  fidgp onnx inspect network.onnx --shape 3x224x224"
)]
pub struct OnnxInspect {
    /// The .onnx file
    pub file: PathBuf,
    /// Shape of one input without the batch, such as 3x224x224 [default: that of the file]
    #[arg(long)]
    pub shape: Option<Sizes>,
    /// The input to use, if there are several
    #[arg(long)]
    pub input: Option<String>,
    /// The output to use, if there are several
    #[arg(long)]
    pub output: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fidgp onnx run network.onnx --inputs in.safetensors --out out.safetensors")]
pub struct OnnxRun {
    /// The .onnx file
    pub file: PathBuf,
    /// Its inputs by name
    #[arg(long, value_name = "IN.safetensors")]
    pub inputs: PathBuf,
    /// Where its outputs go, by name
    #[arg(long, value_name = "OUT.safetensors")]
    pub out: PathBuf,
    /// cpu, cuda, cuda:N or auto
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Compute in f64
    #[arg(long)]
    pub double: bool,
    /// Threads inside an operation [default: all cores]
    #[arg(long, value_parser = super::at_least_1::<NonZero<u16>>)]
    pub threads: Option<NonZero<u16>>,
}

/// Sizes as they are typed: 3x224x224.
#[derive(Clone, Debug)]
pub struct Sizes(pub Vec<i64>);

impl FromStr for Sizes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let size = |part: &str| part.trim().parse().ok().filter(|size| (1..=1 << 20).contains(size));
        let sizes = text.split(['x', ',']).map(size).collect::<Option<Vec<i64>>>();
        sizes.map(Self).ok_or("must be whole numbers, such as 3x224x224")
    }
}
