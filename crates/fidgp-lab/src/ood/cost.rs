//! What our scores cost beside a forward pass, measured on one batch.

use std::time::Instant;

use tch::Tensor;

use super::observe::ModelObserver;
use crate::error::Result;
use crate::record::ood::Timing;

/// Times each is measured; the median counts.
const TIMES: usize = 5;

/// Measures it; none for a network without Bayesian layers.
///
/// # Errors
/// When a pass fails.
pub fn measure(observer: &ModelObserver, pixels: &Tensor, gradients: bool) -> Result<Option<Timing>> {
    if observer.inducing.is_empty() {
        return Ok(None);
    }
    let forward = seconds(|| observer.logits(pixels).map(|logits| vec![logits]))?;
    let variance = seconds(|| observer.unexplained(pixels))?;
    let residual = if gradients { Some(seconds(|| observer.rows(pixels))?) } else { None };
    Ok(Some(Timing { images: pixels.size()[0], forward, variance, residual }))
}

/// The median of several runs after one that does not count. Results come to the CPU, so the device has finished.
fn seconds(run: impl Fn() -> Result<Vec<Tensor>>) -> Result<f64> {
    run()?;
    let mut all = Vec::new();
    for _ in 0..TIMES {
        let start = Instant::now();
        run()?;
        all.push(start.elapsed().as_secs_f64());
    }
    all.sort_by(f64::total_cmp);
    Ok(all[TIMES / 2])
}
