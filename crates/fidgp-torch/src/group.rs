//! Processes that compute together: libtorch's process groups with errors that name the process that is missing.

use std::ffi::{c_char, c_int, c_void};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tch::{Device, Tensor};

use crate::launched::Launched;
use crate::place::{Place, c_text, guarded};

/// What is done when the others are not where they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupError(pub String);

impl std::fmt::Display for GroupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GroupError {}

#[expect(unsafe_code, reason = "the C face in group.cpp; functions that fail report it in `message`")]
unsafe extern "C" {
    fn fidgp_group_new(
        group: *mut *mut c_void,
        place: *mut c_void,
        rank: c_int,
        ranks: c_int,
        on_cuda: bool,
        interface: *const c_char,
        host: *const c_char,
        timeout: i64,
        message: *mut c_char,
        size: usize,
    ) -> c_int;
    fn fidgp_group_all_reduce(group: *mut c_void, tensor: *mut c_void, message: *mut c_char, size: usize) -> c_int;
    fn fidgp_group_broadcast(
        group: *mut c_void,
        tensor: *mut c_void,
        from: c_int,
        message: *mut c_char,
        size: usize,
    ) -> c_int;
    fn fidgp_group_all_gather(
        group: *mut c_void,
        tensor: *mut c_void,
        gathered: *mut c_void,
        message: *mut c_char,
        size: usize,
    ) -> c_int;
    fn fidgp_group_barrier(group: *mut c_void, message: *mut c_char, size: usize) -> c_int;
    fn fidgp_group_sum(
        group: *mut c_void,
        tensor: *mut c_void,
        mass: f64,
        sum: *mut *mut c_void,
        message: *mut c_char,
        size: usize,
    ) -> c_int;
    fn fidgp_group_close(group: *mut c_void);
}

/// How long the others get to say why they ended before they count as silent.
const GRACE: Duration = Duration::from_secs(3);

/// Pause between looks at the store.
const PAUSE: Duration = Duration::from_millis(20);

/// Where the first process that fails writes why.
const ENDED: &str = "ended";

/// This process among the others. Every one of them must make the same calls in the same order.
#[derive(Debug)]
pub struct Group {
    launched: Launched,
    place: Arc<Place>,
    /// `host, process 123` of every rank.
    names: Vec<String>,
    timeout: Duration,
    device: Device,
    /// The ranks that were found missing.
    lost: Mutex<Vec<usize>>,
    /// libtorch's object. Its few bytes are never freed: a gradient may still refer to them.
    raw: *mut c_void,
}

// SAFETY: the object may be used from any thread; calls only need the same order in all processes.
#[expect(unsafe_code, reason = "the object behind the pointer may be used from any thread")]
unsafe impl Send for Group {}
// SAFETY: as above; c10d queues what is asked for behind a lock.
#[expect(unsafe_code, reason = "the object behind the pointer may be used from any thread")]
unsafe impl Sync for Group {}

impl Group {
    /// Meets the others: waits until all are there, at most as long as `timeout`, which is also how long any later call
    /// waits. Gloo for a CPU, NCCL for a GPU.
    ///
    /// # Errors
    /// Names the address where nobody listens, or the ranks that did not come.
    pub fn join(launched: &Launched, device: Device, timeout: Duration) -> Result<Self, GroupError> {
        let Launched { rank, size, address, port, attempt, .. } = launched;
        let prefix = format!("fidgp/{attempt}/");
        let place = Place::open((address, *port), launched.serves, &prefix, timeout).map_err(|why| {
            let role = if launched.serves { "cannot listen" } else { "finds nobody" };
            GroupError(format!("rank {rank} of {size} {role} at {address}:{port} ({}): {why}", shown(timeout)))
        })?;
        let names = meet(&place, launched, timeout)?;
        let raw = opened(&place, launched, device, timeout)
            .map_err(|why| GroupError(format!("rank {rank} of {size} cannot connect to the others: {why}")))?;
        let (launched, place, lost) = (launched.clone(), Arc::new(place), Mutex::default());
        Ok(Self { launched, place, names, timeout, device, lost, raw })
    }

    /// The number of this process.
    pub fn rank(&self) -> usize {
        self.launched.rank
    }

