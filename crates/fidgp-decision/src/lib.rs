//! From uncertainty to a decision: may I act on this prediction?
//!
//! [`fit`](fit::classes) finds rules on examples that were not trained on and checks them on a part that was held back;
//! together they are a [`Calibration`], one file beside the model. [`Calibration::decide`](calibration::Calibration) says of
//! a prediction what may be done with it. [`monitor`] reads what was said and tells whether the rules still hold. No tensors.

/// What was fitted: the rules, what they rest on, what they were seen to do.
pub mod calibration;
/// What the rules say of one prediction.
pub mod decide;
/// The one error type.
pub mod error;
/// What a model says of one input.
pub mod evidence;
/// Rules from examples.
pub mod fit;
/// Promised and seen, on examples that were held back.
pub mod kept;
/// Whether the rules still hold for what comes in.
pub mod monitor;
/// Sets of classes for the pixels of pictures.
pub mod pixels;
/// How far a model can be trusted: what a page says of it.
pub mod trust;

pub use calibration::{CALIBRATION_FILE, Calibration};
pub use decide::{Decision, Verdict};
pub use error::{DecisionError, Result};
pub use evidence::{ClassEvidence, NumberEvidence, Score};
pub use fit::Asked;
pub use pixels::{PixelEvidence, PixelSets};
pub use trust::{TRUST_FILE, Trust};
