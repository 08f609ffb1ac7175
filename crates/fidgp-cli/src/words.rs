//! What is said, made fit for a terminal.

use std::fmt::Write as _;
use std::io::Write as _;
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

/// JSON whose control signs are spelt out as JSON has it, so that it stays JSON: they stand inside its texts alone.
pub fn harmless_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        let is_kept = matches!(sign, '\n' | '\t') || !needs_escape(sign);
        if is_kept {
            out.push(sign);
        } else {
            for unit in sign.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

fn needs_escape(sign: char) -> bool {
    !sign.is_ascii_graphic() && sign != ' ' && fidgp_files::shown(sign).starts_with('\\')
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
    fn json_stays_json() {
        for name in ["a\u{7f}\u{9b}2J", "\u{202e}gpj.exe", "\u{200f}שלום", "größe \"λ\" \\ \u{2028}", "a\tb\nc\u{1b}"]
        {
            let value = serde_json::json!({"input": name});
            for text in [value.to_string(), serde_json::to_string_pretty(&value).expect("a value")] {
                let shown = harmless_json(&text);
                assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"), value, "{shown}");
                assert!(!shown.contains(['\u{7f}', '\u{9b}', '\u{202e}', '\u{200f}', '\u{2028}']), "{shown}");
            }
        }
    }

    #[test]
    fn a_name_does_not_steer_the_terminal() {
        assert_eq!(harmless("a\u{1b}]0;x\u{7}\tb\nc"), "a\\u{1b}]0;x\\u{7}\tb\nc");
    }
}