    /// How many processes there are.
    pub fn size(&self) -> usize {
        self.launched.size
    }

    /// Where tensors must lie that are passed on.
    pub fn device(&self) -> Device {
        self.device
    }

    /// What the launcher said.
    pub fn launched(&self) -> &Launched {
        &self.launched
    }

    /// Replaces a tensor by its sum over all processes; `what` says for what, in messages.
    ///
    /// # Errors
    /// When a process is gone or does not answer in time; the message names it.
    #[expect(unsafe_code, reason = "a call of the C face")]
    pub fn all_reduce(&self, tensor: &mut Tensor, what: &str) -> Result<(), GroupError> {
        let pointer = tensor.as_mut_ptr().cast();
        // SAFETY: tensor and group are valid during the call, which waits for the end of the work.
        self.checked(what, |message, size| unsafe { fidgp_group_all_reduce(self.raw, pointer, message, size) })
    }

    /// Replaces a tensor by that of rank `from`.
    ///
    /// # Errors
    /// As [`Self::all_reduce`].
    #[expect(unsafe_code, reason = "a call of the C face")]
    pub fn broadcast(&self, tensor: &mut Tensor, from: usize, what: &str) -> Result<(), GroupError> {
        let (pointer, from) = (tensor.as_mut_ptr().cast(), from as c_int);
        // SAFETY: as in `all_reduce`.
        self.checked(what, |message, size| unsafe { fidgp_group_broadcast(self.raw, pointer, from, message, size) })
    }

    /// The tensors of all processes, which have one size, along a new first axis.
    ///
    /// # Errors
    /// As [`Self::all_reduce`].
    #[expect(unsafe_code, reason = "a call of the C face")]
    pub fn all_gather(&self, tensor: &Tensor, what: &str) -> Result<Tensor, GroupError> {
        let own = tensor.detach().contiguous();
        let size: Vec<i64> = std::iter::once(self.size() as i64).chain(own.size()).collect();
        let gathered = Tensor::empty(&size, (own.kind(), own.device()));
        let (from, into) = (own.as_ptr().cast_mut().cast(), gathered.as_ptr().cast_mut().cast());
        // SAFETY: as in `all_reduce`; the input is only read.
        self.checked(what, |message, size| unsafe { fidgp_group_all_gather(self.raw, from, into, message, size) })?;
        Ok(gathered)
    }

    /// Waits until all processes are here.
    ///
    /// # Errors
    /// As [`Self::all_reduce`].
    #[expect(unsafe_code, reason = "a call of the C face")]
    pub fn barrier(&self, what: &str) -> Result<(), GroupError> {
        // SAFETY: as in `all_reduce`.
        self.checked(what, |message, size| unsafe { fidgp_group_barrier(self.raw, message, size) })
    }

    /// The sum over all processes, through which gradients flow. It is for losses that are averaged over the processes with
    /// weights proportional to `mass`, each differentiated by its own process.
    ///
    /// # Errors
    /// As [`Self::all_reduce`].
    #[expect(unsafe_code, reason = "a call of the C face")]
    pub fn sum(&self, tensor: &Tensor, mass: f64, what: &str) -> Result<Tensor, GroupError> {
        let (from, mut sum) = (tensor.as_ptr().cast_mut().cast(), std::ptr::null_mut());
        // SAFETY: as in `all_reduce`; what comes out is a tensor of its own.
        self.checked(what, |message, size| unsafe {
            fidgp_group_sum(self.raw, from, mass, &raw mut sum, message, size)
        })?;
        // SAFETY: on success it is a tensor made with `new` that belongs to the caller, as tch makes its own.
        Ok(unsafe { Tensor::from_ptr(sum.cast()) })
    }

    /// Rank 0's text; the others' is not looked at.
    ///
    /// # Errors
    /// As [`Self::all_reduce`].
    pub fn text_of_first(&self, key: &str, text: &str) -> Result<String, GroupError> {
        if self.rank() == 0 {
            self.place.set(key, text).map_err(|_| self.missing(key))?;
            return Ok(text.to_owned());
        }
        let mut all = self.wait_for(&[key.to_owned()], key)?;
        Ok(all.pop().unwrap_or_default())
    }

