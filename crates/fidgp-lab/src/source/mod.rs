//! Training data as the trainer sees it: so many examples, and batches of any of them.

mod augment;
mod folder;
mod images;
mod joint;
mod loader;
mod pairs;
mod table;
mod view;

pub use augment::crop_and_flip;
pub use folder::FolderSource;
pub use images::ImageSource;
pub use joint::Joint;
pub use loader::{Block, Decoder, Job, Loader};
pub use pairs::PairSource;
pub use table::{GivenRows, TableSource, TableView};
pub use view::View;

use std::ops::Range;

use fidgp::Key;
use tch::{Device, Tensor};

use crate::error::Result;
use crate::model::Normalisation;

/// A part of a batch that will be asked for.
#[derive(Debug)]
pub struct Asked {
    /// The examples of the batch.
    pub rows: Tensor,
    /// Which of them.
    pub part: Range<i64>,
    /// The key of the batch's random changes.
    pub key: Key,
}

/// Examples that can be asked for by number.
pub trait Source {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many observations the likelihood counts, which the KL is divided by; more than examples where each holds many.
    fn observations(&self) -> usize {
        self.len()
    }

    /// Says which parts of batches will be asked for next, in order, so that a source that reads from disk can begin. Only a
    /// hint: batches are the same without it.
    ///
    /// # Errors
    /// When libtorch cannot read the row numbers.
    fn announce(&self, parts: Vec<Asked>) -> Result<()> {
        let _ = parts;
        Ok(())
    }

    /// Inputs and targets of the given examples; `augment` is the key of random changes in training.
    ///
    /// # Errors
    /// When an example cannot be read; the message names it.
    fn batch(&self, rows: &Tensor, augment: Option<Key>) -> Result<(Tensor, Tensor)>;

    /// A part of such a batch, with the random changes that it has in the whole one. A source that can read a part alone does
    /// so; where nothing is said the whole batch is read.
    ///
    /// # Errors
    /// As [`Self::batch`].
    fn part(&self, rows: &Tensor, augment: Option<Key>, part: Range<i64>) -> Result<(Tensor, Tensor)> {
        let (x, y) = self.batch(rows, augment)?;
        let length = part.end - part.start;
        Ok((x.f_narrow(0, part.start, length)?, y.f_narrow(0, part.start, length)?))
    }
}

/// Parts of a set in order: batches that are in memory at the same time, and the labels of all of them.
pub type Chunks<'a> = Box<dyn Iterator<Item = Result<(Vec<Tensor>, Tensor)>> + 'a>;

/// Labelled images, for training by number and for evaluation in order.
pub trait ImageSet: Source {
    /// All images, unchanged and normalised, in batches of at most `size`.
    fn chunks(&self, size: usize) -> Chunks<'_> {
        self.some_chunks(size, 0..self.len().div_ceil(size))
    }

    /// Some of these batches.
    fn some_chunks(&self, size: usize, batches: Range<usize>) -> Chunks<'_>;
}

/// Normalised, and on CUDA with channels last, the order its convolutions are fastest in.
fn prepare(normalisation: &Normalisation, pixels: &Tensor) -> Tensor {
    let x = normalisation.apply(pixels);
    if x.device().is_cuda() { x.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2]) } else { x }
}

/// About so many training images, taken at random and unchanged, in batches of one size: statistics of a short one would say
/// little, and those of a single image nothing of its variance.
pub fn batches(
    images: &dyn Source,
    device: Device,
    count: usize,
    size: usize,
) -> impl Iterator<Item = Result<Tensor>> + use<'_> {
    let order = fidgp_data::epoch_order(images.len(), Key::new(0).fold("statistics").seed(), 0);
    let rows: Vec<i64> = order.into_iter().take(count).map(|row| row as i64).collect();
    let parts: Vec<_> = rows.chunks_exact(size.min(rows.len()).max(1)).map(<[i64]>::to_vec).collect();
    parts.into_iter().map(move |rows| Ok(images.batch(&Tensor::from_slice(&rows).to_device(device), None)?.0))
}
