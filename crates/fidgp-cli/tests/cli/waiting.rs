//! Threads that wait for each other let go of the core soon.
#![cfg(target_os = "linux")]

use std::fs;

use crate::child::Running;
use crate::resume::ENDLESS;
use crate::{Place, Said, words_of_training};

/// Threads of libgomp that have nothing to do, in a training, once it writes its folder.
fn idle(variable: Option<(&str, &str)>, enough: usize) -> usize {
    let place = Place::new();
    let mut command = place.command(&words_of_training(&["--set", ENDLESS]));
    command.env_remove("OMP_WAIT_POLICY").env_remove("GOMP_SPINCOUNT").envs(variable);
    let mut child = Running::start(command);
    let tasks = format!("/proc/{}/task", child.id());
    let count = || {
        let names = fs::read_dir(&tasks).into_iter().flatten().flatten();
        names
            .filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "fidgp-idle\n"))
            .count()
    };
    child.until("its config", |_: &Said| place.path("run/run.toml").exists() && count() >= enough);
    count()
}

/// libgomp turns long as long as it has no more threads than there are cores; a training on a busy machine then takes a multiple
/// of its time.
#[test]
fn there_are_more_threads_than_cores_unless_the_user_says_how_they_wait() {
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(idle(None, cores + 1) > cores);
    assert_eq!(idle(Some(("GOMP_SPINCOUNT", "5")), 0), 0);
    assert_eq!(idle(Some(("OMP_WAIT_POLICY", "active")), 0), 0);
}
