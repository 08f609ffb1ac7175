use std::{fs, thread};

use serde::{Deserialize, Serialize};

/// The machine a run was made on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hardware {
    /// Model name of the processor.
    pub cpu: String,
    /// Threads inside an operation.
    pub threads: usize,
    /// Main memory, GiB.
    pub memory_gib: f64,
    /// Model name of the GPU that did the work, if one did.
    pub gpu: Option<String>,
    /// Tensor engine and version, for example `libtorch 2.11.0`.
    pub engine: String,
}

impl Hardware {
    /// Asks the system; what it does not say becomes `unknown` or 0. GPU and engine are the caller's to name.
    pub fn detect(gpu: Option<String>, engine: impl Into<String>) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: cpu_name(&read("/proc/cpuinfo")).unwrap_or_else(|| format!("unknown ({})", std::env::consts::ARCH)),
            threads: thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_gib(&read("/proc/meminfo")).unwrap_or(0.0),
            gpu,
            engine: engine.into(),
        }
    }
}

fn cpu_name(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "cpu model"].iter().find_map(|key| field(cpuinfo, key)).map(str::to_owned)
}

/// One decimal: the exact number of bytes differs from boot to boot.
fn memory_gib(meminfo: &str) -> Option<f64> {
    let kib: f64 = field(meminfo, "MemTotal")?.split_whitespace().next()?.parse().ok()?;
    Some((kib / 1024.0 / 1024.0 * 10.0).round() / 10.0)
}

fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == key).map(|(_, v)| v.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_proc_files() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Example CPU @ 2.00GHz\nflags\t\t: fpu\n";
        assert_eq!(cpu_name(cpuinfo).as_deref(), Some("Example CPU @ 2.00GHz"));
        assert_eq!(memory_gib("MemTotal:       16384000 kB\nMemFree: 1 kB\n"), Some(15.6));
    }

    #[test]
    fn silence_is_not_an_error() {
        assert_eq!((cpu_name(""), memory_gib("MemTotal: lots")), (None, None));
        assert!(Hardware::detect(None, "libtorch").threads >= 1);
    }
}
