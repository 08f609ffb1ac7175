//! The log of predictions: a line of JSON for each answer, for `fidgp monitor`. Off unless asked for; inputs only on request.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::model::Item;

/// Where predictions are written, and when a new file is begun.
#[derive(Debug)]
pub struct PredictionLog {
    path: PathBuf,
    most: u64,
    kept: usize,
    inputs: bool,
    file: Mutex<(File, u64)>,
}

impl PredictionLog {
    /// Opens a log that begins anew after `most` bytes and keeps so many old files (`NAME.1` is the youngest). A link is
    /// not followed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn open(path: &Path, most: u64, kept: usize, inputs: bool) -> io::Result<Self> {
        let file = append_to(path)?;
        let written = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), most, kept, inputs, file: Mutex::new((file, written)) })
    }

    /// Writes the answers of a request. When it returns the system has them: they outlive the program, not a power cut.
    ///
    /// # Errors
    /// When the disk does not take them.
    pub fn write(&self, model: &str, request: &str, items: &[Item], answers: &[Answer]) -> io::Result<()> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let mut lines = String::new();
        for (item, answer) in items.iter().zip(answers) {
            let mut line = json!(answer);
            line["time"] = time.into();
            line["model"] = model.into();
            line["request"] = request.into();
            match item {
                Item::Row(_) | Item::Cells(_) if self.inputs && !answer.features.is_empty() => {
                    line["features"] = json!(answer.features);
                }
                Item::Row(row) if self.inputs => line["features"] = json!(row),
                Item::Cells(cells) if self.inputs => line["features"] = json!(cells),
                _ => {}
            }
            lines += &without_null(line).to_string();
            lines.push('\n');
        }
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if file.1 > 0 && file.1 + lines.len() as u64 > self.most {
            *file = (self.begin_anew()?, 0);
        }
        if let Err(error) = file.0.write_all(lines.as_bytes()) {
            let _ = file.0.set_len(file.1); // no half line stays on a full disk
            return Err(error);
        }
        file.1 += lines.len() as u64;
        Ok(())
    }

    /// Moves every file on by one number, and opens a new one.
    fn begin_anew(&self) -> io::Result<File> {
        let numbered = |number: usize| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        if self.kept == 0 {
            std::fs::remove_file(&self.path)?;
        } else {
            for number in (1..self.kept).rev().filter(|number| numbered(*number).exists()) {
                std::fs::rename(numbered(number), numbered(number + 1))?;
            }
            std::fs::rename(&self.path, numbered(1))?;
        }
        append_to(&self.path)
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    if path.symlink_metadata().is_ok_and(|found| found.file_type().is_symlink()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is a symbolic link; name the file itself"));
    }
    OpenOptions::new().create(true).append(true).open(path)
}

/// JSON has no NaN: what would be null is left out.
fn without_null(line: Value) -> Value {
    match line {
        Value::Object(fields) => Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Prediction;

    #[test]
    fn a_full_log_is_moved_aside_and_so_many_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let log = PredictionLog::open(&path, 300, 2, true).unwrap();
        let number = Prediction::Number { mean: 1.0, sd: 2.0, epistemic: 0.5, aleatoric: 1.9, intervals: Vec::new() };
        let answer = Answer::of(number, 8);
        for request in 0..12 {
            log.write("m", &request.to_string(), &[Item::Row(vec![0.25])], std::slice::from_ref(&answer)).unwrap();
        }
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["log.jsonl", "log.jsonl.1", "log.jsonl.2"]);
        let last = std::fs::read_to_string(&path).unwrap();
        let line: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
        assert_eq!(
            (line["request"].as_str(), line["features"][0].as_f64(), line["mean"].as_f64()),
            (Some("11"), Some(0.25), Some(1.0))
        );
        for name in names {
            assert!(std::fs::metadata(folder.path().join(name)).unwrap().len() <= 300);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, link) = (folder.path().join("mine"), folder.path().join("log.jsonl"));
        std::fs::write(&mine, "precious").unwrap();
        std::os::unix::fs::symlink(&mine, &link).unwrap();
        assert!(PredictionLog::open(&link, 100, 1, false).is_err());
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "precious");
    }
}
