//! Data sets as plain numbers: regression tables and images of bytes, no tensors.
//!
//! Every reader takes the layout that a data set's own site distributes, checks it, and either hands back a checked
//! value ([`Table`], [`Images`]) or an [`Error`] that names the file, the place inside it and the way out.
//! Randomness comes in as a seed; the same seed gives the same rows on every machine.

pub mod catalogue;
mod digest;
mod error;
mod formats;
mod images;
mod inspect;
mod listing;
mod random;
pub mod segmentation;
pub mod split;
mod tables;

/// Arrays that people bring along: `.npy` and `.safetensors`, turned into [`Images`] or a [`Table`].
///
/// ```text
/// images.npy or `images`      uint8 [N, C, H, W] or [N, H, W]     labels    uint8 or int64 [N]
/// features.npy or `features`  float [N, columns]                  targets   float [N] or [N, 1]
/// ```
pub mod arrays {
    pub use crate::formats::arrays::{Array, Values, read, read_safetensors};
    pub use crate::images::images;
    pub use crate::tables::table;
}

/// Images made worse in a controlled way, in five severities.
pub mod corruptions {
    pub use crate::images::corrupt::{CORRUPTIONS, Corruption, SEVERITIES};
}

pub use digest::file_sha256;
pub use error::{Error, Result};
pub use formats::{mat5, npy};
pub use images::{
    ChannelStatistics, CropBox, ImageFolder, Images, Part, Picture, Watch, array_folder, cifar, idx, pictures,
    pictures_below, svhn, unnamed,
};
pub use inspect::{ClassCount, ColumnSummary, FileDigest, PartSummary, Summary, detect, detect_watched};
pub use segmentation::{Mask, MaskReading, Pair, PairSet, VOID};
pub use split::{Holdout, Parts, Split, epoch_order};
pub use tables::{
    Cells, ColumnEncoding, Encoded, Encoding, Given, Holds, Sheet, Standardiser, Survey, Table, synthetic, targets, uci,
};
