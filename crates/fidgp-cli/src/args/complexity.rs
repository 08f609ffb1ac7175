//! What can be typed after `fidgp complexity`.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;

use super::at_least_1;

/// Compare formulas, counts and times of one layer for each method (a minute).
///
/// Uses one square layer of growing width d and growing inducing size M, and a prediction of N inputs with K passes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  fidgp complexity\n  fidgp complexity --out runs/complexity --rounds 9")]
pub struct Complexity {
    /// Folder for complexity.json, report.html and its figures
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// N, inputs of a prediction
    #[arg(long, value_parser = at_least_1::<NonZero<u32>>, default_value = "64")]
    pub batch: NonZero<u32>,
    /// K, passes of a prediction
    #[arg(long, value_parser = at_least_1::<NonZero<u32>>, default_value = "8")]
    pub draws: NonZero<u32>,
    /// Samples of each time, of which the median is shown
    #[arg(long, value_parser = at_least_1::<NonZero<usize>>, default_value = "5")]
    pub rounds: NonZero<usize>,
    /// cpu, cuda, cuda:N or auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}
