//! What is kept of draws while they come, and how many of them a stated error needs.

use tch::Tensor;

use crate::{Error, Result};

/// Sums over the draws of a batch: what is kept does not grow with their number, but for two numbers of a draw in a regression.
/// The members of a network, blocks of rows in its outputs, count as draws.
pub trait Gather {
    /// Adds the network's outputs under one draw of its weights.
    ///
    /// # Errors
    /// When the outputs are not what is gathered.
    fn add(&mut self, outputs: &Tensor) -> Result<()>;

    /// The largest Monte-Carlo error of a mean so far: its standard deviation over the draws divided by the root of their
    /// number. Infinite after a single draw, and where nobody asked for it.
    fn error(&self) -> f64;
}

/// What a prediction took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    /// Draws of the weights.
    pub draws: u64,
    /// The largest Monte-Carlo error that is left; infinite after a single draw, and where no error was asked for.
    pub error: f64,
}

/// Draws between two looks at the error.
const DRAWS_BETWEEN_LOOKS: u64 = 4;

/// Takes at most so many draws, with a tolerance as many as are needed until the error is at most that. `outputs` gives those of
/// a range of draws, in order.
///
/// # Errors
/// When the tolerance is not positive, or a draw fails.
pub(super) fn gather(
    count: u64,
    tolerance: Option<f64>,
    into: &mut dyn Gather,
    mut outputs: impl FnMut(std::ops::Range<u64>, &mut dyn FnMut(Tensor) -> Result<()>) -> Result<()>,
) -> Result<Spent> {
    let Some(tolerance) = tolerance else {
        outputs(0..count, &mut |outputs| into.add(&outputs))?;
        return Ok(Spent { draws: count, error: into.error() });
    };
    if tolerance.is_nan() || tolerance <= 0.0 {
        return Err(Error::setting("tolerance", tolerance, "must be greater than 0; 0.01 is one per cent"));
    }
    let (mut used, mut error) = (0, f64::INFINITY);
    while used < count && error > tolerance {
        let next = (used + DRAWS_BETWEEN_LOOKS).min(count);
        outputs(used..next, &mut |outputs| into.add(&outputs))?;
        (used, error) = (next, into.error());
    }
    Ok(Spent { draws: used, error })
}
