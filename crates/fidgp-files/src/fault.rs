//! A disk that refuses, on purpose: with `FIDGP_FAIL_WRITE=N` in the environment the Nth step of writing fails, and no other.
//! Tests use it to see that whatever write fails, nothing is lost or mixed.

use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The variable.
const VARIABLE: &str = "FIDGP_FAIL_WRITE";

static FAILS: LazyLock<Option<u64>> = LazyLock::new(|| std::env::var(VARIABLE).ok()?.parse().ok());
static STEPS: AtomicU64 = AtomicU64::new(0);

/// One step of writing.
///
/// # Errors
/// When it is the one that was asked to fail.
pub fn step() -> io::Result<()> {
    let Some(fails) = *FAILS else { return Ok(()) };
    let step = STEPS.fetch_add(1, Ordering::Relaxed) + 1;
    if step == fails {
        let why = format!("no space left, by {VARIABLE}={fails}");
        return Err(io::Error::new(io::ErrorKind::StorageFull, why));
    }
    Ok(())
}
