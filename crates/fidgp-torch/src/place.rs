//! Where processes meet: texts under keys, kept by one of them and read by all (`c10d::TCPStore`).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::mpsc::channel;
use std::time::Duration;

#[expect(unsafe_code, reason = "the C face in group.cpp; functions that fail report it in `message`")]
unsafe extern "C" {
    fn fidgp_place_new(
        place: *mut *mut c_void,
        host: *const c_char,
        port: u16,
        serves: bool,
        timeout: i64,
        message: *mut c_char,
        size: usize,
    ) -> c_int;
    fn fidgp_place_room(
        room: *mut *mut c_void,
        place: *mut c_void,
        prefix: *const c_char,
        message: *mut c_char,
        size: usize,
    ) -> c_int;
    fn fidgp_place_set(
        place: *mut c_void,
        key: *const c_char,
        bytes: *const u8,
        count: usize,
        message: *mut c_char,
        size: usize,
    ) -> c_int;
    fn fidgp_place_has(
        place: *mut c_void,
        keys: *const *const c_char,
        count: usize,
        has: *mut bool,
        message: *mut c_char,
        size: usize,
    ) -> c_int;
    fn fidgp_place_get(
        place: *mut c_void,
        key: *const c_char,
        bytes: *mut *mut u8,
        count: *mut usize,
        message: *mut c_char,
        size: usize,
    ) -> c_int;
    fn fidgp_bytes_free(bytes: *mut u8);
    fn fidgp_place_free(place: *mut c_void);
}

/// Pause between looks at the store, longer where many look.
pub fn pause(size: usize) -> Duration {
    Duration::from_millis(20 * (1 + size as u64 / 64))
}

/// What work gives, unless it takes longer: a request has no time limit of its own, and hangs with the process that keeps the
/// store, or with the network to it.
pub fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(limit).ok()
}

/// A time in seconds, or milliseconds where it is short.
pub fn shown(time: Duration) -> String {
    if time < Duration::from_secs(10) { format!("{} ms", time.as_millis()) } else { format!("{} s", time.as_secs()) }
}

/// A connection to the store.
#[derive(Debug)]
pub struct Place(NonNull<c_void>);

// SAFETY: c10d's store locks itself around every request.
#[expect(unsafe_code, reason = "the object behind the pointer may be used from any thread")]
unsafe impl Send for Place {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "the object behind the pointer may be used from any thread")]
unsafe impl Sync for Place {}

/// Calls a function of the C face and takes the first line of its message when it fails.
pub fn guarded(call: impl FnOnce(*mut c_char, usize) -> c_int) -> Result<(), String> {
    let mut message = vec![0 as c_char; 4096];
    if call(message.as_mut_ptr(), message.len()) == 0 {
        return Ok(());
    }
    #[expect(unsafe_code, reason = "a text that C wrote is read")]
    // SAFETY: the buffer began as zeros and `snprintf` never writes past its size nor leaves out the final zero.
    let words = unsafe { CStr::from_ptr(message.as_ptr()) }.to_string_lossy().into_owned();
    let first = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason was given");
    Err(first.trim().trim_end_matches('.').to_owned())
}

/// A text that C can read; what stands behind a zero byte is left out.
pub fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

#[expect(unsafe_code, reason = "calls of the C face")]
impl Place {
    /// Connects, and opens the port first where this process `serves`.
    ///
    /// # Errors
    /// When nobody listens there within the time, or the port is taken.
    pub fn open(address: (&str, u16), serves: bool, timeout: Duration) -> Result<Self, String> {
        let (host, mut raw) = (c_text(address.0), std::ptr::null_mut());
        let limit = timeout.as_millis() as i64;
        // SAFETY: the text and the out pointer are valid during the call.
        guarded(|message, size| unsafe {
            fidgp_place_new(&raw mut raw, host.as_ptr(), address.1, serves, limit, message, size)
        })?;
        NonNull::new(raw).map(Self).ok_or_else(|| "no store was made".to_owned())
    }

    /// The same store, where keys get a prefix.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn room(&self, prefix: &str) -> Result<Self, String> {
        let (prefix, mut raw) = (c_text(prefix), std::ptr::null_mut());
        // SAFETY: the text and the out pointer are valid during the call; both share what is behind them.
        guarded(|message, size| unsafe { fidgp_place_room(&raw mut raw, self.raw(), prefix.as_ptr(), message, size) })?;
        NonNull::new(raw).map(Self).ok_or_else(|| "no store was made".to_owned())
    }

    /// The object behind it, for the C face.
    pub(crate) fn raw(&self) -> *mut c_void {
        self.0.as_ptr()
    }

    /// Writes a text under a key.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn set(&self, key: &str, text: &str) -> Result<(), String> {
        let key = c_text(key);
        // SAFETY: key and bytes are valid during the call, which copies them.
        guarded(|message, size| unsafe {
            fidgp_place_set(self.raw(), key.as_ptr(), text.as_ptr(), text.len(), message, size)
        })
    }

    /// Whether there is a text under each of the keys by now: one request, however many they are.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn has(&self, keys: &[String]) -> Result<bool, String> {
        let texts: Vec<CString> = keys.iter().map(|key| c_text(key)).collect();
        let (pointers, mut has) = (texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>(), false);
        // SAFETY: the texts behind the pointers live during the call, and so does the out pointer.
        guarded(|message, size| unsafe {
            fidgp_place_has(self.raw(), pointers.as_ptr(), pointers.len(), &raw mut has, message, size)
        })?;
        Ok(has)
    }

    /// The text under a key, if there is one by now.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn look(&self, key: &str) -> Result<Option<String>, String> {
        if !self.has(&[key.to_owned()])? {
            return Ok(None);
        }
        let key = c_text(key);
        let (mut bytes, mut count) = (std::ptr::null_mut(), 0);
        // SAFETY: both out pointers are valid.
        guarded(|message, size| unsafe {
            fidgp_place_get(self.raw(), key.as_ptr(), &raw mut bytes, &raw mut count, message, size)
        })?;
        // SAFETY: on success `bytes` is an allocation of at least `count` bytes, freed once, here.
        let text = unsafe {
            let text = String::from_utf8_lossy(std::slice::from_raw_parts(bytes, count)).into_owned();
            fidgp_bytes_free(bytes);
            text
        };
        Ok(Some(text))
    }
}

#[expect(unsafe_code, reason = "a call of the C face")]
impl Drop for Place {
    fn drop(&mut self) {
        // SAFETY: made by `fidgp_place_new`, freed once.
        unsafe { fidgp_place_free(self.0.as_ptr()) }
    }
}
