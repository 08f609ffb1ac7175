//! One training by several processes, each of which computes a part of every batch.

use std::ops::Range;
use std::sync::Arc;

use fidgp::Key;
use fidgp::layer::Across;
use fidgp_torch::{Group, GroupError};
use sha2::{Digest, Sha256};
use tch::Tensor;

use super::Optimiser;
use super::checkpoint::{self, Progress};
use super::stepped::Stepped;
use super::window::PARTS;
use crate::config::WeightDraws;
use crate::error::{LabError, Result};
use crate::model::Model;

/// The share of this process in a training.
#[derive(Clone, Debug)]
pub struct Share {
    group: Arc<Group>,
    sync_norm: bool,
}

/// What rows count at least: a part whose examples all have the weight 0 still has statistics, through which others' losses
/// have a gradient. It is made commensurate with this mass, a power of two, which counts nothing beside the others also after many
/// steps.
pub(super) const LEAST_MASS: f64 = 1.0 / (1_u64 << 40) as f64;

/// The rows of a batch that a process computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Which of the batch; never none.
    pub range: Range<i64>,
    /// Whether they count. A process that a short batch leaves without rows computes the first one for nothing.
    pub count: bool,
    /// Whether some process has a single row, or none: that has no variance.
    pub short: bool,
}

/// A part of a batch beside the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Its number; none for the whole.
    pub number: Option<u64>,
    /// What it counts, 0 for one without rows.
    pub mass: f64,
    /// Whether it has rows of the batch.
    pub has_rows: bool,
    /// As of its rows.
    pub short: bool,
}

impl Default for Part {
    /// The whole.
    fn default() -> Self {
        Self { number: None, mass: 1.0, has_rows: true, short: false }
    }
}

impl Part {
    /// The key of its weight draw, from that of the step.
    pub fn key(&self, step: Key, draws: WeightDraws) -> Key {
        match (draws, self.number) {
            (WeightDraws::Own, Some(number)) => step.fold("draw").at(number),
            _ => step,
        }
    }
}

/// The pieces of a batch that one process has computed, one after another, as one: their mean by mass.
#[derive(Debug)]
pub struct Pieces {
    count: usize,
    sums: Option<Stepped>,
    mass: f64,
}

impl Pieces {
    /// None of so many.
    pub fn of(count: usize) -> Self {
        Self { count, sums: None, mass: 0.0 }
    }

    /// One more.
    pub fn push(&mut self, own: Stepped, mass: f64) {
        self.mass += mass;
        // a loss without weight may be anything; a gradient may lie where the next one will be written
        let weighted = |tensor: &Tensor| if mass > 0.0 { tensor * mass } else { tensor.zeros_like() };
        self.sums = Some(match self.sums.take() {
            None if self.count == 1 => own,
            None => Stepped { parts: weighted(&own.parts), gradient: weighted(&own.gradient) },
            Some(mut sums) => {
                let _ = sums.gradient.g_add_(&weighted(&own.gradient));
                Stepped { parts: sums.parts + weighted(&own.parts), gradient: sums.gradient }
            }
        });
    }

    /// Their mean and what they count together; none where nothing was pushed.
    pub fn mean(self) -> Option<(Stepped, f64)> {
        let (count, mass) = (self.count, self.mass);
        let mean = |mut sums: Stepped| {
            if count > 1 && mass > 0.0 {
                let _ = sums.gradient.g_div_scalar_(mass);
                sums.parts /= mass;
            }
            (sums, mass)
        };
        self.sums.map(mean)
    }
}

/// A step of the whole batch, whoever computed it.
#[derive(Debug)]
pub struct Joined {
    /// Loss, NLL, KL of U, KL of W given U. `[4]`
    pub parts: Tensor,
    /// Gradient of all parameters. `[P]`
    pub gradient: Tensor,
    stops: Stops,
}

/// Whether a process was asked to stop.
#[derive(Debug)]
enum Stops {
    /// This one, which is alone.
    Alone(bool),
    /// How many of them.
    Of(Tensor),
}

impl Joined {
    /// A step that one process computed.
    pub fn alone(Stepped { parts, gradient }: Stepped, stop: bool) -> Self {
        Self { parts, gradient, stops: Stops::Alone(stop) }
    }

    /// Whether a process was asked to stop. Where several train, only a look tells: on CUDA it waits for the device.
    pub fn stopping(&self, look: bool) -> bool {
        match &self.stops {
            Stops::Alone(stop) => *stop,
            Stops::Of(count) => look && count.double_value(&[]) > 0.0,
        }
    }
}

impl Share {
    /// This process's share of a group's training; BatchNorm over the whole batch if `sync_norm`, else over each part.
    pub fn new(group: Arc<Group>, sync_norm: bool) -> Self {
        Self { group, sync_norm }
    }

    /// Whether this process writes what is written.
    pub fn writes(&self) -> bool {
        self.group.rank() == 0
    }

    /// The number of this process.
    pub fn rank(&self) -> usize {
        self.group.rank()
    }

    /// How many processes there are.
    pub fn size(&self) -> usize {
        self.group.size()
    }

