//! Training data as the trainer sees it: so many examples, and batches of any of them.

mod augment;
mod images;
mod table;

pub use augment::{Augment, crop_and_flip};
pub use images::ImageSource;
pub use table::TableSource;

use fidgp::Key;
use tch::Tensor;

use crate::error::Result;

/// Examples that can be asked for by number.
pub trait Source {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inputs and targets of the given examples; `augment` is the key of random changes in training.
    ///
    /// # Errors
    /// When an example cannot be read; the message names it.
    fn batch(&self, rows: &Tensor, augment: Option<Key>) -> Result<(Tensor, Tensor)>;
}
