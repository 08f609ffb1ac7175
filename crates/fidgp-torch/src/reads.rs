//! How often work makes the host wait for the device. The same operations count on a CPU, so a test needs no GPU.

#[cfg(target_os = "linux")]
use std::{cell::Cell, convert::Infallible};

#[cfg(target_os = "linux")]
use crate::scope::within;

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the C face in reads.cpp, which takes and returns numbers")]
unsafe extern "C" {
    fn fidgp_reads_begin() -> u64;
    fn fidgp_reads_end(handle: u64) -> u64;
}

/// Does work and counts the operations that read a number from a tensor, or a size that depends on its numbers, on this
/// thread. On CUDA each of them would wait for everything launched before, and none can be captured in a graph. A copy of a
/// whole tensor into a vector is no operation of libtorch's and is not seen.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "calls into libtorch's own observers; this crate is the place for them")]
pub fn host_reads<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let (handle, count) = (Cell::new(0), Cell::new(0));
    // SAFETY: the observer belongs to this thread and is removed on this thread, once, also where the work panics.
    let begin = || {
        handle.set(unsafe { fidgp_reads_begin() });
        Ok::<_, Infallible>(())
    };
    // SAFETY: as above.
    let end = || {
        count.set(unsafe { fidgp_reads_end(handle.get()) });
        Ok(())
    };
    let Ok((result, _)) = within(begin, end, work);
    (result, count.get())
}
