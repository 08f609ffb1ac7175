//! Processes that compute together: libtorch's process groups with errors that name the process that is missing.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tch::{Device, Tensor};

use crate::alive::{self, ENDED, GRACE, Silent, done, left, silent};
use crate::launched::Launched;
use crate::meeting::{Met, meet};
use crate::place::{Place, c_text, guarded, pause, shown, within};

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
    fn fidgp_group_waits(group: *mut c_void) -> bool;
    fn fidgp_group_close(group: *mut c_void);
}

/// How long the process that keeps the store stays for others that live and have not noticed yet that it is over.
const KEEPS: Duration = Duration::from_secs(25);

/// Between the texts of processes.
const RECORD: char = '\u{1e}';

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
    /// How many texts were asked for: each question has keys of its own.
    questions: AtomicU64,
    /// Raised when this process takes part no longer.
    over: Arc<AtomicBool>,
    /// Whether its connections are closed, or about to be.
    closed: AtomicBool,
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
        let Launched { rank, size, address, port, serves, .. } = launched;
        let (host, port_there, serves_it) = (address.clone(), *port, *serves);
        let opened = within(timeout + GRACE, move || Place::open((&host, port_there), serves_it, timeout));
        let place = opened.unwrap_or_else(|| Err("it does not answer".to_owned())).map_err(|why| {
            let role = if *serves { "cannot listen" } else { "finds nobody" };
            GroupError(format!("rank {rank} of {size} {role} at {address}:{port} ({}): {why}", shown(timeout)))
        })?;
        let Met { place, names } = meet(&Arc::new(place), launched, timeout).map_err(GroupError)?;
        let raw = connected(&place, launched, device, timeout)
            .map_err(|why| GroupError(format!("rank {rank} of {size} cannot connect to the others: {why}")))?;
        let group = Self {
            launched: launched.clone(),
            place,
            names,
            timeout,
            device,
            lost: Mutex::default(),
            questions: AtomicU64::default(),
            over: Arc::default(),
            closed: AtomicBool::default(),
            raw,
        };
        group.show_life();
        Ok(group)
    }

    #[expect(unsafe_code, reason = "a call of the C face")]
    fn show_life(&self) {
        let object = Object(self.raw);
        // SAFETY: the object is never freed; it counts its waiting calls atomically.
        let waits = move || unsafe { fidgp_group_waits(object.pointer()) };
        alive::show(Arc::clone(&self.place), self.rank(), Arc::clone(&self.over), waits);
    }

    /// Notices from a thread of its own when another process is gone, within about `limit`, and calls `lost` with why. It is for
    /// GPUs: there a call only queues work, and nobody waits for its end.
    pub fn watch(&self, limit: Duration, lost: impl FnOnce(GroupError) + Send + 'static) {
        let (own, next) = (self.rank(), (self.rank() + 1) % self.size());
        let said_by = self.name(own);
        let lost = move |why: String| lost(GroupError(format!("{said_by} cannot go on: {why}")));
        let whom = (own, next, self.name(next));
        alive::watch(Arc::clone(&self.place), whom, (limit, Arc::clone(&self.over)), lost);
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
    pub fn text_of_first(&self, what: &str, text: &str) -> Result<String, GroupError> {
        let key = self.question(what);
        if self.rank() == 0 {
            self.say(key, text.to_owned(), what)?;
            return Ok(text.to_owned());
        }
        self.wait_for(vec![key], what, |place, keys| Ok(place.look(&keys[0])?.unwrap_or_default()))
    }

    /// The texts of all processes, by rank. Rank 0 gathers them: the others ask for all at once.
    ///
    /// # Errors
    /// As [`Self::all_reduce`].
    pub fn texts(&self, what: &str, text: &str) -> Result<Vec<String>, GroupError> {
        let key = self.question(what);
        let (of, all) = (|rank: usize| format!("{key}/{rank}"), format!("{key}/all"));
        self.say(of(self.rank()), text.to_owned(), what)?;
        if self.rank() == 0 {
            let keys = (0..self.size()).map(of).collect();
            let joined = self.wait_for(keys, what, |place, keys| {
                let texts = keys.iter().map(|key| Ok(place.look(key)?.unwrap_or_default()));
                Ok(texts.collect::<Result<Vec<_>, String>>()?.join(&RECORD.to_string()))
            })?;
            self.say(all.clone(), joined, what)?;
        }
        let joined = self.wait_for(vec![all], what, |place, keys| Ok(place.look(&keys[0])?.unwrap_or_default()))?;
        Ok(joined.split(RECORD).map(ToOwned::to_owned).collect())
    }

    /// A key that no other question has; all processes ask the same questions in the same order.
    fn question(&self, what: &str) -> String {
        format!("{}/{what}", self.questions.fetch_add(1, Ordering::Relaxed))
    }

    fn say(&self, key: String, text: String, what: &str) -> Result<(), GroupError> {
        let place = Arc::clone(&self.place);
        let said = within(self.timeout, move || place.set(&key, &text));
        said.unwrap_or_else(|| Err(NO_ANSWER.to_owned())).map_err(|why| self.missing(what, &why))
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
        self.over.store(true, Ordering::Relaxed);
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
        // a store that another one keeps may be out of reach, and a request to it hangs
        within(if serves { KEEPS + GRACE } else { GRACE }, move || {
            let _ = place.set(&left(rank), "");
            let _ = place.set(&done(rank), "");
            if serves {
                alive::wait_for_goodbyes(&place, (0..size).filter(|rank| !lost.contains(rank)), KEEPS);
            }
        });
    }

    /// Closes the connections, once. NCCL may wait for a process that is gone: it is not waited for longer than a moment.
    #[expect(unsafe_code, reason = "a call of the C face")]
    fn close(&self) {
        if self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let object = Object(self.raw);
        // SAFETY: the object is never freed, and nobody else closes it.
        within(2 * GRACE, move || unsafe { fidgp_group_close(object.pointer()) });
    }

    fn checked(&self, what: &str, call: impl FnOnce(*mut c_char, usize) -> c_int) -> Result<(), GroupError> {
        guarded(call).map_err(|why| self.missing(what, &why)) // libtorch's words name a socket; ours name the process
    }

    /// Waits for texts under keys, unless a process says that it ended, and reads them.
    fn wait_for<T: Send + 'static>(
        &self,
        keys: Vec<String>,
        what: &str,
        read: impl FnOnce(&Place, &[String]) -> Result<T, String> + Send + 'static,
    ) -> Result<T, GroupError> {
        let (place, size, until) = (Arc::clone(&self.place), self.size(), Instant::now() + self.timeout);
        let found = within(self.timeout + GRACE, move || {
            loop {
                if place.has(&keys)? {
                    return read(&place, &keys);
                }
                if Instant::now() > until {
                    return Err("timed out".to_owned());
                }
                if place.has(&[ENDED.to_owned()])? {
                    return Err("a process ended".to_owned());
                }
                std::thread::sleep(pause(size));
            }
        });
        found.unwrap_or_else(|| Err(NO_ANSWER.to_owned())).map_err(|why| self.missing(what, &why))
    }

    /// Who is missing, after `what` failed for a reason in libtorch's words. This process stops waiting too, so its connections are
    /// closed: whoever waits for it fails at once and comes here as well. Whoever does not come is the one, unless it lives and has
    /// not noticed yet.
    pub fn missing(&self, what: &str, why: &str) -> GroupError {
        self.close();
        let (place, rank, size) = (Arc::clone(&self.place), self.rank(), self.size());
        let found = within(2 * GRACE, move || silent(&place, rank, size));
        self.over.store(true, Ordering::Relaxed);
        let in_vain = why.contains("imed out") || why.contains("timeout");
        let culprit = match found {
            Some(Ok(Silent::Said(why))) => why,
            Some(Ok(Silent::Dead(ranks))) => self.told(format!("{} died or does not answer", self.lose(ranks))),
            Some(Ok(Silent::Busy(ranks))) if in_vain => {
                format!("{} does not come; it lives and does something else", self.lose(ranks))
            }
            Some(Ok(Silent::Busy(_) | Silent::Nobody)) => {
                format!("all are there, so the network between them failed or one came too late ({why})")
            }
            Some(Err(_)) | None => format!("{} died or does not answer", self.keeper()),
        };
        let (own, limit) = (self.name(self.rank()), shown(self.timeout));
        GroupError(format!("{own} waited for the others ({what}, at most {limit}): {culprit}"))
    }

    /// Who keeps the store.
    fn keeper(&self) -> String {
        let agent = self.launched.launcher == "torchrun" && !self.launched.serves && self.rank() == 0;
        if agent { "the store of torchrun".to_owned() } else { self.name(0) }
    }

    /// A reason, of which those learn too that come later.
    fn told(&self, why: String) -> String {
        let (place, words) = (Arc::clone(&self.place), why.clone());
        within(GRACE, move || place.set(ENDED, &words));
        why
    }

    /// Nobody waits for these any more; their names.
    fn lose(&self, ranks: Vec<usize>) -> String {
        let names: Vec<_> = ranks.iter().map(|&rank| self.name(rank)).collect();
        if let Ok(mut lost) = self.lost.lock() {
            *lost = ranks;
        }
        names.join(" and ")
    }
}

/// The pointer to libtorch's object, for another thread.
struct Object(*mut c_void);

// SAFETY: as for the group.
#[expect(unsafe_code, reason = "the object behind the pointer may be used from any thread")]
unsafe impl Send for Object {}

impl Object {
    /// The pointer. A method, so that a closure takes the whole and not its field.
    fn pointer(&self) -> *mut c_void {
        self.0
    }
}

/// What is said of a store that is silent.
const NO_ANSWER: &str = "the store does not answer";

impl Drop for Group {
    fn drop(&mut self) {
        self.close();
    }
}

/// Connects to the others; a part of that has no time limit of its own.
fn connected(
    place: &Arc<Place>,
    launched: &Launched,
    device: Device,
    timeout: Duration,
) -> Result<*mut c_void, String> {
    let (place, launched) = (Arc::clone(place), launched.clone());
    let object = within(timeout + GRACE, move || opened(&place, &launched, device, timeout).map(Object));
    Ok(object.ok_or("they do not answer")??.pointer())
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
