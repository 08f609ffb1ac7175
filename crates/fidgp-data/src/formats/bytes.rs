//! A position in the bytes of a file, which knows how to say that they ended too early.

use std::path::Path;

use crate::{Error, Result};

/// The advice for every file that ends too early.
pub const FETCH_AGAIN: &str = "the file is damaged or incomplete: fetch it again";

/// The whole file.
pub fn read(file: &Path) -> Result<Vec<u8>> {
    fidgp_files::bytes(file).map_err(|e| Error::io(file, e))
}

/// A cursor over bytes that came from `file`.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    file: &'a Path,
    bytes: &'a [u8],
    at: usize,
    /// Where in the file the bytes begin.
    base: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(file: &'a Path, bytes: &'a [u8]) -> Self {
        Self { file, bytes, at: 0, base: 0 }
    }

    /// A cursor over bytes that stand at `base` of the file.
    pub fn within(file: &'a Path, bytes: &'a [u8], base: usize) -> Self {
        Self { base, ..Self::new(file, bytes) }
    }

    /// The offset of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        if count > rest.len() {
            let problem = format!("the file ends inside {what}: {count} bytes wanted, {} there", rest.len());
            return Err(self.fault(self.at, problem, FETCH_AGAIN));
        }
        self.at += count;
        Ok(&rest[..count])
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    /// Skips up to the next multiple of `size`, or to the end where that comes first.
    pub fn align(&mut self, size: usize) {
        self.at = self.at.next_multiple_of(size).min(self.bytes.len());
    }

    pub fn u16_le(&mut self, what: &str) -> Result<u16> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub fn u32_le(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u32_be(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_be_bytes)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }

    /// Everything that is left, which must be `wanted` bytes; `promise` says in words who wants them.
    pub fn rest_of(&mut self, wanted: Option<usize>, promise: &str) -> Result<&'a [u8]> {
        let (start, there) = (self.at, self.bytes.len());
        let end = wanted.and_then(|wanted| wanted.checked_add(start));
        match end {
            Some(end) if end == there => Ok(self.rest()),
            Some(end) => Err(wrong_length(self.file, there, end, promise)),
            None => Err(self.fault(start, format!("{promise} are more than any file holds"), FETCH_AGAIN)),
        }
    }

    /// The byte of the file that byte `at` of these is.
    pub fn place(&self, at: usize) -> usize {
        self.base + at
    }

    /// A fault at byte `at` of these bytes.
    pub fn fault(&self, at: usize, problem: impl Into<String>, advice: &'static str) -> Error {
        Error::byte(self.file, self.place(at), problem, advice)
    }
}

/// A file of `there` bytes that should have `promised`: the fault is where it ends, or where it should have ended.
pub fn wrong_length(file: &Path, there: usize, promised: usize, promise: &str) -> Error {
    let problem = if there < promised {
        format!("the file ends here; by {promise} it should have {promised} bytes")
    } else {
        format!("the file should end here by {promise}, it has {there} bytes")
    };
    Error::byte(file, there.min(promised), problem, FETCH_AGAIN)
}

/// The product of sizes that came from a file, or nothing where it does not fit.
pub fn product(sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(1_usize, |all, &size| all.checked_mul(size))
}
