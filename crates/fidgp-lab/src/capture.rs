//! Work that is warmed up and recorded as a CUDA graph.

use fidgp_cuda::{Graph, GraphError, SideStream};
use tch::{Cuda, Device};

/// Waits for a device; the CPU has nothing to wait for.
pub fn synchronise(device: Device) {
    if let Device::Cuda(index) = device {
        Cuda::synchronize(index as i64);
    }
}

/// Work on a side stream, with the device's other work finished before and this work after.
///
/// # Errors
/// When the stream cannot be changed.
pub fn aside<T>(device: Device, stream: SideStream, work: impl FnOnce() -> T) -> Result<T, GraphError> {
    synchronise(device);
    let result = stream.with(work);
    synchronise(device);
    result
}

/// Records work that has been warmed up on the same stream. Whatever it fails with is told in words.
///
/// # Errors
/// When the work cannot be captured.
pub fn record<T, E: std::fmt::Display>(
    device: Device,
    stream: SideStream,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<(Graph, T), GraphError> {
    aside(device, stream, || Graph::capture(work))??.map_err(|error| GraphError(error.to_string()))
}
