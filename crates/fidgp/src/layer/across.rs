//! A batch that several processes share.

use std::sync::Arc;

use tch::Tensor;

use crate::Result;

/// The sum of a tensor over all processes, through which gradients flow.
type Sum = dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync;

/// How statistics of a whole batch are had where each process sees a part of it.
#[derive(Clone)]
pub struct Across {
    /// Whether this process has rows of the batch. One without gets a row that does not count.
    has_rows: bool,
    sum: Arc<Sum>,
}

impl Across {
    /// By this sum, which every process calls in the same order.
    pub fn new(has_rows: bool, sum: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static) -> Self {
        Self { has_rows, sum: Arc::new(sum) }
    }

    /// What the rows of this process count: 1 or 0.
    pub(super) fn weight(&self) -> f64 {
        f64::from(u8::from(self.has_rows))
    }

    /// The sum of a tensor over all processes.
    ///
    /// # Errors
    /// When a process is missing.
    pub fn sum(&self, own: &Tensor) -> Result<Tensor> {
        (self.sum)(own)
    }
}

impl std::fmt::Debug for Across {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Across")
    }
}
