//! What is said, made fit for a terminal.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on errors and warnings alone are said, and no progress is shown.
pub fn be_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether errors and warnings alone are said.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes a line to standard error.
pub fn say(text: &str) {
    if !is_quiet() || ["error:", "warning:"].iter().any(|kind| text.starts_with(kind)) {
        let _ = writeln!(std::io::stderr(), "{}", harmless(text));
    }
}

/// A text of several lines whose other control signs are spelt out: names in it are a stranger's.
pub fn harmless(text: &str) -> String {
    let shown = |part: &str| fidgp_files::shown(part);
    text.split('\n')
        .map(|line| line.split('\t').map(shown).collect::<Vec<_>>().join("\t"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// A message of libtorch without where in C++ it comes from.
pub fn without_trace(message: &str) -> String {
    let is_trace = |line: &&str| line.starts_with("Exception raised from ") || line.trim_start().starts_with("frame #");
    let kept: Vec<_> = message.lines().filter(|line| !is_trace(line)).collect();
    kept.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_libtorch_is_its_first_line() {
        let message = "shape is invalid\nException raised from view at T.cpp:7 (most recent call first):\nframe #0: c10::Error + 0x1\n";
        assert_eq!(without_trace(message), "shape is invalid");
    }

    #[test]
    fn a_name_does_not_steer_the_terminal() {
        assert_eq!(harmless("a\u{1b}]0;x\u{7}\tb\nc"), "a\\u{1b}]0;x\\u{7}\tb\nc");
    }
}
