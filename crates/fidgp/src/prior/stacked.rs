//! Factors of many priors in stacks: what CUDA computes, where every operation costs its launch, with libtorch's own gradients.

use std::collections::BTreeMap;

use tch::Tensor;

use super::{Grams, KroneckerPrior, PriorFactors, SideFactors, gram};
use crate::Result;
use crate::linalg::{self, Batching, Check, Jitter, Named};

/// One side, rows or columns, of priors of equal sizes, with a leading axis over them; of a prior apart, without.
struct Side {
    label: &'static str,
    layers: Vec<String>,
    /// `[L, M, d]` or `[M, d]`
    z: Tensor,
    /// `[L, M]` or `[M]`
    d_raw: Tensor,
}

impl Side {
    fn of(
        priors: &[&KroneckerPrior],
        batching: Batching,
        label: &'static str,
        part: fn(&KroneckerPrior) -> (&Tensor, &Tensor),
    ) -> Self {
        let stack = |tensors: Vec<&Tensor>| linalg::stack(&tensors, batching);
        Self {
            label,
            layers: priors.iter().map(|prior| prior.name.clone()).collect(),
            z: stack(priors.iter().map(|prior| part(prior).0).collect()),
            d_raw: stack(priors.iter().map(|prior| part(prior).1).collect()),
        }
    }

    /// Sides whose matrices may be one batch: of one size and kind.
    fn batch(&self) -> (i64, bool) {
        let [.., points, width] = self.z.size()[..] else { unreachable!("Z is a matrix") };
        (points, points >= width)
    }

    fn names(&self, matrix: &str) -> Vec<String> {
        self.layers.iter().map(|layer| format!("{layer}.{matrix}_{}", self.label)).collect()
    }
}

/// Together: in stacks of equal sizes, each one batch for every product, and all matrices of one size, of whatever stack, are one
/// batch too. Apart: each stack is a single prior.
pub(super) fn factors(
    stacks: &[Vec<&KroneckerPrior>],
    batching: Batching,
    jitter: Jitter,
    grams: Grams,
    check: Check,
) -> Result<Vec<PriorFactors>> {
    let sides: Vec<Side> = stacks
        .iter()
        .flat_map(|priors| {
            let row = Side::of(priors, batching, "row", |prior| (&prior.z_row, &prior.d_row_raw));
            [row, Side::of(priors, batching, "col", |prior| (&prior.z_col, &prior.d_col_raw))]
        })
        .collect();
    let batches: Vec<Batch> = batches(&sides, batching).into_iter().map(|members| Batch::of(&sides, members)).collect();
    let named = |batch: &Batch, matrix: &str, values: &Tensor| Named {
        names: batch.members.iter().flat_map(|&index| sides[index].names(matrix)).collect(),
        values: values.shallow_clone(),
    };
    let mut matrices: Vec<_> = batches.iter().map(|batch| named(batch, "K", &batch.covariance)).collect();
    if grams == Grams::Factored {
        matrices.extend(batches.iter().map(|batch| named(batch, "ZZ", &batch.gram)));
    }
    let lower = linalg::cholesky(&matrices, jitter, check)?;
    let (l, gram_chol) = lower.split_at(batches.len());
    let inverse = linalg::inverse_lower(&l.iter().collect::<Vec<_>>())?;
    let mut all: Vec<Option<SideFactors>> = sides.iter().map(|_| None).collect();
    for (place, batch) in batches.iter().enumerate() {
        let split = |tensor: &Tensor| batch.split(tensor, &sides);
        let (l, inverse, d) = (split(&l[place])?, split(&inverse[place])?, split(&batch.d)?);
        let gram_chol = gram_chol.get(place).map(split).transpose()?;
        for (part, &index) in batch.members.iter().enumerate() {
            let z = &sides[index].z;
            let l_inverse = inverse[part].to_kind(z.kind());
            all[index] = Some(SideFactors {
                l: l[part].to_kind(z.kind()),
                a: l_inverse.matmul(z),
                l_inverse,
                d: d[part].to_kind(z.kind()),
                gram_chol: gram_chol.as_ref().map(|parts| parts[part].to_kind(z.kind())),
            });
        }
    }
    let mut all = all.into_iter().flatten().zip(sides.into_iter().map(|side| side.z));
    let mut next = || all.next().expect("two sides for each stack");
    Ok(stacks.iter().map(|_| PriorFactors::of(next(), next(), jitter)).collect())
}

/// Which sides are one batch.
fn batches(sides: &[Side], batching: Batching) -> Vec<Vec<usize>> {
    if batching == Batching::Apart {
        return (0..sides.len()).map(|index| vec![index]).collect();
    }
    let mut batches: BTreeMap<(i64, bool), Vec<usize>> = BTreeMap::new();
    for (index, side) in sides.iter().enumerate() {
        batches.entry(side.batch()).or_default().push(index);
    }
    batches.into_values().collect()
}

/// The matrices of sides of one size and kind, or of one side.
struct Batch {
    members: Vec<usize>,
    /// D. `[.., M]`
    d: Tensor,
    /// `Z Zᵀ`. `[.., M, M]`
    gram: Tensor,
    /// `K = Z Zᵀ + D²`. `[.., M, M]`
    covariance: Tensor,
}

impl Batch {
    fn of(sides: &[Side], members: Vec<usize>) -> Self {
        let join = |of: fn(&Side) -> Tensor| match members[..] {
            [one] => of(&sides[one]),
            _ => Tensor::cat(&members.iter().map(|&index| of(&sides[index])).collect::<Vec<_>>(), 0),
        };
        let (gram, d) = (join(|side| gram(&side.z)), join(|side| side.d_raw.shallow_clone()).softplus());
        let covariance = &gram + d.square().diag_embed(0, -2, -1);
        Self { members, d, gram, covariance }
    }

    /// What belongs to each of its sides, in one go: the gradients of slices would each be a whole batch of zeros around them.
    fn split(&self, joined: &Tensor, sides: &[Side]) -> Result<Vec<Tensor>> {
        if self.members.len() == 1 {
            return Ok(vec![joined.shallow_clone()]);
        }
        let lengths: Vec<_> = self.members.iter().map(|&index| sides[index].z.size()[0]).collect();
        Ok(joined.f_split_with_sizes(lengths, 0)?)
    }
}
