//! What can be typed after `fidgp init`.

use std::path::PathBuf;

use clap::Args;

/// Write a config for your own table or pictures.
///
/// Reads the data and writes a config that is ready to train: fidgp train config.toml. The config holds out a part of the data
/// for `fidgp calibrate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp init houses.csv --target price\n  fidgp init photos/ --out photos.toml\n  fidgp init houses.csv --network network.onnx"
)]
pub struct Init {
    /// A table (.csv, .tsv, .txt, .parquet, .npy, .safetensors), a folder with CLASS/ or train/CLASS/ and val/CLASS/ of pictures, or a folder of
    /// image arrays
    pub path: PathBuf,
    /// The column to predict [default: the last]
    #[arg(long)]
    pub target: Option<String>,
    /// Your network as an ONNX file, in place of a usual one
    #[arg(long, value_name = "FILE.onnx")]
    pub network: Option<PathBuf>,
    /// Where to write the config
    #[arg(long, default_value = "config.toml")]
    pub out: PathBuf,
}
