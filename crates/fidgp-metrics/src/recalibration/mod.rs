//! Probabilities mended on held-out examples.

mod isotonic;
mod map;
mod vector;
mod venn_abers;

pub use isotonic::Isotonic;
pub use map::{Candidate, Choice, MapKind, Recalibration, choose};
pub use vector::VectorScaling;
pub use venn_abers::{VennAbers, VennInterval, VennSteps};
