//! File formats: bytes and text to arrays, whatever they mean.

mod array;
pub(crate) mod arrays;
pub(crate) mod bytes;
pub(crate) mod columnar;
pub(crate) mod idx;
mod inflate;
pub mod mat5;
pub mod npy;
pub(crate) mod text;
