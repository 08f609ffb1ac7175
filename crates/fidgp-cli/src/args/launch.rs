//! What can be typed after `fidgp launch`.

use std::num::NonZero;

use clap::Args;

use super::at_least_1;

/// Train by several processes on this machine.
///
/// Each computes a part of every batch; the run is that of one process, which `fidgp train` with the same options would write.
/// For several machines use torchrun, srun or mpirun with `fidgp train`: see docs/use/several-machines.md.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fidgp launch -n 2 train configs/cifar10-resnet20-fidgp.toml --data ~/data")]
pub struct Launch {
    /// How many processes
    #[arg(short = 'n', long, value_parser = at_least_1::<NonZero<u16>>)]
    pub processes: NonZero<u16>,
    /// Start all of them again so many times when one fails; the training goes on from its last checkpoint
    #[arg(long, default_value = "0")]
    pub restarts: u64,
    /// `train` and its options
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
