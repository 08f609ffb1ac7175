//! Files that nobody vouches for. What is read has [limits]; what is written is there whole or not at all ([mod@write]), and
//! goes where its path says, never where a link points; what is shown of a name cannot steer a terminal ([shown()]).

mod fault;
mod folder;
mod guard;
pub mod limits;
mod read;
mod shown;
pub mod write;
pub mod written;

pub use folder::NewFolder;
pub use guard::{guarded, is_guarded};
pub use limits::{Exceeded, Limit};
pub use read::{bytes, open, text};
pub use shown::shown;
