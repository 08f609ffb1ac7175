//! How long a thread of libgomp waits for the others by turning round before it sleeps.

/// Has libgomp's threads sleep soon when they wait for each other, unless the user says how they wait (`OMP_WAIT_POLICY`,
/// `GOMP_SPINCOUNT`).
///
/// libgomp turns 300,000 times, some milliseconds, as long as it has no more threads than there are cores: it counts its own
/// threads, not those of other programs, and on a busy machine a waiting thread then takes the core of the one it waits for. With
/// more threads than cores of its own it turns 1,000 times, some tens of microseconds, which is enough for the next operation of a
/// network to find it awake. Both numbers are read from the environment before `main`, so nothing can be set here. But a team
/// of idle threads makes it count more threads than cores. They sleep for as long as the process lives. The cores are those that
/// libgomp itself counts (of the process's affinity): the quota of a container, which it does not see, would make the team too small.
#[cfg(target_os = "linux")]
pub fn wait_briefly() {
    let said = ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT"].iter().any(|name| std::env::var_os(name).is_some());
    if !said {
        // where no thread can be had, threads wait as before
        _ = std::thread::Builder::new().name("fidgp-idle".to_owned()).spawn(idle_team);
    }
}

/// Does nothing: threads of other systems wait in other ways.
#[cfg(not(target_os = "linux"))]
pub fn wait_briefly() {}

/// A team of one thread more than there are cores, which has nothing to do. It lives as long as the thread that made it.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "libgomp's interface for compilers is the only way to a team of its threads")]
fn idle_team() {
    use std::ffi::{c_int, c_uint, c_void};

    type Parallel = unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint);
    type Cores = unsafe extern "C" fn() -> c_int;

    extern "C" fn nothing(_: *mut c_void) {}

    let program = libloading::os::unix::Library::this();
    // SAFETY: the signatures are those of libgomp's binary interface; the function that its threads call touches nothing.
    unsafe {
        let (Ok(parallel), Ok(cores)) =
            (program.get::<Parallel>(b"GOMP_parallel"), program.get::<Cores>(b"omp_get_num_procs"))
        else {
            return; // libtorch computes without libgomp
        };
        parallel(nothing, std::ptr::null_mut(), cores().max(1).unsigned_abs() + 1, 0);
    }
    loop {
        std::thread::park();
    }
}
