//! Names as they may be shown.

use std::fmt::Display;

/// A name, a path or a message from elsewhere with its control signs spelt out, so that it can neither steer a terminal nor
/// begin a line of its own.
///
/// ```
/// assert_eq!(fidgp_files::shown("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
/// assert_eq!(fidgp_files::shown("größe λ.png"), "größe λ.png");
/// ```
pub fn shown(name: impl Display) -> String {
    let mut out = String::new();
    for sign in name.to_string().chars() {
        if is_harmless(sign) { out.push(sign) } else { out.extend(sign.escape_default()) }
    }
    out
}

/// Neither a control sign nor one that turns the direction of writing.
fn is_harmless(sign: char) -> bool {
    !sign.is_control() && !matches!(sign, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
