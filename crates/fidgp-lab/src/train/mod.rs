//! Training: one loop for every method.

pub mod checkpoint;
mod culprit;
mod fit;
pub mod group;
mod groups;
mod optimiser;
mod step;
mod stepped;
mod timing;
mod window;

pub use fit::{Fit, NO_FOLDER, Outcome, Validate, Watch};
pub use optimiser::Optimiser;
pub use step::{StepInput, Stepper};
pub use stepped::Stepped;
