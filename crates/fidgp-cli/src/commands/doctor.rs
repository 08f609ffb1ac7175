//! `fidgp doctor`

use std::process::ExitCode;

use fidgp::Key;
use fidgp::linalg::{Check, Jitter, Named, cholesky};
use fidgp_lab::device::{engine, wrong_engine};
use fidgp_torch::CudaLibrary;
use serde_json::json;
use tch::{Device, Kind};

use super::Outcome;
use crate::args::Doctor;

pub fn run(arguments: &Doctor, cuda: &CudaLibrary) -> Outcome {
    let mut healthy = true;
    let mut found: Vec<(&str, String)> = Vec::new();
    let mut line = |name: &'static str, value: String| found.push((name, value));
    line("fidgp", env!("CARGO_PKG_VERSION").to_owned());
    line("engine", format!("{} through tch 0.24", engine()));
    line(
        "libtorch",
        fidgp_torch::linked_libtorch()
            .map_or("not found in this process".to_owned(), |path| path.display().to_string()),
    );
    let checksums = checksums();
    healthy &= checksums.is_ok();
    line("checksums", checksums.unwrap_or_else(|error| error));
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
    let mut notes: Vec<String> = cuda.advice().map(|advice| format!("hint: {advice}")).into_iter().collect();
    if let Some(why) = wrong_engine() {
        notes.push(format!("error: {why}"));
        healthy = false;
    }
    if !healthy {
        notes.push("The engine does not compute what it should. Run scripts/setup again, or point LIBTORCH at a libtorch 2.11.0.".to_owned());
    }
    if arguments.json {
        let found: Vec<_> = found.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        super::print_json(&json!({"healthy": healthy, "found": found, "notes": notes}))?;
    } else {
        let lines = found.iter().map(|(name, value)| format!("{name:14} {value}\n"));
        let notes = notes.iter().map(|note| format!("\n{note}\n"));
        super::print(&lines.chain(notes).collect::<String>())?;
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the libraries beside the loaded libtorch are those that `scripts/setup` fetched: their SHA-256, one after the other.
fn checksums() -> Result<String, String> {
    let libtorch = fidgp_torch::linked_libtorch();
    let list = libtorch.as_deref().and_then(|file| {
        let folders = file.ancestors().skip(1).take(3);
        folders.map(|folder| folder.join("SHA256SUMS")).find(|list| list.exists())
    });
    let Some(list) = list else { return Ok("none: this libtorch was not fetched by scripts/setup".to_owned()) };
    let text = fidgp_files::text(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let folder = list.parent().unwrap_or(&list);
    let mut count = 0;
    for line in text.lines() {
        let mut words = line.splitn(3, "  ");
        let (Some(digest), Some(_), Some(name)) = (words.next(), words.next(), words.next()) else {
            return Err(format!("{}: `{}` is no line of it", list.display(), fidgp_files::shown(line)));
        };
        let path = folder.join(name);
        let found = fidgp_data::file_sha256(&path).map_err(|error| error.to_string())?;
        if found != digest {
            return Err(format!("{} is not the file that was fetched: run scripts/setup --verify", path.display()));
        }
        count += 1;
    }
    Ok(format!("{count} libraries are those that were fetched"))
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
