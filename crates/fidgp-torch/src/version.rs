//! Which libtorch this process runs with.

/// The version this was compiled against, and that of the library the process has loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// As the headers say; `None` where there are none of them.
    pub built: Option<String>,
    /// As the library itself says; `None` for one that does not.
    pub loaded: Option<String>,
}

impl Versions {
    /// Whether the loaded library is another than that compiled against: calls into it may do anything.
    pub fn differ(&self) -> bool {
        matches!((&self.built, &self.loaded), (Some(built), Some(loaded)) if built != loaded)
    }
}

/// Asks the loaded libtorch for its version.
#[cfg(target_os = "linux")]
pub fn versions() -> Versions {
    #[expect(unsafe_code, reason = "the C face in version.cpp")]
    unsafe extern "C" {
        fn fidgp_versions(built: *mut u64, loaded: *mut u64);
    }
    let (mut built, mut loaded) = (0, 0);
    // SAFETY: both out pointers are valid; the function looked up takes nothing and returns a number.
    #[expect(unsafe_code, reason = "as above")]
    unsafe {
        fidgp_versions(&raw mut built, &raw mut loaded);
    }
    Versions { built: written(built), loaded: written(loaded) }
}

/// Elsewhere nobody is asked.
#[cfg(not(target_os = "linux"))]
pub fn versions() -> Versions {
    Versions { built: None, loaded: None }
}

/// `2.11.0` for 0x020b00…; nothing for 0.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nobody is asked there"))]
fn written(number: u64) -> Option<String> {
    let [major, minor, patch, ..] = number.to_be_bytes();
    (number != 0).then(|| format!("{major}.{minor}.{patch}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_written_and_compared() {
        assert_eq!(written(0x020b_0000_0000_0000).as_deref(), Some("2.11.0"));
        assert_eq!(written(0x020b_0100_0000_0000).as_deref(), Some("2.11.1"));
        assert_eq!(written(0), None);
        let of = |built: u64, loaded: u64| Versions { built: written(built), loaded: written(loaded) };
        assert!(of(0x020b << 48, 0x020a << 48).differ());
        assert!(!of(0x020b << 48, 0x020b << 48).differ() && !of(0x020b << 48, 0).differ());
    }
}
