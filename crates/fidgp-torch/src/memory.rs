//! Memory that the C library gives back to the system, and takes again with every page cleared.

/// Keeps large blocks that are freed for the next ones. glibc maps every block beyond 32 MiB anew, and the activations of a
/// batch are larger: the system then clears each page of each of them, layer after layer, which can take longer than the
/// network. What was freed stays with the process instead, which may hold somewhat more at a time for that.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "two settings of the C library, which no crate of ours offers in a safe form")]
pub fn keep_freed_memory() {
    use std::ffi::c_int;

    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    // from malloc.h
    const M_TRIM_THRESHOLD: c_int = -1;
    const M_MMAP_THRESHOLD: c_int = -3;
    /// Larger blocks are still mapped, and given back.
    const LARGEST_KEPT: c_int = 1 << 30;
    /// As the manual has it: nothing is given back from the end of the heap.
    const NEVER: c_int = -1;
    // SAFETY: numbers that the allocator compares sizes with; it refuses what it does not know and goes on as before.
    unsafe {
        mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT);
        mallopt(M_TRIM_THRESHOLD, NEVER);
    }
}

/// Does nothing: other C libraries have rules of their own.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_freed_memory() {}
