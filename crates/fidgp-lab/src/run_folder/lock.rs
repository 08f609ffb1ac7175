//! One process trains in a folder.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use fidgp_files::write;

use super::RunContext;
use super::clear::RUN_FOLDERS;
use crate::error::{LabError, Result};
use crate::files::OOD_FOLDER;
use crate::model::MEMBERS;

/// The file that a process holds locked while it trains in a folder. It stays; its lock goes with the process.
const LOCK_FILE: &str = ".lock";

/// The same for a run of several that processes share out among themselves.
const TURN_FILE: &str = ".turn";

/// What keeps other processes out of a run folder, until it is dropped.
#[must_use]
pub struct Lock {
    _held: Vec<File>,
}

impl Lock {
    /// Takes the folder of a run; members of an ensemble share it and take their own.
    pub fn take(context: &RunContext) -> Result<Self> {
        let shared = context.member.is_some() || context.shares;
        let mut held =
            vec![hold((&context.run, LOCK_FILE), if shared { File::try_lock_shared } else { File::try_lock })?];
        if let Some(member) = context.member {
            held.push(hold((&member_folder(&context.run, member)?, LOCK_FILE), File::try_lock)?);
        }
        Ok(Self { _held: held })
    }

    /// Takes a run that others may take instead, with all that is done after its training.
    pub fn turn(run: &Path) -> Result<Self> {
        Ok(Self { _held: vec![hold((run, TURN_FILE), File::try_lock)?] })
    }

    /// Takes one split of a run that several processes train; none while another process has it.
    pub fn split(run: &Path, split: usize) -> Result<Option<Self>> {
        match hold((&splits_folder(run)?, &format!(".{split:02}.lock")), File::try_lock) {
            Err(LabError::InUse { .. }) => Ok(None),
            held => held.map(|file| Some(Self { _held: vec![file] })),
        }
    }

    /// Waits for what all splits of a run have in common: which they are, and their results.
    pub fn of_splits(run: &Path) -> Result<Self> {
        Ok(Self { _held: vec![hold((&splits_folder(run)?, LOCK_FILE), waits)?] })
    }
}

/// Makes the folder of an ensemble's member, where nothing that is written lands elsewhere.
///
/// # Errors
/// When the folder, or one in it, is a link, or the disk refuses.
pub fn member_folder(run: &Path, member: i64) -> Result<PathBuf> {
    let (members, name) = (run.join(MEMBERS), member.to_string());
    let folder = members.join(&name);
    write::refuse_links(&members, &[&name])
        .and_then(|()| std::fs::create_dir_all(&folder))
        .and_then(|()| write::refuse_links(&folder, &RUN_FOLDERS))
        .map_err(|error| LabError::file(&folder, &error))?;
    Ok(folder)
}

fn splits_folder(run: &Path) -> Result<PathBuf> {
    write::refuse_links(run, &RUN_FOLDERS).map_err(|error| LabError::file(run, &error))?;
    Ok(run.join("splits"))
}

fn waits(file: &File) -> Result<(), TryLockError> {
    file.lock().map_err(TryLockError::Error)
}

fn hold((folder, name): (&Path, &str), lock: fn(&File) -> Result<(), TryLockError>) -> Result<File> {
    let path = folder.join(name);
    let failed = |error: std::io::Error| LabError::File {
        path: folder.to_owned(),
        why: format!("nothing can be written there: {error}"),
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    write::refuse_links(folder, &RUN_FOLDERS)
        .and_then(|()| write::refuse_links(folder, &[OOD_FOLDER]))
        .map_err(failed)?;
    let file = write::open_own(&path).map_err(failed)?;
    write::remove_leftovers(folder);
    match lock(&file) {
        Err(TryLockError::WouldBlock) => Err(LabError::InUse { folder: folder.to_owned() }),
        // A file system without locks is no reason not to train.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}
