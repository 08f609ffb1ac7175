//! Data sets as plain numbers: regression tables and images of bytes, no tensors.
//!
//! Every reader takes the layout that a data set's own site distributes, checks it, and either hands back a checked
//! value ([`Table`], [`Images`]) or an [`Error`] that names the file, the place inside it and the way out.
//! Randomness comes in as a seed; the same seed gives the same rows on every machine.

mod array;
pub mod array_folder;
pub mod arrays;
mod bytes;
pub mod catalogue;
pub mod cifar;
mod crop;
mod detect;
mod digest;
mod error;
mod folder;
pub mod idx;
mod images;
mod inspect;
mod inspect_folder;
mod inspect_pairs;
mod inspect_root;
mod listing;
mod mask;
pub mod mat5;
pub mod npy;
mod pair;
mod picture;
mod picture_file;
mod random;
pub mod segmentation;
mod sheet;
pub mod split;
mod standardise;
mod street;
mod summary;
pub mod svhn;
pub mod synthetic;
mod table;
mod text;
pub mod uci;

pub use crop::CropBox;
pub use detect::{detect, detect_watched};
pub use digest::file_sha256;
pub use error::{Error, Result};
pub use folder::{ImageFolder, Watch, pictures, pictures_below};
pub use images::{ChannelStatistics, Images, Part, unnamed};
pub use mask::{Mask, VOID};
pub use pair::{MaskReading, Pair, PairSet};
pub use picture::Picture;
pub use sheet::Sheet;
pub use split::{Holdout, Parts, Split, epoch_order};
pub use standardise::Standardiser;
pub use summary::{ClassCount, FileDigest, PartSummary, Summary};
pub use table::Table;
