//! Tables that people bring along as text: numbers separated by commas or blanks, with or without a line of names on top.

use std::path::Path;

use crate::{Result, text};

/// The numbers of a file, row-major, and how many columns there are. A first line without any number is a heading.
///
/// # Errors
/// Names the line that is no row of finite numbers, or has another length than those above.
pub fn numbers(file: &Path) -> Result<(Vec<f64>, usize)> {
    let content = text::read(file)?;
    let has_number = |line: &str| line.split([',', ' ', '\t']).any(|word| word.trim().parse::<f64>().is_ok());
    let heading = content.lines().next().is_some_and(|line| !has_number(line));
    text::rows(file, &content, usize::from(heading))
}
