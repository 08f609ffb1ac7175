//! As many draws as a stated error needs.

use tch::{Kind, Tensor};

use super::{Classified, Draws, add, entropy_of};
use crate::{Error, Result};

/// What [`classify_to`] took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    /// Draws.
    pub draws: u64,
    /// The largest Monte-Carlo error of a probability that is left; infinite after a single draw.
    pub error: f64,
}

/// Draws of [`classify_to`] between two looks at the error.
const DRAWS_BETWEEN_LOOKS: u64 = 4;

/// Classifies a batch with as many draws as are needed, but at most K: until the Monte-Carlo error of every probability,
/// its standard deviation over the draws divided by the root of their number, is at most `tolerance`. Also returns what it
/// took, and what error is left: K draws may not be enough.
///
/// # Shapes
/// batch `[N, ..]` → fields of N rows
///
/// # Errors
/// When the tolerance is not positive or the batch does not fit the network.
pub fn classify_to(draws: &Draws, batch: &Tensor, tolerance: f64) -> Result<(Classified, Spent)> {
    if tolerance.is_nan() || tolerance <= 0.0 {
        return Err(Error::setting("tolerance", tolerance, "must be greater than 0; 0.01 is one per cent"));
    }
    let (mut probs, mut squares, mut entropies) = (None, None, None);
    let (mut used, mut error) = (0, f64::INFINITY);
    while used < draws.count && error > tolerance {
        let next = (used + DRAWS_BETWEEN_LOOKS).min(draws.count);
        draws.outputs_of(used..next, std::slice::from_ref(batch), |_, logits| {
            let log_p = logits.to_kind(Kind::Float).log_softmax(-1, Kind::Float);
            let p = log_p.exp();
            add(&mut entropies, entropy_of(&p, &log_p));
            add(&mut squares, p.square());
            add(&mut probs, p);
            Ok(())
        })?;
        used = next;
        let (Some(sum), Some(squares)) = (&probs, &squares) else { break };
        let k = used as f64;
        let variance = (squares / k - (sum / k).square()).clamp_min(0.0) * (k / (k - 1.0).max(1.0));
        if used > 1 {
            error = (variance / k).sqrt().max().double_value(&[]);
        }
    }
    let mean = |sum: Option<Tensor>| sum.map(|sum| sum / used as f64);
    let missing = || Error::setting("draws", 0, "prediction needs at least one draw");
    let (probs, aleatoric) = (mean(probs).ok_or_else(missing)?, mean(entropies).ok_or_else(missing)?);
    let total = entropy_of(&probs, &probs.clamp_min(1e-38).log());
    let classified =
        Classified { epistemic: (&total - &aleatoric).clamp_min(0.0), probs, total, aleatoric, mean_nll: None };
    Ok((classified, Spent { draws: used, error }))
}
