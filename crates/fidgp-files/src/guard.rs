//! Decoders of others that may panic on a file.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a decoder of somebody else's; a panic of it becomes its message. What it wrote to is not to be used after that.
///
/// # Errors
/// With the message of a panic.
///
/// ```
/// assert_eq!(fidgp_files::guarded(|| 1 + 1), Ok(2));
/// assert_eq!(fidgp_files::guarded(|| panic!("index {}", 7)), Err::<(), _>("index 7".to_owned()));
/// ```
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let before = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
    })
}

/// Whether this thread is inside [`guarded`], so that a panic hook has nothing to say.
pub fn is_guarded() -> bool {
    GUARDED.get()
}
