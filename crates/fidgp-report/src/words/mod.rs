//! Numbers and names as text.

/// Numbers as text.
pub mod format;
/// What each metric means.
pub mod metric;

mod slug;

pub use slug::slug;
