//! Training: one loop for every method.

pub mod checkpoint;
mod culprit;
mod fit;
mod groups;
mod optimiser;
mod schedule;
mod step;
mod window;

pub use fit::{Fit, NO_FOLDER, Outcome, Validate, Watch};
pub use groups::GroupConfig;
pub use optimiser::{Optimiser, OptimiserConfig};
pub use schedule::ScheduleConfig;
pub use step::{StepInput, Stepped, Stepper};
