//! SHA-256, as lower-case hex.

use std::{io, path::Path};

use sha2::{Digest, Sha256};

use crate::{Error, Result};

/// The digest of a file, read in pieces.
pub fn file_sha256(file: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    let copied = fidgp_files::open(file).and_then(|mut f| io::copy(&mut f, &mut hasher));
    copied.map_err(|e| Error::io(file, e))?;
    Ok(format!("{:x}", hasher.finalize()))
}

/// The digest of bytes in memory.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
