//! How long a training will take, from a few of its steps.

use std::time::{Duration, Instant};

use fidgp::objective::DatasetSize;
use tch::Tensor;

use super::checkpoint::Progress;
use super::fit::Fit;
use super::optimiser::Optimiser;
use super::step::Stepper;
use crate::error::Result;

/// Steps that choose kernels and make memory, before those that are timed.
const WARM_UP: usize = 5;
/// Steps that are timed at most, and for how long about.
const TIMED_STEPS: usize = 30;
const TIMED_FOR: Duration = Duration::from_secs(3);

impl Fit<'_> {
    /// Seconds of a step, KL and all: a few are made, some of them to warm up. The model is another one then.
    ///
    /// # Errors
    /// When an example cannot be read or a step fails.
    pub fn seconds_per_step(&self) -> Result<f64> {
        let mut optimiser =
            Optimiser::new(&self.model.store, self.config.optimiser)?.with_groups(&self.config.groups)?;
        let examples = DatasetSize::new(self.source.observations())?;
        let mut stepper = Stepper::new(self.model, examples, self.config.capture)
            .with_sharpness(self.config.sharpness)
            .with_alignment(self.config.alignment);
        let (batches, moment) = (self.batches(0), self.config.epochs.saturating_sub(1) as f64);
        let planned: Vec<Tensor> =
            batches.iter().cycle().take(WARM_UP + TIMED_STEPS).map(Tensor::shallow_clone).collect();
        self.announce(0, &planned)?;
        let (mut progress, mut started) = (Progress::default(), Instant::now());
        for (number, rows) in planned.iter().enumerate() {
            let (stepped, _) = self.step((&mut stepper, &optimiser), &progress, moment, rows)?;
            optimiser.step(stepped.gradient, self.rate(0.0), self.config.clip_norm);
            progress.step += 1;
            let _ = stepped.parts.f_double_value(&[0])?; // waits for the device
            match (number + 1).checked_sub(WARM_UP) {
                Some(0) => started = Instant::now(),
                Some(timed) if started.elapsed() > TIMED_FOR || timed == TIMED_STEPS => {
                    return Ok(started.elapsed().as_secs_f64() / timed as f64);
                }
                _ => {}
            }
        }
        Ok(0.0)
    }
}
