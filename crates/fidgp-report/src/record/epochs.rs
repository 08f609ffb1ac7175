use std::{
    collections::BTreeMap,
    fs::File,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use fidgp_files::write;
use serde::{Deserialize, Serialize};

use super::{
    error::{RecordError, Result},
    nullable,
    splits::Metrics,
};

/// One line of `metrics.jsonl`: the state after an epoch. Losses are per data point, KL terms are sums over layers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Epochs done, from 1.
    pub epoch: usize,
    /// Optimiser steps done.
    pub step: usize,
    /// Training objective, mean over the epoch.
    #[serde(with = "nullable::number")]
    pub loss: f64,
    /// Its data part: the training negative log-likelihood.
    #[serde(with = "nullable::number")]
    pub nll: f64,
    /// KL of the inducing weights, nats.
    #[serde(with = "nullable::number")]
    pub kl_inducing: f64,
    /// KL of the conditionals, nats.
    #[serde(with = "nullable::number")]
    pub kl_conditional: f64,
    /// Weight of the KL in this epoch.
    #[serde(with = "nullable::number")]
    pub beta: f64,
    /// Smallest conditional scale of any layer; `None` for a network without inducing layers.
    pub lambda_min: Option<f64>,
    /// Largest conditional scale of any layer.
    pub lambda_max: Option<f64>,
    /// Learning rate at the end of the epoch.
    #[serde(with = "nullable::number")]
    pub learning_rate: f64,
    /// Wall-clock seconds of this epoch.
    #[serde(with = "nullable::number")]
    pub seconds: f64,
    /// Metrics per part of the data, for example `{"validation": {"NLL": 0.1}}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "nullable::parts")]
    pub metrics: BTreeMap<String, Metrics>,
}

impl EpochRecord {
    /// The metric of a part, where it was measured and finite.
    pub fn metric(&self, part: &str, name: &str) -> Option<f64> {
        self.metrics.get(part)?.get(name).copied().flatten()
    }
}

/// Appends lines to a `metrics.jsonl`; each is on its way to disk before `append` returns.
#[derive(Debug)]
pub struct EpochWriter {
    path: PathBuf,
    file: File,
    /// The last epoch that has a line.
    last: usize,
}

impl EpochWriter {
    /// A fresh log; an old one of that name is replaced.
    pub fn create(path: &Path) -> Result<Self> {
        let opened = write::replace(path, b"").and_then(|()| write::open_own(path));
        Ok(Self { path: path.to_owned(), file: opened.map_err(RecordError::write(path))?, last: 0 })
    }

    /// Goes on with a log (a resumed run), or begins one. Lines that were cut off go, so do earlier ones of the same epoch.
    pub fn append_to(path: &Path) -> Result<Self> {
        let before = write::open_own(path).map_err(RecordError::write(path))?; // no link
        drop(before);
        let kept = lines_before(path, usize::MAX)?;
        let last = kept.last().map_or(0, |(epoch, _)| *epoch);
        Ok(Self { file: rewritten(path, &kept)?, path: path.to_owned(), last })
    }

    /// Adds one line; of an epoch that has one, or is before one that has, the later ones go first.
    pub fn append(&mut self, record: &EpochRecord) -> Result<()> {
        if record.epoch <= self.last {
            self.file = rewritten(&self.path, &lines_before(&self.path, record.epoch)?)?;
        }
        let line = serde_json::to_string(record).map_err(std::io::Error::from);
        let written = line.and_then(|line| write::append(&mut self.file, &(line + "\n")));
        let written = written.and_then(|()| self.file.flush());
        if written.is_err() {
            // a part of the line may stand there: without it the next one begins a line of its own
            if let Ok(whole) = lines_before(&self.path, usize::MAX).and_then(|kept| rewritten(&self.path, &kept)) {
                self.file = whole;
            }
        }
        self.last = record.epoch;
        written.map_err(RecordError::write(&self.path))
    }
}

/// A log of these lines alone.
fn rewritten(path: &Path, lines: &[(usize, String)]) -> Result<File> {
    let text: String = lines.iter().flat_map(|(_, line)| [line.as_str(), "\n"]).collect();
    let is_so = fidgp_files::bytes(path).is_ok_and(|there| there == text.as_bytes());
    let written = if is_so { Ok(()) } else { write::replace(path, text.as_bytes()) };
    written.and_then(|()| write::open_own(path)).map_err(RecordError::write(path))
}

/// The whole lines of a log, one for each epoch before this one, in order; of several the last counts.
fn lines_before(path: &Path, epoch: usize) -> Result<Vec<(usize, String)>> {
    let mut lines = BTreeMap::new();
    for (number, line) in text(path)?.lines().enumerate() {
        if let Some(record) = parse_line(line).map_err(|source| at_line(path, number + 1, source))? {
            lines.insert(record.epoch, line.to_owned());
        }
    }
    lines.retain(|own, _| *own < epoch);
    Ok(lines.into_iter().collect())
}

/// The text of a log; a log that does not exist has none.
fn text(path: &Path) -> Result<String> {
    match fidgp_files::bytes(path) {
        Err(source) if source.kind() == ErrorKind::NotFound => Ok(String::new()),
        other => Ok(String::from_utf8_lossy(&other.map_err(RecordError::read(path))?).into_owned()),
    }
}

/// Reads a `metrics.jsonl`; a log that does not exist has no lines.
///
/// A line that was cut off by a crash (it ends where JSON should go on) is passed over. Where an epoch occurs twice,
/// after a resume, the later line counts.
pub fn read_epochs(path: &Path) -> Result<Vec<EpochRecord>> {
    let mut records = BTreeMap::new();
    for (number, line) in text(path)?.lines().enumerate() {
        if let Some(record) = parse_line(line).map_err(|source| at_line(path, number + 1, source))? {
            records.insert(record.epoch, record);
        }
    }
    Ok(records.into_values().collect())
}

fn parse_line(line: &str) -> serde_json::Result<Option<EpochRecord>> {
    match serde_json::from_str(line) {
        Err(error) if line.trim().is_empty() || error.is_eof() => Ok(None),
        other => other.map(Some),
    }
}

fn at_line(path: &Path, line: usize, source: serde_json::Error) -> RecordError {
    RecordError::Line { path: path.to_owned(), line, source }
}
