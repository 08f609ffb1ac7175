//! Sums, means and the like over axes.

use tch::{Kind, TchError, Tensor};

use super::{Inputs, Kernel, Making, axes, axis, one};
use crate::error::Doing;

type Function = fn(&Tensor, &[i64], bool) -> Result<Tensor, TchError>;

const FUNCTIONS: [(&str, Function); 10] = [
    ("ReduceL1", |x, axes, keep| sum(&x.f_abs()?, axes, keep)),
    ("ReduceL2", |x, axes, keep| x.f_norm_scalaropt_dim(2, axes, keep)),
    ("ReduceLogSum", |x, axes, keep| sum(x, axes, keep)?.f_log()),
    ("ReduceLogSumExp", |x, axes, keep| x.f_logsumexp(axes, keep)),
    ("ReduceMax", |x, axes, keep| x.f_amax(axes, keep)),
    ("ReduceMean", |x, axes, keep| x.f_mean_dim(axes, keep, None::<Kind>)),
    ("ReduceMin", |x, axes, keep| x.f_amin(axes, keep)),
    ("ReduceProd", product),
    ("ReduceSum", sum),
    ("ReduceSumSquare", |x, axes, keep| sum(&x.f_square()?, axes, keep)),
];

fn sum(x: &Tensor, axes: &[i64], keep: bool) -> Result<Tensor, TchError> {
    x.f_sum_dim_intlist(axes, keep, x.kind())
}

/// Axis by axis, from the last.
fn product(x: &Tensor, axes: &[i64], keep: bool) -> Result<Tensor, TchError> {
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    sorted.into_iter().rev().try_fold(x.shallow_clone(), |x, axis| x.f_prod_dim_int(axis, keep, x.kind()))
}

pub(super) fn make(making: &Making) -> Doing<Kernel> {
    let name = making.node.operator.as_str();
    let (_, function) = *FUNCTIONS.iter().find(|(known, _)| *known == name).ok_or("is not understood")?;
    let attributes = &making.node.attributes;
    let keep = attributes.flag("keepdims", true)?;
    let nothing = attributes.flag("noop_with_empty_axes", false)?;
    let fixed = attributes.ints("axes")?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let given = if fixed.is_some() { fixed.clone() } else { inputs.optional_ints(1)? };
        match over(inputs, &given.unwrap_or_default(), nothing)? {
            Some(axes) => Ok(function(x, &axes, keep)?),
            None => Ok(x.shallow_clone()),
        }
    }))
}

/// The axes meant: all of them when none are named, unless that means nothing is done.
fn over(inputs: &Inputs, given: &[i64], nothing: bool) -> Doing<Option<Vec<i64>>> {
    let rank = inputs.tensor(0)?.dim();
    match given.is_empty() {
        true if nothing => Ok(None),
        true => Ok(Some((0..rank as i64).collect())),
        false => axes(given, rank).map(Some),
    }
}

/// The place of the largest or smallest element.
pub(super) fn arg(making: &Making) -> Doing<Kernel> {
    let attributes = &making.node.attributes;
    let (along, keep) = (attributes.int("axis", 0)?, attributes.flag("keepdims", true)?);
    attributes.must_be("select_last_index", 0)?;
    let largest = making.node.operator == "ArgMax";
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let along = axis(along, x.dim())?;
        Ok(if largest { x.f_argmax(along, keep)? } else { x.f_argmin(along, keep)? })
    }))
}

/// Sums from one end.
pub(super) fn cumulative_sum(making: &Making) -> Doing<Kernel> {
    making.node.attributes.must_be("exclusive", 0)?;
    let reverse = making.node.attributes.flag("reverse", false)?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let along = axis(inputs.number(1)? as i64, x.dim())?;
        if !reverse {
            return Ok(x.f_cumsum(along, x.kind())?);
        }
        Ok(x.f_flip(along)?.f_cumsum(along, x.kind())?.f_flip(along)?)
    }))
}
