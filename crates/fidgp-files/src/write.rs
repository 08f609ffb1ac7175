//! Writing whole or not at all, and never through a link.
//!
//! The bytes go to a temporary file beside the place, are synced to disk, and take the name in one step: a reader, a kill or
//! a power cut sees the old content or the new, never a part. A link at the place is replaced, its target is not touched.
//! What a killed process leaves behind is recognised by its name and removed by the next one that writes there.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::fault;

/// How the names of temporary files and folders end.
pub(crate) const ENDING: &str = ".tmp";

/// Folders that this process has cleared of leftovers. Held while a temporary thing is made and locked, or removed.
static CLEARED: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// Writes a file, whole or not at all. The folder is created where it is missing.
///
/// # Errors
/// When the disk refuses; then the old content stands.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder(path))?;
    let (temporary, mut file) = create_beside(path)?;
    let written = write_half_if_refused(&mut file, bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| take_place(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary); // best effort: the error to report is the first one
    }
    written?;
    sync_folder(folder(path));
    Ok(())
}

/// Gives a file the name of another, which goes.
///
/// # Errors
/// When the disk refuses.
pub fn take_place(from: &Path, to: &Path) -> io::Result<()> {
    fault::step()?;
    fs::rename(from, to)
}

/// Adds a line to a file that is open for that.
///
/// # Errors
/// When the disk refuses.
pub fn append(file: &mut File, line: &str) -> io::Result<()> {
    write_half_if_refused(file, line.as_bytes())
}

/// Writes all of it; where the disk refuses on purpose, half of it, as a real one might.
fn write_half_if_refused(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    if let Err(refused) = fault::step() {
        file.write_all(&bytes[..bytes.len() / 2])?;
        return Err(refused);
    }
    file.write_all(bytes)
}

/// Whether files could be written to a folder, which need not be there yet: asked before long work, and nothing is left.
///
/// # Errors
/// When they could not.
pub fn check_writable(folder: &Path) -> io::Result<()> {
    let there = folder.ancestors().find(|part| part.exists()).unwrap_or(Path::new("."));
    create_beside(&there.join("probe")).and_then(|(temporary, _)| fs::remove_file(temporary))
}

/// Opens a file to append to or to lock, and creates it where it is missing.
///
/// # Errors
/// When it cannot be opened, or is no plain file: a link is not followed.
pub fn open_own(path: &Path) -> io::Result<File> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => return Err(through_a_link(path)),
        _ => {}
    }
    fault::step()?;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options.open(path)
}

/// Refuses a folder in which one of these names is a link: what is written below it would land elsewhere.
///
/// # Errors
/// Names the link.
pub fn refuse_links(folder: &Path, names: &[&str]) -> io::Result<()> {
    let is_link = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink());
    match names.iter().map(|name| folder.join(name)).find(is_link) {
        Some(link) => Err(through_a_link(&link)),
        None => Ok(()),
    }
}

fn through_a_link(path: &Path) -> io::Error {
    let name = path.file_name().unwrap_or_default().display();
    io::Error::other(format!("`{name}` is a link or no plain file, and nothing is written through it: remove it"))
}

/// Removes the temporary files and folders that killed processes have left in a folder. Those in use stay: their process
/// lives, or holds them locked. Once for each folder and process; whatever cannot be removed is left to the next one.
pub fn remove_leftovers(folder: &Path) {
    let mut cleared = CLEARED.lock().unwrap_or_else(PoisonError::into_inner);
    clear(folder, &mut cleared);
}

fn clear(folder: &Path, cleared: &mut HashSet<PathBuf>) {
    if !cleared.insert(folder.to_owned()) {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_leftover(&entry.file_name().to_string_lossy()) && is_free(&entry.path()) {
            let _ = match entry.file_type() {
                Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
                _ => fs::remove_file(entry.path()),
            };
        }
    }
}

/// Whether a name is one of ours, `.NAME.PROCESS-NUMBER.tmp`, of a process that is gone from this machine, or of our own.
fn is_leftover(name: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let process = name
        .strip_prefix('.')
        .and_then(|rest| rest.strip_suffix(ENDING)?.rsplit_once('.'))
        .and_then(|(_, numbers)| numbers.split_once('-'))
        .and_then(|(process, count)| number(count).and_then(|_| number(process)));
    process.is_some_and(|process| process == u64::from(std::process::id()) || !lives(process))
}

fn lives(process: u64) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

/// Whether nobody holds it locked.
fn is_free(path: &Path) -> bool {
    let Ok(there) = fs::symlink_metadata(path) else { return false };
    let is_plain = there.is_file() || there.is_dir(); // a pipe of such a name is nobody's, and opening it would wait for ever
    !is_plain || File::open(path).is_ok_and(|file| !matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// A temporary file that nobody else has: another machine may write here under the same process number.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    make_beside(path, |temporary| OpenOptions::new().write(true).create_new(true).open(temporary))
}

/// A temporary folder likewise, and what holds it locked.
pub(crate) fn create_folder_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    make_beside(path, |temporary| fs::create_dir(temporary).and_then(|()| File::open(temporary)))
}

fn make_beside(path: &Path, make: impl Fn(&Path) -> io::Result<File>) -> io::Result<(PathBuf, File)> {
    let mut cleared = CLEARED.lock().unwrap_or_else(PoisonError::into_inner);
    clear(folder(path), &mut cleared);
    loop {
        let temporary = temporary_beside(path);
        fault::step()?;
        match make(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                let _ = file.try_lock(); // a file system without locks is no reason not to write
                return Ok((temporary, file));
            }
        }
    }
}

/// Makes a rename itself durable; file systems that cannot sync a folder are left alone.
pub(crate) fn sync_folder(folder: &Path) {
    let _ = File::open(folder).and_then(|opened| opened.sync_all());
}

pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn temporary_beside(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{}{ENDING}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    folder(path).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_known_by_their_names() {
        let own = std::process::id();
        assert!(is_leftover(&format!(".results.json.{own}-3.tmp")));
        assert!(is_leftover(".last.safetensors.4294967295-0.tmp")); // no process has this number
        for other in ["notes.tmp", ".notes.tmp", ".a.b-c.tmp", ".results.json.1-0.tmp", "results.json.77-0.tmp"] {
            assert!(!is_leftover(other), "{other}");
        }
    }
}
