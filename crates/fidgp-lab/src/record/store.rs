use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use super::error::{RecordError, Result};

/// Writes a file so that a reader, or a power cut, sees either the old content or the new, never a part.
///
/// The bytes go to a temporary file in the same folder, are synced to disk, and take the name in one step. The folder
/// is created where it is missing.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    create_parent(path).and_then(|()| replace(path, bytes)).map_err(RecordError::write(path))
}

/// Whether files could be written to a folder, which need not be there yet: asked before long work, and nothing is left.
///
/// # Errors
/// When they could not.
pub fn check_writable(folder: &Path) -> Result<()> {
    let there = folder.ancestors().find(|part| part.exists()).unwrap_or(Path::new("."));
    let probe = create_beside(&there.join("probe")).and_then(|(temporary, _)| fs::remove_file(temporary));
    probe.map_err(RecordError::write(folder))
}

fn create_parent(path: &Path) -> io::Result<()> {
    fs::create_dir_all(folder(path))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (temporary, mut file) = create_beside(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary); // best effort: the error to report is the first one
    }
    written?;
    sync_folder(folder(path));
    Ok(())
}

/// A temporary file that nobody else has: another machine may write here under the same process number.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        let temporary = temporary_beside(path);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|file| (temporary, file)),
        }
    }
}

/// Makes the rename itself durable; file systems that cannot sync a folder are left alone.
fn sync_folder(folder: &Path) {
    let _ = File::open(folder).and_then(|opened| opened.sync_all());
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn temporary_beside(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    folder(path).join(name)
}
