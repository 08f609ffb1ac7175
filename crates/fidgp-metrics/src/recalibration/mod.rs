//! Probabilities mended on held-out examples.

mod isotonic;
mod vector;
mod venn_abers;

pub use isotonic::Isotonic;
pub use vector::VectorScaling;
pub use venn_abers::{VennAbers, VennInterval};
