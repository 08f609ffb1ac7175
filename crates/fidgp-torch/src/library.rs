//! Opening a shared library: the one call into the dynamic linker.

use std::path::{Path, PathBuf};

use crate::CudaLibrary;
use crate::machine;

/// Tries the candidates in turn. One that is absent is passed over, one that does not load is remembered.
pub fn first_to_open(candidates: &[PathBuf], open: impl Fn(&Path) -> Result<(), String>) -> CudaLibrary {
    let mut failure = None;
    for candidate in candidates {
        match open(candidate) {
            Ok(()) => return CudaLibrary::Opened(machine::loaded_from(candidate)),
            Err(reason) if is_absent(candidate, &reason) => {}
            Err(reason) => failure = failure.or(Some(reason)),
        }
    }
    failure.map_or(CudaLibrary::NotFound, CudaLibrary::Failed)
}

/// Whether the library itself is missing; the same words about another file mean that a dependency is.
fn is_absent(candidate: &Path, reason: &str) -> bool {
    reason
        .strip_prefix(&*candidate.to_string_lossy())
        .is_some_and(|rest| rest.starts_with(": cannot open shared object file"))
}

/// Loads a library for good, all of its symbols resolved and visible to every other library.
#[cfg(target_os = "linux")]
pub fn open(path: &Path) -> Result<(), String> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

    // SAFETY: opening a library runs its initialisers. Ours is libtorch's CUDA part: its initialisers register kernels
    // with libtorch_cpu, which is what torch itself relies on, and may run in any thread, before or after `main` starts.
    #[expect(unsafe_code, reason = "the one call this crate exists for")]
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    // Closing it would leave libtorch with registered kernels that are gone: keep it open until the process ends.
    library.map(std::mem::forget).map_err(|error| linkers_words(&error))
}

/// The error itself says no more than "dlopen failed": the dynamic linker's words are its source.
#[cfg(target_os = "linux")]
fn linkers_words(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Elsewhere libtorch has no CUDA part that could be opened so.
#[cfg(not(target_os = "linux"))]
pub fn open(path: &Path) -> Result<(), String> {
    Err(format!("{}: cannot open shared object file", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "libtorch_cuda.so";
    const ABSENT: &str = "libtorch_cuda.so: cannot open shared object file: No such file or directory";
    const NO_CUDNN: &str = "libcudnn.so.9: cannot open shared object file: No such file or directory";

    fn answer(replies: &[Result<(), &str>]) -> CudaLibrary {
        let candidates: Vec<PathBuf> = (0..replies.len()).map(|i| Path::new(&"/".repeat(i)).join(NAME)).collect();
        first_to_open(&candidates, |path| {
            let i = candidates.iter().position(|candidate| candidate == path).expect("a candidate");
            replies[i].map_err(str::to_owned)
        })
    }

    #[test]
    fn takes_the_first_that_opens() {
        assert_eq!(answer(&[Err(ABSENT), Ok(())]), CudaLibrary::Opened(PathBuf::from("/libtorch_cuda.so")));
    }

    #[test]
    fn tells_a_missing_library_from_a_missing_dependency() {
        assert_eq!(answer(&[Err(ABSENT)]), CudaLibrary::NotFound);
        assert_eq!(answer(&[Err(NO_CUDNN)]), CudaLibrary::Failed(NO_CUDNN.to_owned()));
        assert_eq!(answer(&[]), CudaLibrary::NotFound);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reads_the_dynamic_linkers_own_words() {
        let nowhere = Path::new("/nowhere/libtorch_cuda.so");
        let reason = open(nowhere).expect_err("there is no such file");
        assert!(is_absent(nowhere, &reason), "{reason}");

        let no_library = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let reason = open(no_library).expect_err("a text file is no library");
        assert!(!is_absent(no_library, &reason), "{reason}");
    }
}
