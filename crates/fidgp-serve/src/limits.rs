//! What the server takes, and what it refuses before any memory is asked for.

use std::time::Duration;

/// Bounds of the server. The defaults suit one machine on a trusted network.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body: usize,
    /// Inputs in one request.
    pub items: usize,
    /// Inputs that wait for a model; a request that would pass it is answered 429.
    pub queue: usize,
    /// Inputs that go through a model at once.
    pub batch: usize,
    /// How long the first request of a batch waits for others, where there were others lately.
    pub window: Duration,
    /// Models that compute at the same time.
    pub computing: usize,
    /// Weight draws that a request may ask for.
    pub draws: u64,
    /// From a request's first byte to its answer; then it is answered 503.
    pub time: Duration,
    /// From a connection's start to the end of its request's headers.
    pub header_time: Duration,
    /// Bytes of a request's headers; one with more is answered 431.
    pub header: usize,
    /// Connections at the same time; others are closed.
    pub connections: usize,
    /// From the signal to stop to the end, whatever is still under way.
    pub shutdown: Duration,
}

impl Limits {
    /// Inputs in one request, which must fit into the queue: what does not would be refused for ever.
    pub fn inputs(&self) -> usize {
        self.items.min(self.queue)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 16 << 20,
            items: 1024,
            queue: 4096,
            batch: 64,
            window: Duration::from_millis(2),
            computing: 1,
            draws: 256,
            time: Duration::from_secs(60),
            header_time: Duration::from_secs(10),
            header: 64 << 10,
            connections: 1024,
            shutdown: Duration::from_secs(30),
        }
    }
}