    /// The texts of all processes, by rank.
    ///
    /// # Errors
    /// As [`Self::all_reduce`].
    pub fn texts(&self, key: &str, text: &str) -> Result<Vec<String>, GroupError> {
        let of = |rank: usize| format!("{key}/{rank}");
        self.place.set(&of(self.rank()), text).map_err(|_| self.missing(key))?;
        self.wait_for(&(0..self.size()).map(of).collect::<Vec<_>>(), key)
    }

    /// Host and process of a rank.
    pub fn name(&self, rank: usize) -> String {
        format!("rank {rank} of {} ({})", self.size(), self.names[rank])
    }

    /// Leaves the group because of an error of this process's own, which the others are told.
    pub fn fail(&self, why: &str) {
        self.part(Some(format!("{} ended: {why}", self.name(self.rank()))));
    }

    /// Leaves the group when the work is done, or when another process is missing.
    pub fn leave(&self) {
        self.part(None);
    }

    /// Says goodbye. Whoever keeps the store stays until the others have read what they need, but not for long.
    fn part(&self, why: Option<String>) {
        let (rank, size, serves) = (self.rank(), self.size(), self.launched.serves);
        let place = Arc::clone(&self.place);
        // before the connections are closed: then the others look for it
        within(GRACE, move || match (why, place.look(ENDED)) {
            (Some(why), Ok(None)) => place.set(ENDED, &why),
            _ => Ok(()),
        });
        self.close();
        let lost = self.lost.lock().map(|lost| lost.clone()).unwrap_or_default();
        let place = Arc::clone(&self.place);
        within(3 * GRACE, move || {
            let _ = place.set(&left(rank), "");
            let _ = place.set(&done(rank), "");
            let until = Instant::now() + 2 * GRACE;
            let gone = |rank: usize| lost.contains(&rank) || !matches!(place.look(&done(rank)), Ok(None));
            while serves && Instant::now() < until && !(0..size).all(gone) {
                std::thread::sleep(PAUSE);
            }
        });
    }

    #[expect(unsafe_code, reason = "a call of the C face")]
    fn close(&self) {
        // SAFETY: the object is never freed; closing twice is nothing.
        unsafe { fidgp_group_close(self.raw) }
    }

    fn checked(&self, what: &str, call: impl FnOnce(*mut c_char, usize) -> c_int) -> Result<(), GroupError> {
        guarded(call).map_err(|_| self.missing(what)) // libtorch's words name a socket; ours name the process
    }

    /// Waits for texts under keys, unless a process says that it ended.
    fn wait_for(&self, keys: &[String], what: &str) -> Result<Vec<String>, GroupError> {
        let until = Instant::now() + self.timeout;
        let mut found = Vec::new();
        for key in keys {
            loop {
                match self.place.look(key) {
                    Ok(Some(text)) => break found.push(text),
                    Ok(None) if Instant::now() < until && !self.has_ended() => std::thread::sleep(PAUSE),
                    _ => return Err(self.missing(what)),
                }
            }
        }
        Ok(found)
    }

    fn has_ended(&self) -> bool {
        matches!(self.place.look(ENDED), Ok(Some(_)) | Err(_))
    }

