use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    error::{RecordError, Result},
    nullable,
    results::Metrics,
};

/// One line of `metrics.jsonl`: the state after an epoch. Losses are per data point, KL terms are sums over layers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Epochs done, from 1.
    pub epoch: usize,
    /// Optimiser steps done.
    pub step: usize,
    /// Training objective, mean over the epoch.
    #[serde(deserialize_with = "nullable::number")]
    pub loss: f64,
    /// Its data part: the training negative log-likelihood.
    #[serde(deserialize_with = "nullable::number")]
    pub nll: f64,
    /// KL of the inducing weights, nats.
    #[serde(deserialize_with = "nullable::number")]
    pub kl_inducing: f64,
    /// KL of the conditionals, nats.
    #[serde(deserialize_with = "nullable::number")]
    pub kl_conditional: f64,
    /// Weight of the KL in this epoch.
    #[serde(deserialize_with = "nullable::number")]
    pub beta: f64,
    /// Smallest conditional scale of any layer; `None` for a network without inducing layers.
    pub lambda_min: Option<f64>,
    /// Largest conditional scale of any layer.
    pub lambda_max: Option<f64>,
    /// Learning rate at the end of the epoch.
    #[serde(deserialize_with = "nullable::number")]
    pub learning_rate: f64,
    /// Wall-clock seconds of this epoch.
    #[serde(deserialize_with = "nullable::number")]
    pub seconds: f64,
    /// Metrics per part of the data, for example `{"validation": {"NLL": 0.1}}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
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
}

impl EpochWriter {
    /// A fresh log; an old one of that name is replaced.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(RecordError::write(path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Goes on with a log (a resumed run), or begins one. A cut-off last line is ended first, so that it stays alone.
    pub fn append_to(path: &Path) -> Result<Self> {
        let open = || -> std::io::Result<File> {
            let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
            if !ends_with_newline(&mut file)? {
                file.write_all(b"\n")?;
            }
            Ok(file)
        };
        Ok(Self { path: path.to_owned(), file: open().map_err(RecordError::write(path))? })
    }

    /// Adds one line.
    pub fn append(&mut self, record: &EpochRecord) -> Result<()> {
        let line = serde_json::to_string(record).map_err(std::io::Error::from);
        let written = line.and_then(|line| self.file.write_all((line + "\n").as_bytes()));
        written.and_then(|()| self.file.flush()).map_err(RecordError::write(&self.path))
    }
}

fn ends_with_newline(file: &mut File) -> std::io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// Reads a `metrics.jsonl`; a log that does not exist has no lines.
///
/// A line that was cut off by a crash (it ends where JSON should go on) is passed over. Where an epoch occurs twice,
/// after a resume, the later line counts.
pub fn read_epochs(path: &Path) -> Result<Vec<EpochRecord>> {
    let bytes = match fs::read(path) {
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(RecordError::read(path))?,
    };
    let mut records = BTreeMap::new();
    for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
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
