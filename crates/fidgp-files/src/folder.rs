//! Folders of several files that belong together.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::fault;
use crate::write::{create_folder_beside, folder, sync_folder, take_place};

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
        put_back(place);
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
            Err(error) if error.kind() == io::ErrorKind::NotFound => take_place(&self.temporary, &self.place)?,
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
        fault::step()?;
        if swap(&self.temporary, &self.place).is_ok() {
            return Ok(()); // the old one is removed with `self`
        }
        self.exchange_in_two_steps()
    }

    /// Where a file system has no exchange. A kill between the steps leaves the old folder aside, where [`put_back`] finds it:
    /// it has no name of a temporary thing, which would be removed.
    fn exchange_in_two_steps(&self) -> io::Result<()> {
        let old = aside(&self.place);
        if old.exists() {
            fs::remove_dir_all(&old)?; // its place is taken, or it would have been put back
        }
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
                true => take_place(&new, &old)?,
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

/// Where an old folder waits while a new one takes its place.
fn aside(place: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(place.file_name().unwrap_or_default());
    name.push(".old");
    folder(place).join(name)
}

/// Gives a folder that a killed process has put aside its name back. Where that is taken, nothing is done.
fn put_back(place: &Path) {
    let is_folder = fs::symlink_metadata(aside(place)).is_ok_and(|there| there.is_dir());
    if is_folder && fs::symlink_metadata(place).is_err() {
        let _ = fs::rename(aside(place), place);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder `model` with a file of these bytes, and a new one for its place.
    fn old_and_new(home: &Path) -> (PathBuf, NewFolder) {
        let place = home.join("model");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("a"), "old").unwrap();
        let new = NewFolder::beside(&place).unwrap();
        fs::write(new.path().join("a"), "new").unwrap();
        (place, new)
    }

    #[test]
    fn without_an_exchange_the_new_one_comes_in_two_steps() {
        let home = tempfile::tempdir().unwrap();
        let (place, new) = old_and_new(home.path());
        new.exchange_in_two_steps().unwrap();
        assert_eq!(fs::read(place.join("a")).unwrap(), b"new");
        assert!(!aside(&place).exists());
    }

    #[test]
    fn what_a_kill_between_two_steps_has_put_aside_comes_back() {
        let home = tempfile::tempdir().unwrap();
        let (place, new) = old_and_new(home.path());
        fs::rename(&place, aside(&place)).unwrap();
        std::mem::forget(new); // killed here
        crate::write::replace(&home.path().join("x"), b"x").unwrap(); // clears temporary things, not this
        drop(NewFolder::beside(&place).unwrap());
        assert_eq!(fs::read(place.join("a")).unwrap(), b"old");
    }
}
