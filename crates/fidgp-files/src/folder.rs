//! Folders of several files that belong together.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::write::{create_folder_beside, folder, sync_folder, temporary_beside};

/// A folder that is filled beside its place and takes it in one step. Dropped before that, it is gone and the old one stands.
#[derive(Debug)]
pub struct NewFolder {
    place: PathBuf,
    temporary: PathBuf,
    _lock: File,
}

impl NewFolder {
    /// An empty folder to fill for `place`.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn beside(place: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder(place))?;
        let (temporary, lock) = create_folder_beside(place)?;
        Ok(Self { place: place.to_owned(), temporary, _lock: lock })
    }

    /// Where its files go until then.
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// Takes the place. An old folder that has nothing but files of the names in `own` is exchanged as a whole; in one with
    /// anything else, which is nobody's to remove, the files of these names are exchanged one by one, in this order.
    ///
    /// # Errors
    /// When the disk refuses, or the place is a link or a file.
    pub fn take_place(self, own: &[&str]) -> io::Result<()> {
        sync_files(&self.temporary)?;
        match fs::symlink_metadata(&self.place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(&self.temporary, &self.place)?,
            Err(error) => return Err(error),
            Ok(there) if !there.is_dir() => {
                return Err(io::Error::other("is a link or a file, not a folder: remove it"));
            }
            Ok(_) if holds_only(&self.place, own)? => self.exchange()?,
            Ok(_) => self.move_files(own)?,
        }
        sync_folder(folder(&self.place));
        Ok(())
    }

    fn exchange(&self) -> io::Result<()> {
        if swap(&self.temporary, &self.place).is_ok() {
            return Ok(()); // the old one is removed with `self`
        }
        let old = temporary_beside(&self.place); // two steps, where a file system has no exchange
        fs::rename(&self.place, &old)?;
        if let Err(error) = fs::rename(&self.temporary, &self.place) {
            let _ = fs::rename(&old, &self.place);
            return Err(error);
        }
        fs::remove_dir_all(&old)
    }

    fn move_files(&self, own: &[&str]) -> io::Result<()> {
        for name in own {
            let (new, old) = (self.temporary.join(name), self.place.join(name));
            match new.exists() {
                true => fs::rename(&new, &old)?,
                false if old.exists() => fs::remove_file(&old)?,
                false => {}
            }
        }
        sync_folder(&self.place);
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if self.temporary.exists() {
            let _ = fs::remove_dir_all(&self.temporary); // else the next one does it
        }
    }
}

fn holds_only(folder: &Path, own: &[&str]) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if own.iter().all(|name| entry.file_name() != *name) || !entry.file_type()?.is_file() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn sync_files(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        File::open(entry?.path())?.sync_all()?;
    }
    sync_folder(folder);
    Ok(())
}

/// Exchanges two folders in one step, where the system can.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn swap(a: &Path, b: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)?)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn swap(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
