//! Where tensors live, and the engine that moves them.

use fidgp_torch::CudaLibrary;
use tch::Device;

use crate::error::{LabError, Result};
use crate::record::Hardware;

/// The libtorch that this process runs with, as it says itself: `libtorch 2.11.0`.
pub fn engine() -> String {
    format!("libtorch {}", fidgp_torch::versions().loaded.as_deref().unwrap_or("of an unknown version"))
}

/// What is wrong with the loaded libtorch, where it is another than this program was compiled against.
pub fn wrong_engine() -> Option<String> {
    let versions = fidgp_torch::versions();
    let (built, loaded) = (versions.built.as_deref()?, versions.loaded.as_deref()?);
    let place = fidgp_torch::linked_libtorch().map_or_else(String::new, |path| format!(" ({})", path.display()));
    versions.differ().then(|| {
        format!(
            "fidgp was compiled against libtorch {built}, but {loaded} is loaded{place}: unset LD_LIBRARY_PATH and \
             LD_PRELOAD, or run `make setup` and build again"
        )
    })
}

/// Opens the CUDA part of libtorch when there is one. Must run before anything else touches libtorch.
pub fn prepare() -> CudaLibrary {
    fidgp_torch::open()
}

/// Holds everything that computes outside libtorch (random numbers, decoders) to so many threads, unless `RAYON_NUM_THREADS`
/// says how many. Only the first call counts, before any of it runs.
pub fn bound_threads(count: usize) {
    if std::env::var_os("RAYON_NUM_THREADS").is_none() {
        _ = rayon::ThreadPoolBuilder::new().num_threads(count.max(1)).build_global();
    }
}

/// The machine, for a record of what was computed on a device.
pub fn hardware(device: Device) -> Hardware {
    let machine = Hardware::detect(if device.is_cuda() { gpu_name() } else { None }, engine());
    Hardware { threads: tch::get_num_threads().max(1) as usize, ..machine }
}

/// The first GPU's name, as its driver gives it.
fn gpu_name() -> Option<String> {
    let output =
        std::process::Command::new("nvidia-smi").args(["--query-gpu=name", "--format=csv,noheader"]).output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(|line| line.trim().to_owned())
}

/// The device that `cpu`, `cuda`, `cuda:1` or `auto` means on this machine.
///
/// # Errors
/// When the name is unknown or the device is not there, which the message says, or the loaded libtorch is another than that
/// compiled against.
pub fn choose(name: &str) -> Result<Device> {
    let library = prepare();
    if let Some(why) = wrong_engine() {
        return Err(LabError::config("libtorch", why));
    }
    let devices = tch::Cuda::device_count();
    if devices > 0
        && let Err(error) = fidgp_torch::exact_convolutions()
    {
        tracing::warn!("convolutions in f32 may be computed in TF32, to three digits: {error}");
    }
    let cuda = |index: i64| {
        if index < devices {
            if index > 0 {
                let failed =
                    |error: fidgp_torch::GraphError| LabError::config(format!("--device cuda:{index}"), error.0);
                fidgp_torch::use_device(index as usize).map_err(failed)?;
            }
            Ok(Device::Cuda(index as usize))
        } else {
            let why = format!(
                "is not there: {devices} CUDA device(s) found ({library}); use cpu or auto, and `fidgp doctor` to look closer"
            );
            Err(LabError::config(format!("--device cuda:{index}"), why))
        }
    };
    match name.split_once(':') {
        None if name == "auto" => Ok(if devices > 0 { Device::Cuda(0) } else { Device::Cpu }),
        None if name == "cpu" => Ok(Device::Cpu),
        None if name == "cuda" => cuda(0),
        Some(("cuda", index)) if index.parse::<i64>().is_ok_and(|index| index >= 0) => cuda(index.parse().unwrap_or(0)),
        _ => Err(LabError::config(format!("--device {name}"), "is not known; write cpu, cuda, cuda:N or auto")),
    }
}
