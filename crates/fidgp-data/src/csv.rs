//! Tables that people bring along as text: numbers separated by commas or blanks, with or without a line of names on top.

use std::path::Path;

use crate::{Result, text};

/// What tables have in place of a number that is not there, in small letters.
const MISSING: [&str; 5] = ["na", "n/a", "null", "none", "?"];

/// The numbers of a file, row-major, and how many columns there are. A first line of words is a heading; one with a number, or
/// with what stands for a missing one, is a row.
///
/// # Errors
/// Names the line that is no row of finite numbers, or has another length than those above.
pub fn numbers(file: &Path) -> Result<(Vec<f64>, usize)> {
    let content = text::read(file)?;
    let is_meant_as_number = |word: &str| {
        let digits = word.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit());
        digits || word.parse::<f64>().is_ok() || MISSING.contains(&word.to_lowercase().as_str())
    };
    let has_number = |line: &str| line.split([',', ' ', '\t']).any(|word| is_meant_as_number(word.trim()));
    let heading = content.lines().next().is_some_and(|line| !has_number(line));
    text::rows(file, &content, usize::from(heading))
}