    /// Whether every step sums something on its way.
    pub fn talks_inside(&self) -> bool {
        self.sync_norm
    }

    /// Sums for BatchNorm: as the config says, and always where some part is too short for statistics of its own.
    pub fn across(&self, Part { mass, has_rows, short, .. }: Part) -> Option<Across> {
        let group = Arc::clone(&self.group);
        (self.sync_norm || short).then(|| {
            Across::new(has_rows, move |own| {
                group.sum(own, mass, "BatchNorm's statistics").map_err(|error| fidgp::Error::Across(error.0))
            })
        })
    }

    /// The sum of a tensor, without its gradient, over all parts that have rows.
    pub fn sum(&self, own: &Tensor, part: Part) -> fidgp::Result<Tensor> {
        let own = own.detach();
        let mut sum = if part.has_rows { own.copy() } else { own.zeros_like() };
        let reduced = self.group.all_reduce(&mut sum, "the weights of examples");
        reduced.map_err(|error| fidgp::Error::Across(error.0))?;
        Ok(sum)
    }

    /// The mean of the parts' losses and gradients, each with the weight of its mass: that of the whole batch.
    pub fn join(&self, stepped: &Stepped, (mass, stop): (f64, bool), what: &str) -> Result<Joined> {
        let (gradient, parts) = (&stepped.gradient, &stepped.parts);
        let number = |value: f64| gradient.new_full([1], value, (gradient.kind(), gradient.device()));
        let stops = number(f64::from(u8::from(stop)));
        let mut all = Tensor::cat(&[gradient, &parts.to_kind(gradient.kind()), &number(1.0), &stops], 0);
        let (length, parts) = (gradient.size()[0], PARTS as i64);
        weigh(&all.narrow(0, 0, length + parts + 1), mass);
        self.group.all_reduce(&mut all, what)?;
        let mean = mean_of(&all.narrow(0, 0, length + parts + 1));
        let (gradient, losses) = (mean.narrow(0, 0, length), mean.narrow(0, length, parts));
        Ok(Joined { gradient, parts: losses, stops: Stops::Of(all.get(length + parts + 1)) })
    }

    /// The mean of the processes' gradients, for one that a step needs on its way.
    pub fn mean(&self, gradient: &Tensor, mass: f64) -> Result<Tensor> {
        let one = gradient.new_ones([1], (gradient.kind(), gradient.device()));
        let mut all = Tensor::cat(&[gradient, &one], 0);
        weigh(&all, mass);
        self.group.all_reduce(&mut all, "the gradient of a sharpness-aware step")?;
        Ok(mean_of(&all))
    }

    /// Begins a training at one place: everybody takes rank 0's numbers and progress.
    pub fn begin(&self, model: &Model, optimiser: &mut Optimiser, progress: &Progress) -> Result<Progress> {
        self.take_firsts(model)?;
        for (name, tensor) in optimiser.state() {
            self.copy(&tensor, &name)?;
        }
        optimiser.take_steps(self.number(optimiser.steps() as f64, "the optimiser's steps")? as i64);
        let own = serde_json::to_string(progress).map_err(|error| LabError::config("progress", error.to_string()))?;
        let text = self.group.text_of_first("progress", &own)?;
        serde_json::from_str(&text).map_err(|error| LabError::config("progress of rank 0", error.to_string()))
    }

    /// Everybody takes rank 0's numbers.
    pub fn take_firsts(&self, model: &Model) -> Result<()> {
        let all = checkpoint::variables(&model.store);
        all.into_iter().try_for_each(|(name, variable)| self.copy(&variable.detach(), &name))
    }

    fn copy(&self, tensor: &Tensor, name: &str) -> Result<()> {
        let mut whole = tensor.contiguous();
        self.group.broadcast(&mut whole, 0, &format!("rank 0's `{name}`"))?;
        tch::no_grad(|| tensor.shallow_clone().copy_(&whole));
        Ok(())
    }

    /// Rank 0's number, which the others take for theirs.
    fn number(&self, own: f64, what: &str) -> Result<f64> {
        let mut number = Tensor::from_slice(&[own]).to_device(self.device());
        self.group.broadcast(&mut number, 0, what)?;
        Ok(number.double_value(&[0]))
    }

    /// Where numbers that are passed on must lie.
    fn device(&self) -> tch::Device {
        self.group.device()
    }

    /// What all go by at the end of an epoch: the same running statistics of BatchNorm, the mean of the processes'.
    pub fn settle(&self, model: &Model) -> Result<()> {
        if self.sync_norm {
            return Ok(());
        }
        for layer in model.network.layers() {
            for (what, running) in layer.running() {
                let mut sum = running.detach().copy();
                self.group.all_reduce(&mut sum, &format!("`{}.{what}`", layer.name()))?;
                tch::no_grad(|| running.shallow_clone().copy_(&(sum / self.group.size() as f64)));
            }
        }
        Ok(())
    }

    /// Rank 0's validation, so that all choose the same epoch.
    pub fn agreed(&self, nll: f64) -> Result<f64> {
        self.number(nll, "the validation")
    }

