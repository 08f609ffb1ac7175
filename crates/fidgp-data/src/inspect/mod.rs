//! What a path holds, whether it is sound, and how it is told.

mod detect;
mod folder;
mod pairs;
mod root;
mod sets;
mod summary;

pub use detect::{detect, detect_watched};
pub use summary::{ClassCount, ColumnSummary, FileDigest, PartSummary, Summary};
