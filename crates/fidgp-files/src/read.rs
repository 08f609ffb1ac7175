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
/// as `<(command)` lies in `/dev` or `/proc` and is open already. No device either, but for a terminal and `/dev/null`: others
/// have no end.
///
/// # Errors
/// When it cannot be opened, or is such a pipe or device.
pub fn open(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    refuse_special(path)?;
    File::open(path)
}

/// `/dev/null` and terminals, by the numbers that Linux gives them; elsewhere all devices are refused.
#[cfg(unix)]
fn refuse_special(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let metadata = fs::metadata(path)?;
    let kind = metadata.file_type();
    let is_lent = path.starts_with("/dev") || path.starts_with("/proc");
    if !is_lent && kind.is_fifo() {
        return Err(io::Error::other("is a named pipe, not a file: write its content to a file first"));
    }
    let (major, minor) = ((metadata.rdev() >> 8) & 0xfff, metadata.rdev() & 0xff);
    let has_end = cfg!(target_os = "linux") && ((major, minor) == (1, 3) || [4, 5, 136].contains(&major));
    if kind.is_block_device() || (kind.is_char_device() && !has_end) {
        return Err(io::Error::other("is a device, not a file: write its content to a file first"));
    }
    Ok(())
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused_and_what_has_one_is_not() {
        let home = tempfile::tempdir().unwrap();
        let link = home.path().join("zero.csv");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for endless in [Path::new("/dev/zero"), Path::new("/dev/urandom"), &link] {
            let error = bytes(endless).unwrap_err().to_string();
            assert!(error.contains("is a device, not a file"), "{endless:?}: {error}");
        }
        assert_eq!(bytes(Path::new("/dev/null")).unwrap(), b"");
        assert!(bytes(Path::new("/proc/self/status")).unwrap().starts_with(b"Name:"));
    }
}
