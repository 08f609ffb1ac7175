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

/// What keeps other processes out of a run folder, until it is dropped.
#[must_use]
pub struct Lock {
    _held: Vec<File>,
}

impl Lock {
    /// Takes the folder of a run; members of an ensemble share it and take their own.
    pub fn take(context: &RunContext) -> Result<Self> {
        let mut held =
            vec![hold(&context.run, if context.member.is_some() { File::try_lock_shared } else { File::try_lock })?];
        if let Some(member) = context.member {
            held.push(hold(&member_folder(&context.run, member)?, File::try_lock)?);
        }
        Ok(Self { _held: held })
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

fn hold(folder: &Path, lock: fn(&File) -> Result<(), TryLockError>) -> Result<File> {
    let path = folder.join(LOCK_FILE);
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
        Err(TryLockError::WouldBlock) => {
            let why = "is in use: another process trains in it; wait until it is done, or choose another --out";
            Err(LabError::config(folder.display().to_string(), why))
        }
        // A file system without locks is no reason not to train.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}
