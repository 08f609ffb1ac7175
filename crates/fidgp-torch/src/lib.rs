//! What is needed of libtorch beyond `tch`.
//!
//! First, libtorch's CUDA part is opened at run time, so that one binary serves machines with and without a GPU.
//!
//! The binary is linked against libtorch's CPU part alone: it starts where there is no CUDA, and a linker would drop
//! `libtorch_cuda.so` anyway, since no symbol of it is used by name. What the CUDA part does instead, when it is loaded,
//! is to *register* its kernels. Two things follow:
//!
//! - it is opened with every symbol resolved and visible to the others (`RTLD_NOW | RTLD_GLOBAL`);
//! - it is opened **before the first call into torch**. The first call asks which devices there are and keeps the
//!   answer; a CUDA part that comes later is not seen.
//!
//! So [`open`] is the first thing `main` does when CUDA is wanted:
//!
//! ```
//! match fidgp_torch::open() {
//!     fidgp_torch::CudaLibrary::Opened(path) => println!("CUDA kernels from {}", path.display()),
//!     other => println!("CPU only: {other}"),
//! }
//! ```
//!
//! Opening the library says that kernels are there, not that a GPU is: ask torch for that, afterwards.
//!
//! The second thing here is [`Graph`], libtorch's own CUDA graph class, which `tch` does not offer, and beside it
//! settings of libtorch: its cache of memory, the precision and the order of convolutions; the third [`keep_freed_memory`], a
//! setting of the C library that libtorch's CPU part gains by.
//!
//! The fourth is [`Group`]: processes that compute together, on one machine or many, by libtorch's own process groups; where the
//! others are is what a launcher tells ([`Launched`]).
//!
//! The fifth is [`attach`]: gradients that are computed by a function written by hand, where libtorch would take hundreds of small
//! operations for what is a dozen products.
//!
//! This is the only crate of the workspace with `unsafe` in it.

#[cfg(target_os = "linux")]
mod alive;
mod graph;
#[cfg(target_os = "linux")]
mod group;
#[cfg(not(target_os = "linux"))]
#[path = "no_group.rs"]
mod group;
mod launched;
mod library;
mod machine;
#[cfg(target_os = "linux")]
mod meeting;
mod memory;
#[cfg(target_os = "linux")]
mod place;
mod pullback;
mod reads;
#[cfg(target_os = "linux")]
mod scope;
mod version;
mod waiting;

use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

pub use graph::{
    Graph, GraphError, SideStream, empty_cache, exact_convolutions, memory_in_use, repeatable_convolutions, use_device,
};
pub use group::{Group, GroupError};
pub use launched::Launched;
pub use machine::{driver_version, linked_libtorch};
pub use memory::keep_freed_memory;
pub use pullback::{CAN_ATTACH, attach};
#[cfg(target_os = "linux")]
pub use reads::host_reads;
pub use version::{Versions, versions};
pub use waiting::wait_briefly;

/// What came of looking for libtorch's CUDA part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CudaLibrary {
    /// The library is loaded from this file, until the process ends.
    Opened(PathBuf),
    /// There is none: this libtorch is for CPUs.
    NotFound,
    /// There is one that does not load; the dynamic linker's reason.
    Failed(String),
}

/// Opens libtorch's CUDA part if there is one. Call it before anything of torch.
///
/// Looks beside the `libtorch_cpu.so` that this process runs with (the two must come from the same build), then where
/// the dynamic linker looks (`LD_LIBRARY_PATH`, the binary's run path), then in the libtorch this was compiled against.
/// Later calls return the first call's answer.
pub fn open() -> CudaLibrary {
    static ANSWER: OnceLock<CudaLibrary> = OnceLock::new();
    ANSWER.get_or_init(|| library::first_to_open(&machine::candidates(), library::open)).clone()
}

impl CudaLibrary {
    /// What to do about it; `None` when nothing is wrong.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Opened(_) => None,
            Self::NotFound => driver_version().map(
                |_| "this machine has an NVIDIA driver: run `make setup` and build again to get libtorch's CUDA part",
            ),
            Self::Failed(_) => Some(
                "a library that libtorch's CUDA part needs is missing or of another version: unset LIBTORCH, \
                 LIBTORCH_USE_PYTORCH and LD_LIBRARY_PATH, run `make setup` and build again",
            ),
        }
    }
}

impl fmt::Display for CudaLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened(path) => write!(f, "libtorch's CUDA part is loaded from {}", path.display()),
            Self::NotFound => f.write_str("this libtorch has no CUDA part"),
            Self::Failed(reason) => write!(f, "libtorch's CUDA part does not load: {reason}"),
        }
    }
}
