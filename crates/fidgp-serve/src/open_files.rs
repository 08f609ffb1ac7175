//! How many files the system lets this process have open: each connection is one of them.

/// Open files that are no connections: those of models and logs, and the runtime's own.
pub const OTHERS: usize = 128;

/// So many connections, or as many as there can be open files for. Asks the system for more files where it has to.
#[cfg(unix)]
pub fn connections(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = wanted.saturating_add(OTHERS) as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|now| now < needed) {
        let most = maximum.map_or(needed, |most| most.min(needed));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum }); // what it gives is asked below
    }
    let files = getrlimit(Resource::Nofile).current;
    let fit = fitting(wanted, files);
    if let Some(files) = files.filter(|_| fit < wanted) {
        tracing::warn!(target: "serve", "the system allows {files} open files: {fit} connections at a time, not {wanted} (raise `ulimit -Hn`)");
    }
    fit
}

/// Where the system has no such limit.
#[cfg(not(unix))]
pub fn connections(wanted: usize) -> usize {
    wanted
}

/// Connections where so many files may be open; at least half of them.
fn fitting(wanted: usize, files: Option<u64>) -> usize {
    let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    wanted.min(files.saturating_sub(OTHERS).max(files / 2)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_others() {
        for (wanted, files, expected) in [
            (1024, None, 1024),
            (1024, Some(1152), 1024),
            (1024, Some(1024), 896),
            (1024, Some(100), 50),
            (4, Some(1), 1),
        ] {
            assert_eq!(fitting(wanted, files), expected, "{wanted} of {files:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn more_files_are_asked_for() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(300), ..before }).unwrap();
        assert_eq!(connections(400), 400);
        assert_eq!(getrlimit(Resource::Nofile).current, Some(400 + OTHERS as u64));
        setrlimit(Resource::Nofile, before).unwrap();
    }
}
