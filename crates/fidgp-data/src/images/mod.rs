//! Labelled images: held in memory, or pictures of any size that are decoded when asked for.

pub mod array_folder;
pub mod cifar;
pub mod corrupt;
mod crop;
mod folder;
pub mod idx;
mod of_arrays;
mod picture;
mod png;
mod set;
pub mod svhn;

pub use crop::CropBox;
pub use folder::{ImageFolder, Watch, pictures, pictures_below};
pub use of_arrays::images;
pub use picture::Picture;
pub(crate) use set::{ByteSums, numbered};
pub use set::{ChannelStatistics, Images, Part, unnamed};
