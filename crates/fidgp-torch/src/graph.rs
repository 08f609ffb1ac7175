//! CUDA graphs: the kernels of a piece of work are recorded once and launched again as one.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

/// The words of libtorch or CUDA when a capture or a replay fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphError(pub String);

impl std::fmt::Display for GraphError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GraphError {}

/// A `c10::cuda::CUDAStream`: device and number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RawStream([i64; 2]);

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the C face in graph.cpp; every function but the last reports failures in `message`")]
unsafe extern "C" {
    fn fidgp_current_stream(device: i8, stream: *mut RawStream, message: *mut c_char, size: usize) -> c_int;
    fn fidgp_side_stream(device: i8, stream: *mut RawStream, message: *mut c_char, size: usize) -> c_int;
    fn fidgp_set_stream(stream: RawStream, message: *mut c_char, size: usize) -> c_int;
    fn fidgp_wait(waiting: RawStream, awaited: RawStream, message: *mut c_char, size: usize) -> c_int;
    fn fidgp_use_device(device: c_int, message: *mut c_char, size: usize) -> c_int;
    fn fidgp_memory_in_use(bytes: *mut usize, message: *mut c_char, size: usize) -> c_int;
    fn fidgp_empty_cache(message: *mut c_char, size: usize) -> c_int;
    fn fidgp_exact_convolutions(message: *mut c_char, size: usize) -> c_int;
    fn fidgp_repeatable_convolutions(message: *mut c_char, size: usize) -> c_int;
    fn fidgp_graph_new(graph: *mut *mut c_void, message: *mut c_char, size: usize) -> c_int;
    fn fidgp_graph_begin(graph: *mut c_void, message: *mut c_char, size: usize) -> c_int;
    fn fidgp_graph_end(graph: *mut c_void, message: *mut c_char, size: usize) -> c_int;
    fn fidgp_graph_replay(graph: *mut c_void, message: *mut c_char, size: usize) -> c_int;
    fn fidgp_graph_free(graph: *mut c_void);
}

/// A stream beside the default one, on which work is warmed up and captured: the default stream cannot be captured.
#[derive(Clone, Copy, Debug)]
pub struct SideStream {
    device: i8,
    side: RawStream,
}

/// A recorded piece of work. It reads and writes the very memory it was captured with.
#[derive(Debug)]
pub struct Graph(NonNull<c_void>);

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "calls into libtorch's graph class; this crate is the place for them")]
mod linux {
    use super::{CStr, Graph, GraphError, NonNull, RawStream, SideStream, c_char, c_int};
    use super::{
        fidgp_current_stream, fidgp_empty_cache, fidgp_memory_in_use, fidgp_set_stream, fidgp_side_stream, fidgp_wait,
    };
    use super::{fidgp_exact_convolutions, fidgp_repeatable_convolutions, fidgp_use_device};
    use super::{fidgp_graph_begin, fidgp_graph_end, fidgp_graph_free, fidgp_graph_new, fidgp_graph_replay};
    use crate::scope::within;

    /// Calls a function of the C face and takes its message when it fails.
    fn guarded(call: impl FnOnce(*mut c_char, usize) -> c_int) -> Result<(), GraphError> {
        let mut message = vec![0 as c_char; 4096];
        if call(message.as_mut_ptr(), message.len()) == 0 {
            return Ok(());
        }
        // SAFETY: the buffer began as zeros and `snprintf` never writes past its size nor leaves out the final zero.
        let words = unsafe { CStr::from_ptr(message.as_ptr()) }.to_string_lossy().into_owned();
        let first = words.lines().next().unwrap_or_default().to_owned();
        Err(GraphError(first))
    }

    impl SideStream {
        /// A stream of the device's pool.
        ///
        /// # Errors
        /// When libtorch has no CUDA part.
        pub fn new(device: usize) -> Result<Self, GraphError> {
            let device = i8::try_from(device).map_err(|_| GraphError(format!("there is no device {device}")))?;
            let mut side = RawStream::default();
            // SAFETY: the out pointer is valid and the C face reports every failure in the message.
            guarded(|message, size| unsafe { fidgp_side_stream(device, &raw mut side, message, size) })?;
            Ok(Self { device, side })
        }

