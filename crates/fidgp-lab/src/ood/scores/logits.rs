//! Scores of the logits alone.

use fidgp_zoo::baseline::logit_scores::{energy, entropy, generalised_entropy, max_logit, msp};

use super::{Made, Needs, OodScore};

pub(super) const MSP: OodScore = OodScore {
    rows: &[("msp", "1 − largest softmax probability (Hendrycks and Gimpel 2017)")],
    needs: Needs::Logits,
    made: Made::Plain(|seen| vec![msp(&seen.logits)]),
};

pub(super) const MAX_LOGIT: OodScore = OodScore {
    rows: &[("max-logit", "−largest logit (Hendrycks et al. 2022)")],
    needs: Needs::Logits,
    made: Made::Plain(|seen| vec![max_logit(&seen.logits)]),
};

pub(super) const ENERGY: OodScore = OodScore {
    rows: &[("energy", "−log-sum-exp of the logits (Liu et al. 2020)")],
    needs: Needs::Logits,
    made: Made::Plain(|seen| vec![energy(&seen.logits)]),
};

pub(super) const ENTROPY: OodScore = OodScore {
    rows: &[("entropy", "entropy of the softmax at the one U")],
    needs: Needs::Logits,
    made: Made::Plain(|seen| vec![entropy(&seen.logits)]),
};

pub(super) const GEN: OodScore = OodScore {
    rows: &[("gen", "generalised entropy, γ = 0.1 (Liu, Lochman and Zach 2023)")],
    needs: Needs::Logits,
    made: Made::Plain(|seen| vec![generalised_entropy(&seen.logits)]),
};
