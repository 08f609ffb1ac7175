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

/// What is said where libtorch was refused memory, which no check foresees: how much there is, is known by asking for it.
fn out_of_memory(words: &str) -> Option<String> {
    let is_refused = ["can't allocate memory", "not enough memory", "out of memory", "bad_alloc"]
        .iter()
        .any(|said| words.contains(said));
    let wanted = words.split_once("tried to allocate ").or_else(|| words.split_once("Tried to allocate "));
    let wanted = wanted.map_or("more", |(_, rest)| rest.split_once(". ").map_or(rest, |(amount, _)| amount));
    let wanted: String = wanted.chars().take(40).collect();
    is_refused.then(|| {
        format!(
            "error: not enough memory: {} could not be allocated. Use a smaller batch (train.batch_size, predict.batch_size), fewer \
             draws or a smaller network, or end other programs",
            fidgp_files::shown(wanted.trim())
        )
    })
}

fn line(panic: &PanicHookInfo) -> String {
    let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let payload = panic.payload();
    let words =
        payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let words = words.unwrap_or("no words");
    if let Some(said) = out_of_memory(words) {
        return said;
    }
    let words = crate::words::without_trace(words);
    let words = fidgp_files::shown(words.trim());
    format!(
        "error: internal error at {place} ({words}). This is a bug: please report this line, \
         `fidgp --version`, the command, and the smallest input that it takes"
    )
}

/// Runs the program; nothing where it panicked.
pub fn caught<T>(program: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(program)).ok()
}

#[cfg(test)]
mod tests {
    use super::out_of_memory;

    #[test]
    fn memory_that_is_refused_is_named() {
        let cpu = "Torch(\"[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried \
                   to allocate 32400000000 bytes. Error code 12 (Cannot allocate memory)\\nframe #0\")";
        let said = out_of_memory(cpu).expect("it is known");
        assert!(said.starts_with("error: not enough memory: 32400000000 bytes could not be allocated."), "{said}");
        assert!(
            out_of_memory("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has")
                .is_some_and(|said| said.contains("20.00 GiB"))
        );
        assert_eq!(out_of_memory("index out of range"), None);
    }
}