    /// What a failed step says when it failed for want of another process: libtorch's own backward pass can only name a
    /// socket.
    pub fn explained(&self, error: LabError, what: &str) -> LabError {
        match &error {
            LabError::Torch(tch::TchError::Torch(words)) if is_of_group(words) => {
                let first = words.lines().next().unwrap_or_default();
                self.group.missing(what, first).into()
            }
            // what the group said itself, on its way through a layer
            LabError::Method(fidgp::Error::Across(words)) => GroupError(words.clone()).into(),
            _ => error,
        }
    }
}

/// Multiplies in place; what has no weight may be anything, and counts nothing.
fn weigh(numbers: &Tensor, mass: f64) {
    let mut numbers = numbers.shallow_clone();
    let _ = tch::no_grad(|| if mass > 0.0 { numbers.g_mul_scalar_(mass) } else { numbers.zero_() });
}

/// Divides in place by the last number, the sum of all masses, and leaves that out.
fn mean_of(sums: &Tensor) -> Tensor {
    let length = sums.size()[0] - 1;
    let total = sums.narrow(0, length, 1).clamp_min(LEAST_MASS);
    let mut mean = sums.narrow(0, 0, length);
    let _ = tch::no_grad(|| mean.g_div_(&total));
    mean
}

fn is_of_group(words: &str) -> bool {
    words.contains("gloo") || words.contains("NCCL") || words.contains("process group")
}

/// The rows of part `rank` of `size`: one after another, as evenly as can be.
pub(super) fn rows(batch: i64, rank: i64, size: i64) -> Rows {
    let (from, to) = (batch * rank / size, batch * (rank + 1) / size);
    let (range, count) = if from < to { (from..to, true) } else { (0..batch.min(1), false) };
    Rows { range, count, short: batch < 2 * size }
}

/// Refuses processes that would not train the same: `what` is had by all of them in the same words.
///
/// # Errors
/// Names the first process that differs from rank 0, and both digests.
pub fn agree(group: &Group, what: &str, own: &str) -> Result<()> {
    let digest = format!("{:x}", Sha256::digest(own.as_bytes()));
    let all = group.texts(what, &digest[..16])?;
    let Some(other) = all.iter().position(|digest| *digest != all[0]) else { return Ok(()) };
    let (name, first) = (group.name(other), group.name(0));
    Err(LabError::Group(GroupError(format!(
        "{what} of {name} is not that of {first} (SHA-256 {}…, {}…); all processes need the same program, config and data",
        all[other], all[0]
    ))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stepped(loss: f64, gradient: f64) -> Stepped {
        Stepped { parts: Tensor::full([4], loss, DOUBLE), gradient: Tensor::full([3], gradient, DOUBLE) }
    }

    const DOUBLE: (tch::Kind, tch::Device) = (tch::Kind::Double, tch::Device::Cpu);

    #[test]
    fn pieces_count_by_their_mass() {
        let mut pieces = Pieces::of(4);
        for (loss, gradient, mass) in
            [(f64::NAN, f64::NAN, 0.0), (1.0, 10.0, 3.0), (5.0, 2.0, 1.0), (f64::NAN, 1.0, 0.0)]
        {
            pieces.push(stepped(loss, gradient), mass);
        }
        let (mean, mass) = pieces.mean().unwrap();
        assert_eq!((mean.parts, mean.gradient), (Tensor::full([4], 2.0, DOUBLE), Tensor::full([3], 8.0, DOUBLE)));
        assert!((mass - 4.0).abs() < 1e-12);
        let mut one = Pieces::of(1);
        one.push(stepped(0.3, 0.1), 7.0);
        assert_eq!(one.mean().unwrap().0.gradient, Tensor::full([3], 0.1, DOUBLE), "a single piece is left as it is");
    }

    #[test]
    fn what_has_no_weight_may_be_anything() {
        let numbers = Tensor::full([3], f64::NAN, DOUBLE);
        weigh(&numbers, 0.0);
        assert_eq!(numbers, Tensor::zeros([3], DOUBLE));
        assert_eq!(mean_of(&numbers), Tensor::zeros([2], DOUBLE), "and so may a batch of nothing else");
        let numbers = Tensor::from_slice(&[6.0, 9.0, 3.0]);
        assert_eq!(mean_of(&numbers), Tensor::from_slice(&[2.0, 3.0]));
    }

    #[test]
    fn every_row_is_had_once() {
        for (batch, size) in [(10, 2), (10, 3), (7, 4), (3, 4), (1, 8)] {
            let parts: Vec<_> = (0..size).map(|rank| rows(batch, rank, size)).collect();
            let counted = parts.iter().filter(|part| part.count).flat_map(|part| part.range.clone());
            assert_eq!(counted.collect::<Vec<_>>(), (0..batch).collect::<Vec<_>>(), "{batch} by {size}");
            let lengths = || parts.iter().filter(|part| part.count).map(|part| part.range.end - part.range.start);
            assert!(lengths().max().unwrap() - lengths().min().unwrap() <= 1);
            assert!(parts.iter().all(|part| !part.range.is_empty()));
        }
    }
}
