//! Lists of tensors.

use tch::Tensor;

use super::{Kernel, Making, Value, axis, join, one, pick};
use crate::error::Doing;

fn tensors(value: &Value) -> Doing<&[Tensor]> {
    match value {
        Value::Sequence(tensors) => Ok(tensors),
        Value::Tensor(_) => Err("has a tensor where it takes a sequence".into()),
    }
}

/// Parts of a tensor are tensors: a list of them is much larger than its numbers.
fn few(count: i64) -> Doing<()> {
    const MOST: i64 = 1 << 16;
    if count <= MOST { Ok(()) } else { Err(format!("{count} parts; {MOST} are the most in a sequence").into()) }
}

pub(super) fn split(making: &Making) -> Doing<Kernel> {
    let attributes = &making.node.attributes;
    let (along, keep) = (attributes.int("axis", 0)?, attributes.flag("keepdims", true)?);
    Ok(Box::new(move |inputs| {
        let x = inputs.tensor(0)?;
        let along = axis(along, x.dim())?;
        let size = x.size()[along as usize];
        let given = inputs.optional(1)?;
        let lengths = match given {
            None => {
                few(size)?;
                vec![1; size as usize]
            }
            Some(one) if one.dim() == 0 => {
                let length = inputs.number(1)? as i64;
                if length < 1 {
                    return Err(format!("parts of length {length}").into());
                }
                let count = size / length + i64::from(size % length != 0);
                few(count)?;
                pick::equal_parts(size, count)?
            }
            Some(_) => inputs.ints(1)?,
        };
        let parts = x.f_split_with_sizes(lengths, along)?;
        if given.is_some() || keep {
            return Ok(vec![Value::Sequence(parts)]);
        }
        let dropped = parts.iter().map(|part| Ok(part.f_squeeze_dim(along)?)).collect::<Doing<Vec<_>>>()?;
        Ok(vec![Value::Sequence(dropped)])
    }))
}

pub(super) fn at(_: &Making) -> Doing<Kernel> {
    Ok(one(|inputs| {
        let list = tensors(inputs.value(0)?)?;
        let place = inputs.number(1)? as i64;
        let from_start = if place < 0 { place + list.len() as i64 } else { place };
        let found = usize::try_from(from_start).ok().and_then(|place| list.get(place));
        Ok(found.ok_or_else(|| format!("index {place} is not one of {}", list.len()))?.shallow_clone())
    }))
}

pub(super) fn construct(_: &Making) -> Doing<Kernel> {
    Ok(Box::new(|inputs| {
        let list = inputs.tensors()?.into_iter().map(Tensor::shallow_clone).collect();
        Ok(vec![Value::Sequence(list)])
    }))
}

pub(super) fn concat(making: &Making) -> Doing<Kernel> {
    let along = making.node.attributes.int("axis", 0)?;
    let new_axis = making.node.attributes.flag("new_axis", false)?;
    Ok(one(move |inputs| {
        let list = tensors(inputs.value(0)?)?;
        if !new_axis {
            return join::joined(inputs, &list.iter().collect::<Vec<_>>(), along);
        }
        let first = list.first().ok_or("has nothing to join")?;
        inputs.fits(&[&[list.len() as i64], &first.size()[..]].concat())?;
        Ok(Tensor::f_stack(list, axis(along, first.dim() + 1)?)?)
    }))
}
