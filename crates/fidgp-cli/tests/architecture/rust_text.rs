//! Reading Rust, as far as the rules need it.

/// A piece of code and its line.
pub struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
}

pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::` and single signs, each with its line.
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let length = if word > 0 {
                word
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push(Token { text: &rest[..length], line: number + 1 });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// The source without comments, strings and characters; line breaks stay where they are.
pub fn code_only(source: &str) -> String {
    let mut code = String::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let after_name = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let skipped = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            'r' if !after_name || code.ends_with('b') => raw_string(rest),
            '"' => quoted(rest, '"'),
            '\'' if rest[1..].starts_with('\\') || rest[1..].chars().nth(1) == Some('\'') => quoted(rest, '\''),
            _ => 0,
        };
        if skipped > 0 {
            code.extend(std::iter::once(' ').chain(rest[..skipped].chars().filter(|c| *c == '\n')));
        } else {
            code.push(first);
        }
        rest = &rest[skipped.max(first.len_utf8())..];
    }
    code
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    for (i, pair) in text.as_bytes().windows(2).enumerate() {
        depth += i32::from(pair == b"/*") - i32::from(pair == b"*/");
        if depth == 0 {
            return i + 2;
        }
    }
    text.len()
}

/// The length of a raw string at the start of a text, 0 if there is none.
fn raw_string(text: &str) -> usize {
    let body = text[1..].trim_start_matches('#');
    let hashes = text.len() - 1 - body.len();
    let end = format!("\"{}", "#".repeat(hashes));
    match body.strip_prefix('"') {
        Some(body) => body.find(&end).map_or(text.len(), |length| 1 + hashes + 1 + length + end.len()),
        None => 0,
    }
}

fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return i + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}
