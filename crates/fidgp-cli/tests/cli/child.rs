//! The program as a child: it is waited for up to a deadline, and it dies with its test.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::Said;

/// Longer than anything here takes on a machine that does much else.
const DEADLINE: Duration = Duration::from_secs(600);

/// A child that runs, its output in files: a pipe that nobody reads would hold it up.
pub struct Running {
    child: Child,
    output: TempDir,
}

impl Running {
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        hear_signals();
        let output = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str| File::create(output.path().join(name)).expect("a file to write");
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        Self { child: command.spawn().expect("the program starts"), output }
    }

    /// Waits until something holds; it must, before the child ends.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&Said) -> bool) {
        let begun = Instant::now();
        while !holds(&self.so_far()) {
            assert!(self.child.try_wait().expect("a child").is_none(), "it ended before {what}: {:?}", self.so_far());
            assert!(begun.elapsed() < DEADLINE, "{what} does not come: {:?}", self.so_far());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends a signal, as `-HUP`.
    #[track_caller]
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Its number, as `kill` takes it.
    pub fn id(&self) -> String {
        self.child.id().to_string()
    }

    /// What it said when it is done.
    #[track_caller]
    pub fn said(mut self) -> Said {
        let begun = Instant::now();
        let code = loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => break status.code(),
                None if begun.elapsed() > DEADLINE => panic!("it does not end: {:?}", self.so_far()),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let said = Said { code, ..self.so_far() };
        assert!(!said.err.contains("panicked") && !said.err.contains("internal error at"), "{said:?}");
        said
    }

    fn so_far(&self) -> Said {
        let text = |name: &str| {
            let bytes = fs::read(self.output.path().join(name)).expect("what it wrote");
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Said { code: None, out: text("out"), err: text("err") }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended long ago
        let _ = self.child.wait();
    }
}

/// Under `nohup`, or in the background of a shell, signals are ignored, and a child would inherit that: it would never hear
/// what its test sends it. Those that are caught here are as usual in a child.
fn hear_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| is_ignored(*signal)) {
            let caught = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, caught).expect("a signal that can be caught");
        }
    });
}

fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
