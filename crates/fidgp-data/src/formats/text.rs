//! Text files of numbers and of names.

use std::path::Path;

use super::bytes;
use crate::{Error, Result};

const SAVE_AS: &str = "save it as UTF-8 (in Excel `CSV UTF-8`), or convert it: iconv -f WINDOWS-1252 -t UTF-8";

/// The whole file as text: UTF-8, or UTF-16 with its mark.
pub fn read(file: &Path) -> Result<String> {
    let bytes = bytes::read(file)?;
    let wide = match bytes[..] {
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes as fn([u8; 2]) -> u16),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes as fn([u8; 2]) -> u16),
        _ => None,
    };
    if let Some(wide) = wide {
        let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| wide([pair[0], pair[1]])).collect();
        let text = String::from_utf16(&units).ok().filter(|_| bytes.len().is_multiple_of(2));
        return text.ok_or_else(|| Error::file(file, "not sound UTF-16 text", SAVE_AS));
    }
    String::from_utf8(bytes).map_err(|e| {
        let line = e.as_bytes()[..e.utf8_error().valid_up_to()].split(|&b| b == b'\n').count();
        Error::line(file, line, "not UTF-8 text", SAVE_AS)
    })
}

/// Numbers separated by blanks or commas, one row a line; blank lines are skipped. Returns cells and columns.
pub fn numbers(file: &Path) -> Result<(Vec<f64>, usize)> {
    let (content, mut cells, mut columns) = (read(file)?, Vec::new(), 0);
    for (line, text) in filled_lines(&content) {
        let before = cells.len();
        for word in text.split([' ', '\t', ',', '\r']).filter(|w| !w.is_empty()) {
            cells.push(number(file, line, word)?);
        }
        let width = cells.len() - before;
        if columns != 0 && width != columns {
            let problem = format!("{width} numbers, the lines above have {columns}");
            return Err(Error::line(file, line, problem, "give every line the same number of columns"));
        }
        columns = width;
    }
    if cells.is_empty() {
        return Err(Error::file(file, "holds no numbers", "fetch the file again"));
    }
    Ok((cells, columns))
}

/// Whole numbers below `limit`, in any arrangement; `7` and `7.0` are both seven.
pub fn indices(file: &Path, limit: usize) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for (line, text) in filled_lines(&read(file)?) {
        for word in text.split_whitespace() {
            let value = number(file, line, word)?;
            if value < 0.0 || value.fract() != 0.0 || value >= limit as f64 {
                let problem = format!("`{word}` is not a whole number below {limit}");
                return Err(Error::line(file, line, problem, "the index and data.txt must belong together"));
            }
            found.push(value as usize);
        }
    }
    Ok(found)
}

/// One name a line; blank lines are skipped.
pub fn names(file: &Path) -> Result<Vec<String>> {
    Ok(filled_lines(&read(file)?).map(|(_, text)| text.to_owned()).collect())
}

fn filled_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().map(str::trim).enumerate().filter(|(_, t)| !t.is_empty()).map(|(i, t)| (i + 1, t))
}

fn number(file: &Path, line: usize, word: &str) -> Result<f64> {
    let advice = "every cell must be a finite number: drop the line or fill it in";
    match word.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(Error::line(file, line, format!("`{word}` is not finite"), advice)),
        Err(_) => Err(Error::line(file, line, format!("`{word}` is not a number"), advice)),
    }
}
