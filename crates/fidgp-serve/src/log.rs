//! The log of predictions: a line of JSON for each answer, for `fidgp monitor`. Off unless asked for; inputs only on request.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use fidgp_files::write::open_own;
use serde_json::{Value, json};

use crate::answer::Answer;

/// Who asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Id of the request.
    pub request: String,
    /// Id of the trace that it belongs to, where the client says so.
    pub trace: Option<String>,
}

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
        let file = open_own(path)?;
        let written = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), most, kept, inputs, file: Mutex::new((file, written)) })
    }

    /// Writes the answers of a request. When it returns the system has them: they outlive the program, not a power cut.
    ///
    /// # Errors
    /// When the disk does not take them.
    pub fn write(&self, model: &str, source: &Source, answers: &[Answer]) -> io::Result<()> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let mut lines = String::new();
        for answer in answers {
            let mut line = json!(answer);
            line["time"] = time.into();
            line["model"] = model.into();
            line["request"] = source.request.as_str().into();
            line["trace_id"] = source.trace.as_deref().into();
            if self.inputs {
                if !answer.features.is_empty() {
                    line["features"] = json!(answer.features);
                }
            } else {
                hide_inputs(&mut line, answer);
            }
            lines += &without_null(line).to_string();
            lines.push('\n');
        }
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if file.1 > 0 && file.1 + lines.len() as u64 > self.most {
            *file = (begin_anew(&self.path, self.kept, open_own)?, 0);
        }
        if let Err(error) = file.0.write_all(lines.as_bytes()) {
            let _ = file.0.set_len(file.1); // no half line stays on a full disk
            return Err(error);
        }
        file.1 += lines.len() as u64;
        Ok(())
    }
}

/// Moves every file on by one number, and opens a new one. Where there is none to make room for, none is moved: if the new one
/// cannot be opened, now and at each further try, the old ones stay what they are.
fn begin_anew(path: &Path, kept: usize, open: impl Fn(&Path) -> io::Result<File>) -> io::Result<File> {
    let numbered = |number: usize| {
        let mut name = path.to_owned().into_os_string();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(_) if kept == 0 => unless_gone(std::fs::remove_file(path))?,
        Ok(_) => {
            for number in (1..kept).rev() {
                unless_gone(std::fs::rename(numbered(number), numbered(number + 1)))?;
            }
            unless_gone(std::fs::rename(path, numbered(1)))?;
        }
    }
    open(path)
}

/// Remarks repeat values of the input (`age = 200 lies outside …`): only their number is written.
fn hide_inputs(line: &mut Value, answer: &Answer) {
    let remarks = answer.out_of_range.len() + answer.flags.len();
    if remarks > 0 {
        (line["out_of_range"], line["flags"], line["remarks"]) = (Value::Null, Value::Null, remarks.into());
    }
    if !answer.out_of_range.is_empty() {
        line["reason"] = Value::Null;
    }
}

/// A file that somebody else has moved or removed is no failure.
fn unless_gone(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// What is not known is left out.
fn without_null(line: Value) -> Value {
    match line {
        Value::Object(fields) => Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Decision, Prediction};

    #[test]
    fn a_full_log_is_moved_aside_and_so_many_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let log = PredictionLog::open(&path, 400, 2, true).unwrap();
        let number = Prediction::Number { mean: 1.0, sd: 2.0, epistemic: 0.5, aleatoric: 1.9, intervals: Vec::new() };
        let answer = Answer { features: vec![0.25.into(), true.into()], ..Answer::of(number, 8) };
        for request in 0..12 {
            let source = Source { request: request.to_string(), trace: None };
            log.write("m", &source, std::slice::from_ref(&answer)).unwrap();
        }
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["log.jsonl", "log.jsonl.1", "log.jsonl.2"]);
        let last = std::fs::read_to_string(&path).unwrap();
        let line: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
        assert_eq!(
            (line["request"].as_str(), line["features"].to_string(), line["mean"].as_f64()),
            (Some("11"), "[0.25,true]".to_owned(), Some(1.0))
        );
        for name in names {
            assert!(std::fs::metadata(folder.path().join(name)).unwrap().len() <= 400);
        }
    }

    fn written(path: &Path, inputs: bool) -> Value {
        let number = Prediction::Number { mean: 1.0, sd: 2.0, epistemic: 0.5, aleatoric: 1.9, intervals: Vec::new() };
        let reason = "income = 4242 lies outside 0 … 100 of the training data".to_owned();
        let answer = Answer {
            features: vec![4242.into()],
            out_of_range: vec![reason.clone()],
            flags: vec!["city = 4242 is none of the 2 texts".to_owned()],
            decision: Some(Decision { decision: "out-of-distribution".to_owned(), reason }),
            ..Answer::of(number, 8)
        };
        let log = PredictionLog::open(path, 4000, 2, inputs).unwrap();
        log.write("m", &Source::default(), std::slice::from_ref(&answer)).unwrap();
        serde_json::from_str(std::fs::read_to_string(path).unwrap().lines().last().unwrap()).unwrap()
    }

    #[test]
    fn inputs_are_written_on_request_alone_also_where_remarks_repeat_them() {
        let folder = tempfile::tempdir().unwrap();
        let line = written(&folder.path().join("without"), false);
        assert!(!line.to_string().contains("4242"), "{line}");
        assert_eq!((&line["remarks"], &line["decision"]), (&2.into(), &"out-of-distribution".into()));
        let line = written(&folder.path().join("with"), true);
        assert!(line["reason"].as_str().unwrap().contains("4242") && line["features"].is_array(), "{line}");
    }

    /// A file that cannot be opened (too many are open, say) costs lines, and no old file.
    #[test]
    fn a_new_file_that_cannot_be_opened_costs_no_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let named = |name: &str| folder.path().join(name);
        for (name, text) in [("log.jsonl", "c"), ("log.jsonl.1", "b"), ("log.jsonl.2", "a")] {
            std::fs::write(named(name), text).unwrap();
        }
        for _ in 0..3 {
            assert!(begin_anew(&path, 3, |_| Err(io::Error::other("too many open files"))).is_err());
        }
        let text = |name: &str| std::fs::read_to_string(named(name)).unwrap_or_default();
        let found = ["log.jsonl.1", "log.jsonl.2", "log.jsonl.3"].map(text);
        assert_eq!(found, ["c", "b", "a"]);
        begin_anew(&path, 3, open_own).unwrap();
        assert_eq!((found, text("log.jsonl").len()), (["log.jsonl.1", "log.jsonl.2", "log.jsonl.3"].map(text), 0));
    }

    /// As `logrotate` does it.
    #[test]
    fn a_log_that_is_moved_away_is_begun_anew_when_it_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let log = PredictionLog::open(&path, 100, 2, false).unwrap();
        let number = Prediction::Number { mean: 1.0, sd: 2.0, epistemic: 0.5, aleatoric: 1.9, intervals: Vec::new() };
        let write = || log.write("m", &Source::default(), &[Answer::of(number.clone(), 8)]).unwrap();
        write();
        std::fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        write();
        write();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
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
