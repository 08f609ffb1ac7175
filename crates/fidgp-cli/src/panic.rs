//! The last resort: what nobody foresaw ends in one line that says what to report, and in exit code 1.

use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};

/// From now on a panic says one line, except where a decoder is guarded and its panic becomes an error.
pub fn say_what_to_report() {
    set_hook(Box::new(|panic| {
        if !fidgp_files::is_guarded() {
            tell!("{}", line(panic));
        }
    }));
}

fn line(panic: &PanicHookInfo) -> String {
    let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let payload = panic.payload();
    let words =
        payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let words = words.unwrap_or("no words");
    let words = crate::words::without_trace(words);
    let words = fidgp_files::shown(words.trim());
    format!(
        "error: fidgp met what its authors did not foresee, at {place} ({words}). This is a bug: please report this line, \
         `fidgp --version`, the command, and the smallest input that it takes"
    )
}

/// Runs the program; nothing where it panicked.
pub fn caught<T>(program: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(program)).ok()
}
