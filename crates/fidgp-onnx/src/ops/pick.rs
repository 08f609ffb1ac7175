//! Parts of tensors.

use tch::{Device, Kind, Tensor};

use super::{Kernel, Making, Value, axes, axis, one};
use crate::error::Doing;

/// From a start to an end in steps, along several axes.
pub(super) fn slice(_: &Making) -> Doing<Kernel> {
    Ok(one(|inputs| {
        let (starts, ends) = (inputs.ints(1)?, inputs.ints(2)?);
        let along = inputs.optional_ints(3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = inputs.optional_ints(4)?.unwrap_or_else(|| vec![1; starts.len()]);
        if [ends.len(), along.len(), steps.len()].iter().any(|count| *count != starts.len()) {
            return Err("its starts, ends, axes and steps are not equally many".into());
        }
        let mut x = inputs.tensor(0)?.shallow_clone();
        let along = axes(&along, x.dim())?;
        for (((axis, start), end), step) in along.into_iter().zip(starts).zip(ends).zip(steps) {
            x = cut(&x, axis, [start, end, step])?;
        }
        Ok(x)
    }))
}

/// A negative step counts from the end.
fn cut(x: &Tensor, axis: i64, [start, end, step]: [i64; 3]) -> Doing<Tensor> {
    let size = x.size()[axis as usize];
    let from_start = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
    match step {
        0 => Err("a step of 0 does not move".into()),
        1.. => Ok(x.f_slice(axis, from_start(start).clamp(0, size), from_start(end).clamp(0, size), step)?),
        _ => {
            let (first, last) = (from_start(start).clamp(-1, size - 1), from_start(end).clamp(-1, size - 1));
            let (from, to) = (size - 1 - first, size - 1 - last);
            Ok(x.f_flip(axis)?.f_slice(axis, from, to.max(from), step.saturating_neg())?)
        }
    }
}

/// Entries along one axis, by their places.
pub(super) fn gather(making: &Making) -> Doing<Kernel> {
    let along = making.node.attributes.int("axis", 0)?;
    Ok(one(move |inputs| {
        let (x, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let along = axis(along, x.dim())?;
        let size = x.size();
        let (before, after) = (&size[..along as usize], &size[along as usize + 1..]);
        let shape = [before, &indices.size(), after].concat();
        inputs.fits(&shape)?;
        if indices.numel() == 1 && indices.kind() == Kind::Int64 && indices.device() == Device::Cpu {
            let place = from_start(inputs.number(1)? as i64, size[along as usize])?;
            return Ok(x.f_narrow(along, place, 1)?.f_reshape(shape)?);
        }
        let flat = places(indices, size[along as usize], x.device())?.f_reshape([-1])?;
        Ok(x.f_index_select(along, &flat)?.f_reshape(shape)?)
    }))
}

fn from_start(place: i64, size: i64) -> Doing<i64> {
    let found = if place < 0 { place.saturating_add(size) } else { place };
    if (0..size).contains(&found) { Ok(found) } else { Err(format!("index {place} is not one of {size}").into()) }
}

/// Places that may be counted from the end.
pub(super) fn places(indices: &Tensor, size: i64, device: Device) -> Doing<Tensor> {
    if !matches!(indices.kind(), Kind::Int64 | Kind::Int) {
        return Err(format!("its indices are {:?}, not whole numbers", indices.kind()).into());
    }
    let indices = indices.f_to_kind(Kind::Int64)?.f_to_device(device)?;
    Ok(indices.f_where_self(&indices.f_ge(0)?, &indices.f_add_scalar(size)?)?)
}

pub(super) fn gather_elements(making: &Making) -> Doing<Kernel> {
    let along = making.node.attributes.int("axis", 0)?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let along = axis(along, x.dim())?;
        let indices = places(inputs.tensor(1)?, x.size()[along as usize], x.device())?;
        Ok(x.f_gather(along, &indices, false)?)
    }))
}

/// Entries by the places along several axes at once.
pub(super) fn gather_nd(making: &Making) -> Doing<Kernel> {
    making.node.attributes.must_be("batch_dims", 0)?;
    Ok(one(|inputs| {
        let (x, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let coordinates = coordinates(x, indices)?;
        let size = x.size();
        let shape = [&indices.size()[..indices.dim() - 1], &size[coordinates.len()..]].concat();
        inputs.fits(&shape)?;
        Ok(x.f_index(&coordinates.into_iter().map(Some).collect::<Vec<_>>())?)
    }))
}

/// The last axis of indices has one place for each of the first axes of a tensor.
pub(super) fn coordinates(x: &Tensor, indices: &Tensor) -> Doing<Vec<Tensor>> {
    let count = indices.size().last().copied().unwrap_or(0);
    if count < 1 || count > x.dim() as i64 {
        return Err(format!("indices of shape {:?} do not go with {:?}", indices.size(), x.size()).into());
    }
    (0..count).map(|axis| places(&indices.f_select(-1, axis)?, x.size()[axis as usize], x.device())).collect()
}

/// Parts of given or of equal length.
pub(super) fn split(making: &Making) -> Doing<Kernel> {
    let attributes = &making.node.attributes;
    let (along, fixed) = (attributes.int("axis", 0)?, attributes.ints("split")?);
    let count = attributes.int("num_outputs", making.outputs() as i64)?;
    if count != making.outputs() as i64 {
        return Err(format!("makes {count} parts but has {} outputs", making.outputs()).into());
    }
    Ok(Box::new(move |inputs| {
        let x = inputs.tensor(0)?;
        let along = axis(along, x.dim())?;
        let given = if fixed.is_some() { fixed.clone() } else { inputs.optional_ints(1)? };
        let parts = given.map_or_else(|| equal_parts(x.size()[along as usize], count), Ok)?;
        if parts.len() as i64 != count {
            return Err(format!("{} lengths for {count} outputs", parts.len()).into());
        }
        Ok(x.f_split_with_sizes(parts, along)?.into_iter().map(Value::Tensor).collect())
    }))
}

/// All of equal length, the last one shorter where it does not come out even.
pub(super) fn equal_parts(size: i64, count: i64) -> Doing<Vec<i64>> {
    if count < 1 {
        return Err("has no outputs".into());
    }
    let length = (size + count - 1) / count;
    let last = size - length * (count - 1);
    if last < 0 {
        return Err(format!("{size} cannot be split into {count}").into());
    }
    Ok((1..count).map(|_| length).chain([last]).collect())
}

/// The largest or smallest entries and their places.
pub(super) fn top_k(making: &Making) -> Doing<Kernel> {
    let attributes = &making.node.attributes;
    let (along, largest) = (attributes.int("axis", -1)?, attributes.flag("largest", true)?);
    let sorted = attributes.flag("sorted", true)?;
    Ok(Box::new(move |inputs| {
        let x = inputs.tensor(0)?;
        let (values, places) = x.f_topk(inputs.number(1)? as i64, axis(along, x.dim())?, largest, sorted)?;
        Ok(vec![Value::Tensor(values), Value::Tensor(places)])
    }))
}
