//! Entropies of several answers of one model: draws of its weights, or its members.

use super::{Made, Needs, OodScore};

pub(super) const ENTROPIES: OodScore = OodScore {
    rows: &[
        ("total-entropy", "entropy of the mean over K draws"),
        ("mutual-information", "epistemic part over K draws"),
    ],
    needs: Needs::Draws,
    made: Made::Plain(|seen| match &seen.draws {
        Some((total, epistemic)) => vec![total.shallow_clone(), epistemic.shallow_clone()],
        None => Vec::new(),
    }),
};
