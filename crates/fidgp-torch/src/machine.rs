//! What this machine and this process have: loaded libraries, places to look, a driver.

use std::fs;
use std::path::{Path, PathBuf};

const CUDA_PART: &str = "libtorch_cuda.so";

/// Where the CUDA part may be, best first. A bare name is searched for by the dynamic linker.
pub fn candidates() -> Vec<PathBuf> {
    let linked = linked_libtorch().map(|cpu_part| cpu_part.with_file_name(CUDA_PART));
    let compiled_against = option_env!("LIBTORCH").map(|libtorch| Path::new(libtorch).join("lib").join(CUDA_PART));
    linked.into_iter().chain([PathBuf::from(CUDA_PART)]).chain(compiled_against).collect()
}

/// The file of libtorch's CPU part that this process runs with; `None` when it is not linked, or not to be seen.
pub fn linked_libtorch() -> Option<PathBuf> {
    mapped(&memory_map(), "libtorch_cpu.so")
}

/// The file behind a library that was opened by path or by bare name.
pub fn loaded_from(library: &Path) -> PathBuf {
    let name = library.file_name().and_then(|name| name.to_str()).filter(|_| library.is_relative());
    name.and_then(|name| mapped(&memory_map(), name)).unwrap_or_else(|| library.to_owned())
}

/// The NVIDIA driver's version, such as `580.95.05`; `None` without a driver.
pub fn driver_version() -> Option<String> {
    let files = ["/proc/driver/nvidia/version", "/sys/module/nvidia/version"];
    files.iter().find_map(|file| version_number(&fs::read_to_string(file).ok()?))
}

/// The name of this machine.
#[cfg(target_os = "linux")]
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "a machine without a name".to_owned() } else { name.trim().to_owned() }
}

/// The first dotted number of a text.
fn version_number(text: &str) -> Option<String> {
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.split_whitespace().find(is_version).map(str::to_owned)
}

fn memory_map() -> String {
    fs::read_to_string("/proc/self/maps").unwrap_or_default()
}

/// The path of a library in a process's memory map: lines of `addresses flags offset device inode path`.
fn mapped(memory_map: &str, name: &str) -> Option<PathBuf> {
    let paths = memory_map.lines().filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])));
    paths.into_iter().find(|path| path.file_name().is_some_and(|file| file == name)).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_library_in_a_memory_map() {
        let map = "55d0a000-55d0b000 r--p 00000000 fe:00 11 /usr/bin/fidgp\n\
                   7f3c0000-7f3c1000 r-xp 00001000 fe:00 12 /opt/my torch/lib/libtorch_cpu.so\n\
                   7f3d0000-7f3d1000 rw-p 00000000 00:00 0 \n";
        assert_eq!(mapped(map, "libtorch_cpu.so"), Some(PathBuf::from("/opt/my torch/lib/libtorch_cpu.so")));
        assert_eq!(mapped(map, CUDA_PART), None);
    }

    #[test]
    fn reads_the_drivers_version() {
        let text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build";
        assert_eq!(version_number(text).as_deref(), Some("580.95.05"));
        assert_eq!(version_number("570.86.15\n").as_deref(), Some("570.86.15"));
        assert_eq!(version_number("no driver"), None);
    }

    #[test]
    fn looks_with_the_dynamic_linker_whatever_is_linked() {
        assert!(candidates().contains(&PathBuf::from(CUDA_PART)));
    }
}
