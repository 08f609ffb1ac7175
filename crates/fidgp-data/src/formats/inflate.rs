//! Compressed bytes, inflated as far as they may.

use std::io::{self, Read};
use std::path::Path;

use fidgp_files::limits::{FREE_BYTES, INFLATED_BYTES, INFLATED_RATIO, check_ratio};

use super::bytes::FETCH_AGAIN;
use crate::{Error, Result};

/// Bytes that are inflated between two looks at the budget.
const PIECE: u64 = 1 << 20;

/// What may come out of a file, and what has.
#[derive(Debug)]
pub struct Budget<'a> {
    file: &'a Path,
    bytes: u64,
    taken: u64,
}

impl<'a> Budget<'a> {
    /// For a file of so many bytes.
    pub fn new(file: &'a Path, bytes: usize) -> Self {
        Self { file, bytes: bytes as u64, taken: 0 }
    }

    /// Asks for more bytes, before anybody asks the system for them.
    pub fn take(&mut self, bytes: u64) -> Result<()> {
        self.taken = self.taken.saturating_add(bytes);
        let checked = INFLATED_BYTES.check(self.taken);
        let checked = checked.and_then(|()| check_ratio(&INFLATED_RATIO, FREE_BYTES, self.taken, self.bytes));
        checked.map_err(|exceeded| Error::beyond(self.file, &exceeded))
    }

    /// Inflates the next `count` bytes, or as many as there are, behind those of `out`.
    pub fn inflate(&mut self, decoder: &mut impl Read, count: u64, out: &mut Vec<u8>) -> Result<()> {
        self.take(count)?;
        let done = decoder.take(count).read_to_end(out);
        done.map(drop).map_err(|error| self.damaged(out.len(), &error))
    }

    /// Counts what else there is, keeps none of it, and stops where no more may come out.
    pub fn skip(&mut self, decoder: &mut impl Read, at: usize) -> Result<u64> {
        let mut behind = 0;
        loop {
            let some = io::copy(&mut decoder.take(PIECE), &mut io::sink());
            let some = some.map_err(|error| self.damaged(at, &error))?;
            self.take(some)?;
            behind += some;
            if some < PIECE {
                return Ok(behind);
            }
        }
    }

    /// A compressed stream that is broken behind `at` inflated bytes.
    pub fn damaged(&self, at: usize, error: &io::Error) -> Error {
        Error::byte(self.file, at, format!("the compressed data are damaged: {error}"), FETCH_AGAIN)
    }
}
