//! What can be typed after `fidgp init`.

use std::path::PathBuf;

use clap::Args;

/// Look at a table or a folder of pictures and write a config that trains on them as it stands.
///
/// A part of the data is set aside for `fidgp calibrate`. Then: fidgp train config.toml
#[derive(Debug, Args)]
pub struct Init {
    /// A table (.csv, .tsv, .txt, .npy, .safetensors), or a folder with train/ and val/ and a folder of pictures for each class
    /// inside, or with arrays
    pub path: PathBuf,
    /// The column to predict; the last one without it
    #[arg(long)]
    pub target: Option<String>,
    /// Where to write the config
    #[arg(long, default_value = "config.toml")]
    pub out: PathBuf,
}
