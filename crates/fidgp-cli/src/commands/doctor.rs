//! `fidgp doctor`

use std::process::ExitCode;

use fidgp::Key;
use fidgp::linalg::{Check, Jitter, Named, cholesky};
use fidgp_lab::device::ENGINE;
use fidgp_torch::CudaLibrary;
use tch::{Device, Kind};

use super::Outcome;

pub fn run(cuda: &CudaLibrary) -> Outcome {
    let mut healthy = true;
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push(format!("{name:14} {value}"));
    line("fidgp", env!("CARGO_PKG_VERSION").to_owned());
    line("engine", format!("{ENGINE} through tch 0.24"));
    line(
        "libtorch",
        fidgp_torch::linked_libtorch()
            .map_or("not found in this process".to_owned(), |path| path.display().to_string()),
    );
    line("CUDA library", cuda.to_string());
    line("NVIDIA driver", fidgp_torch::driver_version().unwrap_or_else(|| "none".to_owned()));
    line("devices", devices());
    line(
        "threads",
        format!(
            "{} (inside an operation), {} (between operations)",
            tch::get_num_threads(),
            tch::get_num_interop_threads()
        ),
    );
    line("processes", processes());
    line("cache", cache_folder());
    line(
        "data",
        fidgp_data::catalogue::data_root()
            .map_or_else(|error| format!("none: {error}"), |path| path.display().to_string()),
    );
    for device in all_devices() {
        let checked = self_check(device);
        healthy &= checked.is_ok();
        line("self-check", format!("{device:?}: {}", checked.map_or_else(|error| error, |()| "ok".to_owned())));
    }
    if let Some(advice) = cuda.advice() {
        lines.push(format!("\nhint: {advice}"));
    }
    if !healthy {
        lines.push("\nThe engine does not compute what it should. Run scripts/setup again, or point LIBTORCH at a libtorch 2.11.0.".to_owned());
    }
    super::print(&(lines.join("\n") + "\n"))?;
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn all_devices() -> Vec<Device> {
    let cuda = 0..tch::Cuda::device_count().max(0) as usize;
    std::iter::once(Device::Cpu).chain(cuda.map(Device::Cuda)).collect()
}

fn devices() -> String {
    all_devices().iter().map(|device| format!("{device:?}")).collect::<Vec<_>>().join(", ")
}

/// What a launcher says of other processes.
fn processes() -> String {
    match super::processes::launched() {
        Ok(None) => "this one alone, as far as the environment says".to_owned(),
        Ok(Some(launched)) => launched.summary(),
        Err(error) => error.to_string(),
    }
}

fn cache_folder() -> String {
    let base = std::env::var_os("XDG_CACHE_HOME").map(std::path::PathBuf::from);
    let base = base.or_else(|| std::env::var_os("HOME").map(|home| std::path::Path::new(&home).join(".cache")));
    base.map_or("unknown".to_owned(), |base| base.join("fidgp").display().to_string())
}

/// Factorises a batch of matrices with gradients and multiplies back.
fn self_check(device: Device) -> Result<(), String> {
    let matrices: Vec<Named> = (0..4)
        .map(|index| {
            let a = Key::new(index).normal(&[32, 32], Kind::Double, device).set_requires_grad(true);
            Named::one(format!("self-check {index}"), &a.matmul(&a.tr()))
        })
        .collect();
    let factors = cholesky(&matrices, Jitter { relative: 1e-8, escalations: 0 }, Check::Now)
        .map_err(|error| error.to_string())?;
    for (matrix, lower) in matrices.iter().zip(&factors) {
        let error = (lower.matmul(&lower.mt()) - &matrix.values).abs().max().double_value(&[]);
        let scale = matrix.values.abs().max().double_value(&[]);
        if error.is_nan() || error > 1e-7 * scale {
            return Err(format!("L Lᵀ differs from A by {error:.1e}"));
        }
    }
    factors[0].trace().f_backward().map_err(|error| error.to_string())
}