        /// Does work with this stream as the current one. The caller sees to it that earlier work is finished before and
        /// this work after (`tch::Cuda::synchronize`).
        ///
        /// # Errors
        /// When the current stream cannot be changed.
        pub fn with<T>(&self, work: impl FnOnce() -> T) -> Result<T, GraphError> {
            let before = self.current()?;
            let (result, left) = within(|| set(self.side), || set(before), work)?;
            left.map(|()| result)
        }

        /// Does `here` on the current stream and `there` on this one, so that the device may do both at once. `there` starts
        /// after what was launched before, and what is launched afterwards starts after both.
        ///
        /// libtorch hands memory out again per stream, at once. So a gradient's saved tensors must not come from `there`
        /// while they belong to work elsewhere: copy what is kept.
        ///
        /// # Errors
        /// When the current stream cannot be changed or CUDA refuses the order.
        pub fn beside<A, B>(&self, here: impl FnOnce() -> A, there: impl FnOnce() -> B) -> Result<(A, B), GraphError> {
            let current = self.current()?;
            let both = || self.with(there).map(|there| (here(), there));
            let (both, waited) = within(|| wait(self.side, current), || wait(current, self.side), both)?;
            let both = both?;
            waited.map(|()| both)
        }

        fn current(&self) -> Result<RawStream, GraphError> {
            let mut current = RawStream::default();
            // SAFETY: as in `new`.
            guarded(|message, size| unsafe { fidgp_current_stream(self.device, &raw mut current, message, size) })?;
            Ok(current)
        }
    }

    fn wait(waiting: RawStream, awaited: RawStream) -> Result<(), GraphError> {
        // SAFETY: both streams came from libtorch itself; the C face makes and destroys the event.
        guarded(|message, size| unsafe { fidgp_wait(waiting, awaited, message, size) })
    }

    fn set(stream: RawStream) -> Result<(), GraphError> {
        // SAFETY: the stream came from libtorch itself.
        guarded(|message, size| unsafe { fidgp_set_stream(stream, message, size) })
    }

    /// Bytes of the current device's memory that are taken, by whatever process.
    ///
    /// # Errors
    /// When there is no CUDA.
    pub fn memory_in_use() -> Result<usize, GraphError> {
        let mut bytes = 0;
        // SAFETY: the out pointer is valid.
        guarded(|message, size| unsafe { fidgp_memory_in_use(&raw mut bytes, message, size) })?;
        Ok(bytes)
    }

    /// Gives memory that libtorch holds for later back to the device.
    ///
    /// # Errors
    /// When there is no CUDA.
    pub fn empty_cache() -> Result<(), GraphError> {
        // SAFETY: nothing is passed but the message.
        guarded(|message, size| unsafe { fidgp_empty_cache(message, size) })
    }

    /// Computes convolutions of f32 tensors in f32 and not, as libtorch does unasked, in TF32 with its 10 bits of mantissa.
    ///
    /// # Errors
    /// When libtorch has no such setting.
    pub fn exact_convolutions() -> Result<(), GraphError> {
        // SAFETY: a setting of libtorch's context is changed.
        guarded(|message, size| unsafe { fidgp_exact_convolutions(message, size) })
    }

