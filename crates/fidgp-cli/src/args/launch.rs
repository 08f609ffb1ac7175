//! What can be typed after `fidgp launch`.

use std::num::NonZero;

use clap::Args;

use super::at_least_1;

/// Train or evaluate with several processes on this machine.
///
/// Each process computes a part of every batch. What is written is the same as that of one process with the same options.
/// For several machines use torchrun, srun or mpirun: see docs/use/several-machines.md.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fidgp launch -n 2 train configs/cifar10-resnet20-fidgp.toml --data ~/data")]
pub struct Launch {
    /// Number of processes
    #[arg(short = 'n', long, value_parser = at_least_1::<NonZero<u16>>)]
    pub processes: NonZero<u16>,
    /// How often to restart all processes from the last checkpoint if one fails
    #[arg(long, default_value = "0")]
    pub restarts: u64,
    /// `train`, `eval`, `calibrate`, `fit-posterior`, `ood` or `compare`, and its options
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
