//! Weights that are drawn as one.

use tch::Tensor;

use super::{ConditionalNoise, InducingWeight};
use crate::Result;
use crate::linalg::{self, Batching, Check, Jitter};
use crate::prior::{self, PriorFactors};

/// Weights that are drawn as one: of equal sizes and settings.
#[derive(Debug)]
pub struct Stack {
    /// Their places among the weights.
    pub members: Vec<usize>,
    /// Their factors, with a leading axis over the members; apart there is one member and no such axis.
    pub factors: PriorFactors,
}

/// Factors of all weights of a network: one factorisation for each size of matrix.
///
/// # Errors
/// When a covariance cannot be factorised; the error names layer and matrix.
pub fn factors(weights: &[&InducingWeight], check: Check) -> Result<Vec<Stack>> {
    factors_batched(weights, check, batching(weights))
}

/// How the layers of a network, and its draws, are computed.
pub(crate) fn batching(weights: &[&InducingWeight]) -> Batching {
    Batching::on_device_of(weights.first().map(|weight| &weight.prior.z_row))
}

pub(super) fn factors_batched(weights: &[&InducingWeight], check: Check, batching: Batching) -> Result<Vec<Stack>> {
    let together = batching == Batching::Together;
    let stacks = groups(weights, |a, b| together && a.sizes() == b.sizes() && a.config == b.config);
    let settings = |members: &Vec<usize>| (weights[members[0]].config.jitter.to_bits(), weights[members[0]].grams());
    let mut all: Vec<Option<PriorFactors>> = stacks.iter().map(|_| None).collect();
    for alike in groups(&stacks, |a, b| settings(a) == settings(b)) {
        let (jitter, grams) = settings(&stacks[alike[0]]);
        let jitter = Jitter { relative: f64::from_bits(jitter), ..Jitter::FIDGP };
        let priors: Vec<Vec<_>> =
            alike.iter().map(|&stack| stacks[stack].iter().map(|&member| &weights[member].prior).collect()).collect();
        for (stack, factors) in alike.into_iter().zip(prior::factors(&priors, batching, jitter, grams, check)?) {
            all[stack] = Some(factors);
        }
    }
    let factors = all.into_iter().flatten();
    Ok(stacks.into_iter().zip(factors).map(|(members, factors)| Stack { members, factors }).collect())
}

/// Indices of items that are alike, in the order of their first members.
pub(super) fn groups<T>(items: &[T], alike: impl Fn(&T, &T) -> bool) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match groups.iter_mut().find(|group| alike(&items[group[0]], item)) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

impl Stack {
    /// The first of some weights alone, with its factors.
    pub(super) fn of_one(factors: &PriorFactors) -> Self {
        Self { members: vec![0], factors: factors.layer(0) }
    }

    /// The same tensors, not copies.
    pub(crate) fn share(&self) -> Self {
        Self { members: self.members.clone(), factors: self.factors.share() }
    }

    /// The factors of one weight.
    pub(super) fn factors_of(stacks: &[Self], index: usize) -> PriorFactors {
        let find = |stack: &Self| {
            let place = stack.members.iter().position(|&member| member == index)?;
            Some(stack.factors.layer(place as i64))
        };
        stacks.iter().find_map(find).expect("every weight is in a stack")
    }

    /// Whether its tensors have an axis over its members.
    pub(super) fn batching(&self) -> Batching {
        if self.factors.is_stacked() { Batching::Together } else { Batching::Apart }
    }

    /// A matrix of each member. `[.., a, b]` → `[.., L, a, b]`; apart as it is
    pub(super) fn join<'a>(&self, of: impl Fn(usize) -> &'a Tensor) -> Tensor {
        linalg::stack_matrices(&self.members.iter().map(|&index| of(index)).collect::<Vec<_>>(), self.batching())
    }

    /// A number of each member. → `[L]`; apart as it is
    pub(super) fn join_scalars<'a>(&self, of: impl Fn(usize) -> &'a Tensor) -> Tensor {
        linalg::stack(&self.members.iter().map(|&index| of(index)).collect::<Vec<_>>(), self.batching())
    }

    /// The noise of each member.
    pub(super) fn join_noise(&self, of: impl Fn(usize) -> ConditionalNoise) -> ConditionalNoise {
        ConditionalNoise::joined(&self.members.iter().map(|&index| of(index)).collect::<Vec<_>>(), self.batching())
    }
}
