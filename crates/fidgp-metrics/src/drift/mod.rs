//! Whether what comes in still is what the model was calibrated on.
//!
//! A test that is repeated every night raises a false alarm sooner or later. These do not: they bet against "nothing has
//! changed", and a gambler who starts with 1 never reaches 1/α with probability above α, however often one looks (Ville).

mod accuracy;
mod bets;
mod cusum;
mod exchangeability;
mod proportion;
mod ranks;

pub use accuracy::{AccuracyEstimate, estimate_accuracy};
pub use bets::Bets;
pub use cusum::Cusum;
pub use exchangeability::Exchangeability;
pub use proportion::Proportion;
