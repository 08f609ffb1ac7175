//! Which predictions to act on: those whose uncertainty lies below a threshold that was chosen for a promise.

mod advice;
mod best_score;
mod coverage;
mod risk;

pub use advice::{Advice, advise};
pub use best_score::{RankedScore, best_score};
pub use coverage::{AnswerRule, answer_share};
pub use risk::{RiskRule, bound_risk};
