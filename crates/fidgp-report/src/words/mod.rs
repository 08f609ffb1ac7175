//! Numbers and names as text.

/// Numbers as text.
pub mod format;
/// What each metric means.
pub mod metric;

mod base64;
mod slug;

pub use base64::base64;
pub use slug::slug;
