//! How many threads compute.

use std::num::NonZero;
use std::path::Path;

use fidgp_lab::LabError;
use fidgp_lab::config::{NetworkConfig, RunConfig};
use fidgp_lab::predict::Trained;
use fidgp_torch::Launched;

/// What OpenMP programs are told, and `torchrun` tells its processes where the user does not.
const SAID: &str = "OMP_NUM_THREADS";

/// Threads inside an operation: as many as were asked for, by the option or else by the environment, or as a network is worth.
pub fn threads_for(config: &RunConfig, asked: Option<NonZero<u16>>) -> Result<i32, LabError> {
    let most = MOST_THREADS * cores();
    let count = |threads: NonZero<u16>| i32::from(threads.get());
    Ok(match (asked, said(), &config.network) {
        (Some(threads), ..) if usize::from(threads.get()) > most => {
            let why = format!("{threads} is more than {most}, {MOST_THREADS} for each of the {} cores here", cores());
            return Err(LabError::config("--threads", why));
        }
        (Some(threads), ..) => count(threads),
        (None, Some(threads), _) => count(threads).min(most as i32),
        (None, None, NetworkConfig::Mlp(_)) => 1,
        (None, None, _) => cores() as i32,
    })
}

/// The same for one of several processes: what nobody asked for is divided among those of a machine.
pub fn threads_of_one(
    config: &RunConfig,
    asked: Option<NonZero<u16>>,
    launched: Option<&Launched>,
) -> Result<i32, LabError> {
    let threads = threads_for(config, asked)?;
    let Some(launched) = launched.filter(|_| asked.is_none()) else { return Ok(threads) };
    let Some(said) = said() else { return Ok((threads / launched.local_size as i32).max(1)) };
    let many = cores() / launched.local_size;
    if launched.rank == 0 && launched.launcher == "torchrun" && said.get() == 1 && many > 1 {
        tell!(
            "{SAID} = 1: each process computes with 1 thread, though there are {many} cores for each (torchrun sets it where you \
             do not); {SAID} or --threads changes that"
        );
    }
    Ok(threads)
}

/// Sets the threads for a trained network in a folder, before anything of it is computed. What is wrong with the folder is said
/// when it is opened.
pub fn set_for(folder: &Path, asked: Option<NonZero<u16>>) -> Result<(), LabError> {
    if let Ok(config) = Trained::config_of(folder) {
        tch::set_num_threads(threads_of_one(&config, asked, super::processes::launched()?.as_ref())?);
    }
    Ok(())
}

/// What the environment says; the first number of a list is for operations that are in no other.
fn said() -> Option<NonZero<u16>> {
    number(&std::env::var(SAID).ok()?)
}

fn number(text: &str) -> Option<NonZero<u16>> {
    text.split(',').next().and_then(|first| first.trim().parse().ok())
}

/// Threads for each core beyond which a run hardly moves.
const MOST_THREADS: usize = 8;

/// So many threads, or as many as these cores can use: what asks for more is refused when its config is known.
pub fn at_most_useful(threads: usize) -> usize {
    threads.min(MOST_THREADS * cores())
}

/// Cores that this process may use: those of its affinity, or fewer where its container has a quota.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_a_number_or_nothing() {
        let read = |text| number(text).map(NonZero::get);
        assert_eq!([read("3"), read("4,2"), read(" 2 ,1")], [Some(3), Some(4), Some(2)]);
        assert_eq!([read(""), read("0"), read("many"), read("-1")], [None; 4]);
    }
}
