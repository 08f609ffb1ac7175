//! The other processes of a training, as a launcher tells of them.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fidgp_lab::{LabError, device};
use fidgp_torch::{Group, Launched};
use tch::Device;

/// Set by `fidgp launch`: standard input is a pipe that ends with the launcher.
pub const LAUNCHED: &str = "FIDGP_LAUNCHED";

/// Seconds to wait for another process.
const TIMEOUT: &str = "FIDGP_GROUP_TIMEOUT";
const USUAL_TIMEOUT: u64 = 300;

/// What the launcher says; nothing where this process is alone.
pub fn launched() -> Result<Option<Launched>, LabError> {
    Launched::from_environment().map_err(|why| LabError::config("the environment", format!("cannot be: {why}")))
}

/// Commands that compute or write what one process does alone.
const ALONE: [&str; 8] = ["demo", "init", "reference", "wrap", "compress", "export", "bench", "report"];

/// Commands that several processes share.
pub const SHARED: [&str; 6] = ["train", "compare", "eval", "calibrate", "fit-posterior", "ood"];

/// Refuses a command that all processes of a launcher would do at the same time, each the whole of it and into the same files.
pub fn alone(command: &str) -> Result<(), LabError> {
    let several = if ALONE.contains(&command) { launched().ok().flatten() } else { None };
    let Some(Launched { rank, size, launcher, .. }) = &several else { return Ok(()) };
    let variable = several.as_ref().map_or("", Launched::rank_variable);
    Err(LabError::config(
        format!("fidgp {command}"),
        format!(
            "is work for one process, and this is rank {rank} of {size} ({launcher}): start it once, without the launcher, or in \
             this environment as `env -u {variable} fidgp {command} …`; several processes share {}",
            SHARED.join(", ")
        ),
    ))
}

/// The device that is meant: where several processes share a machine, `auto` and `cuda` are a GPU for each.
pub fn device_name(asked: &str, launched: Option<&Launched>) -> String {
    let gpus = tch::Cuda::device_count();
    match launched {
        Some(launched) if gpus > 0 && ["auto", "cuda"].contains(&asked) => {
            format!("cuda:{}", launched.local_rank as i64 % gpus)
        }
        _ => asked.to_owned(),
    }
}

/// Has this process end when `fidgp launch`, which started it, is gone.
pub fn end_with_launcher() {
    if std::env::var_os(LAUNCHED).is_some() {
        std::thread::spawn(end_with_the_launcher);
    }
}

/// Does work as one of the processes of a launcher, or alone; the others are told when this one fails.
pub fn shared<T>(
    device: &str,
    work: impl FnOnce(Device, Option<&Arc<Group>>) -> Result<T, LabError>,
) -> Result<T, LabError> {
    let launched = launched()?;
    let device = device::choose(&device_name(device, launched.as_ref()))?;
    let group = join(launched.as_ref(), device)?;
    let done = work(device, group.as_ref());
    if let Some(group) = &group {
        end(group, &done);
    }
    done
}

/// Leaves a group when the work is done, or could not be.
pub fn end<T>(group: &Group, done: &Result<T, LabError>) {
    match done {
        Ok(_) | Err(LabError::Group(_)) => group.leave(),
        Err(error) => group.fail(&crate::words::without_trace(&error.to_string())),
    }
}

/// Whether this process is the first, which writes and prints.
pub fn is_first(group: Option<&Arc<Group>>) -> bool {
    group.is_none_or(|group| group.rank() == 0)
}

/// Meets the others.
pub fn join(launched: Option<&Launched>, device: Device) -> Result<Option<Arc<Group>>, LabError> {
    end_with_launcher();
    let timeout = timeout()?;
    let join = |launched| Ok::<_, LabError>(Arc::new(Group::join(launched, device, timeout)?));
    let group = launched.map(join).transpose()?;
    if let Some(group) = group.as_ref().filter(|_| device.is_cuda()) {
        group.watch(timeout.min(SILENCE), |error| {
            tell!("error: {error}");
            signal_hook::low_level::exit(1);
        });
    }
    Ok(group)
}

/// How long a process may be silent where nobody waits for its work: on GPUs, which have queues.
const SILENCE: Duration = Duration::from_secs(20);

fn timeout() -> Result<Duration, LabError> {
    let Some(text) = std::env::var(TIMEOUT).ok().filter(|text| !text.is_empty()) else {
        return Ok(Duration::from_secs(USUAL_TIMEOUT));
    };
    match text.parse() {
        Ok(seconds @ 1..=86_400) => Ok(Duration::from_secs(seconds)),
        _ => Err(LabError::config(TIMEOUT, format!("= `{text}` must be seconds, 1 to 86400"))),
    }
}

/// A line on the pipe asks to stop; its end means that the launcher is gone, however that came.
fn end_with_the_launcher() {
    let mut byte = [0];
    while matches!(std::io::stdin().read(&mut byte), Ok(1)) {
        super::STOP.store(true, Ordering::Relaxed);
    }
    tell!("the launcher is gone: this process ends too");
    signal_hook::low_level::exit(1);
}