    /// Makes a device the one of this thread: what does not name one, events of streams among it, belongs to it.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn use_device(device: usize) -> Result<(), GraphError> {
        let device = c_int::try_from(device).map_err(|_| GraphError(format!("there is no device {device}")))?;
        // SAFETY: a setting of CUDA's for this thread is changed.
        guarded(|message, size| unsafe { fidgp_use_device(device, message, size) })
    }

    /// Makes convolutions add in the same order every time; without it gradients differ in their last digits from run to run.
    ///
    /// # Errors
    /// When libtorch has no such setting.
    pub fn repeatable_convolutions() -> Result<(), GraphError> {
        // SAFETY: a setting of libtorch's context is changed.
        guarded(|message, size| unsafe { fidgp_repeatable_convolutions(message, size) })
    }

    impl Graph {
        /// Records what `work` launches on the current stream, which must be a [`SideStream`]. Nothing is executed.
        ///
        /// What `work` returns is valid after the next replay. Inputs must be tensors that outlive the graph and are
        /// written in place; whatever waits for the device fails the capture.
        ///
        /// # Errors
        /// The outer one when the capture fails, the inner one when the work itself does.
        pub fn capture<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<Result<(Self, T), E>, GraphError> {
            let mut raw = std::ptr::null_mut();
            // SAFETY: the out pointer is valid; on success it is a constructed graph that `Drop` destroys.
            guarded(|message, size| unsafe { fidgp_graph_new(&raw mut raw, message, size) })?;
            let graph = Self(NonNull::new(raw).ok_or_else(|| GraphError("no graph was made".to_owned()))?);
            // SAFETY: the graph is constructed and not captured yet.
            let begin = || guarded(|message, size| unsafe { fidgp_graph_begin(graph.0.as_ptr(), message, size) });
            // SAFETY: the capture was begun; it is ended whatever the work returned, and where it panicked.
            let end = || guarded(|message, size| unsafe { fidgp_graph_end(graph.0.as_ptr(), message, size) });
            let (result, ended) = within(begin, end, work)?;
            match result {
                Ok(value) => ended.map(|()| Ok((graph, value))),
                Err(error) => Ok(Err(error)),
            }
        }

        /// Launches the recorded work on the current stream.
        ///
        /// # Errors
        /// When CUDA refuses the launch.
        pub fn replay(&self) -> Result<(), GraphError> {
            // SAFETY: only a completed capture is handed out.
            guarded(|message, size| unsafe { fidgp_graph_replay(self.0.as_ptr(), message, size) })
        }
    }

    impl Drop for Graph {
        fn drop(&mut self) {
            // SAFETY: constructed by `fidgp_graph_new`, destroyed once.
            unsafe { fidgp_graph_free(self.0.as_ptr()) }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{Graph, GraphError, SideStream};

    const NO_CUDA: &str = "CUDA graphs need Linux";

    /// Fails: there is no CUDA here.
    pub fn memory_in_use() -> Result<usize, GraphError> {
        Err(GraphError(NO_CUDA.to_owned()))
    }

    /// Fails: there is no CUDA here.
    pub fn empty_cache() -> Result<(), GraphError> {
        Err(GraphError(NO_CUDA.to_owned()))
    }

    /// Fails: there is no CUDA here.
    pub fn exact_convolutions() -> Result<(), GraphError> {
        Err(GraphError(NO_CUDA.to_owned()))
    }

    /// Fails: there is no CUDA here.
    pub fn use_device(_device: usize) -> Result<(), GraphError> {
        Err(GraphError(NO_CUDA.to_owned()))
    }

    /// Fails: there is no CUDA here.
    pub fn repeatable_convolutions() -> Result<(), GraphError> {
        Err(GraphError(NO_CUDA.to_owned()))
    }

    impl SideStream {
        /// Fails: there is no CUDA here.
        pub fn new(_device: usize) -> Result<Self, GraphError> {
            Err(GraphError(NO_CUDA.to_owned()))
        }

        /// Never called: there is no stream to call it on.
        pub fn beside<A, B>(
            &self,
            _here: impl FnOnce() -> A,
            _there: impl FnOnce() -> B,
        ) -> Result<(A, B), GraphError> {
            Err(GraphError(NO_CUDA.to_owned()))
        }

        /// Never called: there is no stream to call it on.
        pub fn with<T>(&self, _work: impl FnOnce() -> T) -> Result<T, GraphError> {
            Err(GraphError(NO_CUDA.to_owned()))
        }
    }

    impl Graph {
        /// Fails: there is no CUDA here.
        pub fn capture<T, E>(_work: impl FnOnce() -> Result<T, E>) -> Result<Result<(Self, T), E>, GraphError> {
            Err(GraphError(NO_CUDA.to_owned()))
        }

        /// Never called: there is no graph to call it on.
        pub fn replay(&self) -> Result<(), GraphError> {
            Err(GraphError(NO_CUDA.to_owned()))
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{empty_cache, exact_convolutions, memory_in_use, repeatable_convolutions, use_device};
#[cfg(target_os = "linux")]
pub use linux::{empty_cache, exact_convolutions, memory_in_use, repeatable_convolutions, use_device};

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn without_cuda_the_answer_is_an_error_and_not_a_crash() {
        // this test's process does not open libtorch's CUDA part
        let error = SideStream::new(0).expect_err("no CUDA part is open");
        assert!(error.to_string().contains("libtorch has no CUDA part"), "{error}");
        let error = Graph::capture(|| Ok::<_, ()>(())).expect_err("no CUDA part is open");
        assert!(error.to_string().contains("CUDAGraph"), "{error}");
    }
}
