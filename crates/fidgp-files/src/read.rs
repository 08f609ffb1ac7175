//! Whole files, up to a limit.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::limits::{FILE_BYTES, Limit, TEXT_BYTES};

/// The whole file.
///
/// # Errors
/// When it cannot be read, or has more than [`FILE_BYTES`]; also one without an end, such as `/dev/zero`.
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    up_to(path, &FILE_BYTES)
}

/// The whole of a config, a record or another small file of text.
///
/// # Errors
/// When it cannot be read, is no UTF-8, or has more than [`TEXT_BYTES`].
pub fn text(path: &Path) -> io::Result<String> {
    let bytes = up_to(path, &TEXT_BYTES)?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("is not UTF-8 text at byte {valid}"))
    })
}

/// Opens a file to read, but no named pipe: that waits until somebody writes to it, which may be never. What a shell lends
/// as `<(command)` lies in `/dev` or `/proc` and is open already.
///
/// # Errors
/// When it cannot be opened, or is such a pipe.
pub fn open(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        let is_lent = path.starts_with("/dev") || path.starts_with("/proc");
        if !is_lent && std::os::unix::fs::FileTypeExt::is_fifo(&fs::metadata(path)?.file_type()) {
            return Err(io::Error::other("is a named pipe, not a file: write its content to a file first"));
        }
    }
    File::open(path)
}

fn up_to(path: &Path, limit: &'static Limit) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    let beyond = |wanted| limit.check(wanted).map_err(|error| io::Error::new(io::ErrorKind::FileTooLarge, error));
    beyond(length)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length as usize).map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))?;
    let most = limit.most();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?; // a pipe or a device does not say how long it is
    beyond(bytes.len() as u64)?;
    Ok(bytes)
}
