//! Work that is warmed up and recorded as a CUDA graph.

mod replay;

pub use replay::Replayed;

use fidgp_torch::{Graph, GraphError, SideStream};
use tch::{Cuda, Device};

/// Waits for a device; the CPU has nothing to wait for.
pub fn synchronise(device: Device) {
    if let Device::Cuda(index) = device {
        Cuda::synchronize(index as i64);
    }
}

/// Work on a side stream, with the device's other work finished before and this work after. It will be repeated many times, so
/// cuDNN may try which kernels are fastest for it; elsewhere that would take longer than the work.
///
/// # Errors
/// When the stream cannot be changed.
pub fn aside<T>(device: Device, stream: SideStream, work: impl FnOnce() -> T) -> Result<T, GraphError> {
    synchronise(device);
    Cuda::cudnn_set_benchmark(true);
    let result = stream.with(work);
    Cuda::cudnn_set_benchmark(false);
    synchronise(device);
    result
}

/// Records work that has been warmed up on the same stream. Whatever it fails with is told in words.
///
/// A graph has memory of its own, so what the warm-up took is given back first.
///
/// # Errors
/// When the work cannot be captured.
pub fn record<T, E: std::fmt::Display>(
    device: Device,
    stream: SideStream,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<(Graph, T), GraphError> {
    synchronise(device);
    fidgp_torch::empty_cache()?;
    aside(device, stream, || Graph::capture(work))??.map_err(|error| GraphError(error.to_string()))
}

/// Says that something runs uncaptured, and why.
pub fn warn(what: &str, error: &GraphError) {
    let error = error.to_string();
    let why = error.lines().next().unwrap_or_default(); // libtorch adds the frames of its stack
    tracing::warn!("{what} cannot be captured as a CUDA graph, kernels are launched one by one: {why}");
}