    /// Who is missing, after `what` failed. This process stops waiting too, so its connections are closed: whoever waits
    /// for it fails at once and comes here as well, and whoever does not come is the one.
    pub fn missing(&self, what: &str) -> GroupError {
        self.close();
        let (place, rank, size) = (Arc::clone(&self.place), self.rank(), self.size());
        let found = within(2 * GRACE, move || silent(&place, rank, size));
        let keeper = if self.launched.launcher == "torchrun" && !self.launched.serves && self.rank() == 0 {
            "the store of torchrun".to_owned()
        } else {
            self.name(0)
        };
        let culprit = match found {
            Some(Ok(Silent::Said(why))) => why,
            Some(Ok(Silent::Ranks(ranks))) if ranks.is_empty() => {
                "all are there, so the network between them failed or one came too late".to_owned()
            }
            Some(Ok(Silent::Ranks(ranks))) => {
                let names: Vec<_> = ranks.iter().map(|&rank| self.name(rank)).collect();
                if let Ok(mut lost) = self.lost.lock() {
                    *lost = ranks;
                }
                format!("{} died or does not answer", names.join(" and "))
            }
            Some(Err(_)) | None => format!("{keeper} died or does not answer"),
        };
        let (own, limit) = (self.name(self.rank()), shown(self.timeout));
        GroupError(format!("{own} waited for the others ({what}, at most {limit}): {culprit}"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.close();
    }
}

/// What is found out of the others.
enum Silent {
    /// One said why it ended.
    Said(String),
    /// These say nothing.
    Ranks(Vec<usize>),
}

/// The processes that do not come to say that they wait too.
fn silent(place: &Place, rank: usize, size: usize) -> Result<Silent, String> {
    place.set(&left(rank), "")?;
    let until = Instant::now() + GRACE;
    loop {
        if let Some(why) = place.look(ENDED)? {
            return Ok(Silent::Said(why));
        }
        let mut missing = Vec::new();
        for other in 0..size {
            if place.look(&left(other))?.is_none() {
                missing.push(other);
            }
        }
        if missing.is_empty() || Instant::now() > until {
            return Ok(Silent::Ranks(missing));
        }
        std::thread::sleep(PAUSE);
    }
}

/// What work gives, unless it takes longer: the store hangs with the process that keeps it.
fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(limit).ok()
}

/// Where a process says that it waits no longer.
fn left(rank: usize) -> String {
    format!("left/{rank}")
}

/// Where it says that it needs nothing more of the store.
fn done(rank: usize) -> String {
    format!("done/{rank}")
}

/// Says who this process is and waits for the others to do so.
fn meet(place: &Place, launched: &Launched, timeout: Duration) -> Result<Vec<String>, GroupError> {
    let Launched { rank, size, address, port, .. } = launched;
    let own = format!("{}, process {}", crate::machine::host_name(), std::process::id());
    let lost = |why: String| GroupError(format!("rank {rank} of {size}: rank 0 at {address}:{port} is gone: {why}"));
    place.set(&format!("name/{rank}"), &own).map_err(lost)?;
    let until = Instant::now() + timeout;
    let mut names: Vec<Option<String>> = vec![None; *size];
    loop {
        for (other, name) in names.iter_mut().enumerate().filter(|(_, name)| name.is_none()) {
            *name = place.look(&format!("name/{other}")).map_err(lost)?;
        }
        if names.iter().all(Option::is_some) {
            return Ok(names.into_iter().flatten().collect());
        }
        if Instant::now() > until {
            let missing = (0..*size).filter(|&other| names[other].is_none()).map(|other| other.to_string());
            let missing = missing.collect::<Vec<_>>().join(", ");
            let why = format!("rank {rank} ({own}) waited {} at {address}:{port}", shown(timeout));
            return Err(GroupError(format!("{why}: of {size} processes these did not come: rank {missing}")));
        }
        std::thread::sleep(PAUSE);
    }
}

#[expect(unsafe_code, reason = "a call of the C face")]
fn opened(place: &Place, launched: &Launched, device: Device, timeout: Duration) -> Result<*mut c_void, String> {
    let interface = std::env::var("GLOO_SOCKET_IFNAME").unwrap_or_default();
    let interface = c_text(interface.split(',').next().unwrap_or_default());
    let is_here = ["localhost", "127.0.0.1", "::1"].contains(&launched.address.as_str());
    let host = c_text(if is_here { "127.0.0.1" } else { "" });
    let (rank, ranks) = (launched.rank as c_int, launched.size as c_int);
    let (limit, mut raw) = (timeout.as_millis() as i64, std::ptr::null_mut());
    // SAFETY: place, texts and the out pointer are valid during the call; the object keeps the store alive itself.
    guarded(|message, size| unsafe {
        fidgp_group_new(
            &raw mut raw,
            place.raw(),
            rank,
            ranks,
            device.is_cuda(),
            interface.as_ptr(),
            host.as_ptr(),
            limit,
            message,
            size,
        )
    })?;
    Ok(raw)
}

/// A time in seconds, or milliseconds where it is short.
fn shown(time: Duration) -> String {
    if time < Duration::from_secs(10) { format!("{} ms", time.as_millis()) } else { format!("{} s", time.as_secs()) }
}
