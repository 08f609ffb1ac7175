//! Shapes: read, changed and made.

use tch::{Device, Kind, Tensor};

use super::{Inputs, Kernel, Making, axes, axis, broadcast, one, placed};
use crate::constant;
use crate::error::Doing;
use crate::file::External;

/// The shape, or a part of it.
pub(super) fn shape(making: &Making) -> Doing<Kernel> {
    let start = making.node.attributes.int("start", 0)?;
    let end = making.node.attributes.int("end", i64::MAX)?;
    Ok(one(move |inputs| {
        let size = inputs.tensor(0)?.size();
        let rank = size.len() as i64;
        let bound = |at: i64| (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize;
        let (from, to) = (bound(start), bound(end));
        Ok(Tensor::f_from_slice(size.get(from..to).unwrap_or_default())?)
    }))
}

pub(super) fn size(_: &Making) -> Doing<Kernel> {
    Ok(one(|inputs| Ok(Tensor::f_from_slice(&[inputs.tensor(0)?.numel() as i64])?.f_reshape(&[] as &[i64])?)))
}

pub(super) fn reshape(making: &Making) -> Doing<Kernel> {
    let keeps_zero = making.node.attributes.flag("allowzero", false)?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let mut shape = inputs.ints(1)?;
        if !keeps_zero {
            for (axis, size) in shape.iter_mut().enumerate().filter(|(_, size)| **size == 0) {
                *size = *x.size().get(axis).ok_or_else(|| format!("axis {axis} of {:?} is to be kept", x.size()))?;
            }
        }
        Ok(x.f_reshape(shape)?)
    }))
}

pub(super) fn flatten(making: &Making) -> Doing<Kernel> {
    let at = making.node.attributes.int("axis", 1)?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let rank = x.dim() as i64;
        let at = if at < 0 { at + rank } else { at };
        let size = x.size();
        let Some((before, after)) = usize::try_from(at).ok().and_then(|at| size.split_at_checked(at)) else {
            return Err(format!("axis {at} is not one of {rank}").into());
        };
        Ok(x.f_reshape([before.iter().product::<i64>(), after.iter().product()])?)
    }))
}

pub(super) fn transpose(making: &Making) -> Doing<Kernel> {
    let order = making.node.attributes.ints("perm")?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let order = order.clone().unwrap_or_else(|| (0..x.dim() as i64).rev().collect());
        Ok(x.f_permute(axes(&order, x.dim())?)?)
    }))
}

/// Axes are a setting up to opset 12, an input from then on.
fn given_axes(fixed: Option<&Vec<i64>>, inputs: &Inputs) -> Doing<Option<Vec<i64>>> {
    fixed.map_or_else(|| inputs.optional_ints(1), |axes| Ok(Some(axes.clone())))
}

pub(super) fn squeeze(making: &Making) -> Doing<Kernel> {
    let fixed = making.node.attributes.ints("axes")?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let Some(given) = given_axes(fixed.as_ref(), inputs)? else { return Ok(x.f_squeeze()?) };
        let dropped = axes(&given, x.dim())?;
        if let Some(axis) = dropped.iter().find(|axis| x.size()[**axis as usize] != 1) {
            return Err(format!("axis {axis} of {:?} is not 1", x.size()).into());
        }
        let kept = x.size().into_iter().enumerate().filter(|(axis, _)| !dropped.contains(&(*axis as i64)));
        Ok(x.f_reshape(kept.map(|(_, size)| size).collect::<Vec<_>>())?)
    }))
}

pub(super) fn unsqueeze(making: &Making) -> Doing<Kernel> {
    let fixed = making.node.attributes.ints("axes")?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let given = given_axes(fixed.as_ref(), inputs)?.ok_or("its axes are missing")?;
        let mut new = axes(&given, x.dim() + given.len())?;
        new.sort_unstable();
        if new.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("its axes {given:?} name one twice").into());
        }
        new.into_iter().try_fold(x.shallow_clone(), |x, axis| Ok(x.f_unsqueeze(axis)?))
    }))
}

pub(super) fn expand(_: &Making) -> Doing<Kernel> {
    Ok(one(|inputs| {
        let x = inputs.tensor(0)?;
        let shape = broadcast(&x.size(), &inputs.ints(1)?)?;
        inputs.fits(&shape)?;
        Ok(x.f_expand(shape, false)?)
    }))
}

pub(super) fn tile(_: &Making) -> Doing<Kernel> {
    Ok(one(|inputs| {
        let (x, times) = (inputs.tensor(0)?, inputs.ints(1)?);
        if times.len() != x.dim() {
            return Err(format!("{} repeats for {} axes", times.len(), x.dim()).into());
        }
        inputs
            .fits(&x.size().iter().zip(&times).map(|(size, times)| size.saturating_mul(*times)).collect::<Vec<_>>())?;
        Ok(x.f_repeat(times)?)
    }))
}

pub(super) fn constant_of_shape(making: &Making) -> Doing<Kernel> {
    let context = making.context;
    let value = match making.node.attributes.tensor("value")? {
        Some(message) => constant::tensor(message, &mut External::none())?,
        None => Tensor::f_zeros([1], (Kind::Float, Device::Cpu))?,
    };
    if value.numel() != 1 {
        return Err(format!("attribute `value` has shape {:?}; it must be one number", value.size()).into());
    }
    let value = context.constant(&value)?.f_reshape([1])?;
    Ok(one(move |inputs| {
        let shape = inputs.ints(0)?;
        inputs.fits(&shape)?;
        placed(&value.f_expand(&shape, false)?.f_contiguous()?, inputs.device)
    }))
}

pub(super) fn range(_: &Making) -> Doing<Kernel> {
    Ok(one(|inputs| {
        let [start, end, step] = [0, 1, 2].map(|index| inputs.number(index));
        let (start, end, step) = (start?, end?, step?);
        let like = inputs.tensor(0)?;
        let count = ((end - start) / step).ceil();
        if !count.is_finite() {
            return Err(format!("from {start} to {end} in steps of {step} there is no end").into());
        }
        inputs.fits(&[count.max(0.0) as i64])?;
        let counted = Tensor::f_arange(count.max(0.0) as i64, (Kind::Double, like.device()))?;
        Ok(counted.f_mul_scalar(step)?.f_add_scalar(start)?.f_to_kind(like.kind())?)
    }))
}

/// A constant that is a number or a list.
pub(super) fn constant(making: &Making) -> Doing<Kernel> {
    let (attributes, context) = (&making.node.attributes, making.context);
    let tensor = if let Some(message) = attributes.tensor("value")? {
        constant::tensor(message, &mut External::none())?
    } else if let Some(list) = attributes.ints("value_ints")? {
        Tensor::f_from_slice(&list)?
    } else if let Some(list) = attributes.floats("value_floats")? {
        Tensor::f_from_slice(&list)?
    } else if attributes.has("value_int") {
        Tensor::f_from_slice(&[attributes.int("value_int", 0)?])?.f_reshape(&[] as &[i64])?
    } else if attributes.has("value_float") {
        Tensor::f_from_slice(&[attributes.float("value_float", 0.0)?])?
            .f_to_kind(Kind::Float)?
            .f_reshape(&[] as &[i64])?
    } else {
        return Err("has no value that is understood: a tensor or numbers".into());
    };
    let tensor = context.constant(&tensor)?;
    Ok(one(move |inputs| placed(&tensor, inputs.device)))
}

/// Ones on a diagonal.
pub(super) fn eye_like(making: &Making) -> Doing<Kernel> {
    let attributes = &making.node.attributes;
    attributes.must_be("k", 0)?;
    let element = match attributes.int("dtype", 0)? {
        0 => None,
        number => Some(crate::element::Element::of(i32::try_from(number).unwrap_or(-1))?),
    };
    let float = making.context.float;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let [rows, columns] = x.size()[..] else { return Err("takes a matrix".into()) };
        let kind = element.map_or(x.kind(), |element| element.computed_in(float));
        inputs.fits(&[rows, columns])?;
        Ok(Tensor::f_eye_m(rows, columns, (kind, x.device()))?)
    }))
}

/// The part of a matrix above or below a diagonal.
pub(super) fn triangle(making: &Making) -> Doing<Kernel> {
    let upper = making.node.attributes.flag("upper", true)?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let k = if inputs.optional(1)?.is_some() { inputs.number(1)? as i64 } else { 0 };
        Ok(if upper { x.f_triu(k)? } else { x.f_tril(k)? })
    }))
}

/// Sides whose square is a number.
fn check_block(block: i64) -> Doing<()> {
    if (1..=1 << 16).contains(&block) {
        return Ok(());
    }
    Err(format!("attribute `blocksize` = {block} must be between 1 and 65536").into())
}

/// Blocks of pixels become channels, or the other way round.
pub(super) fn depth_to_space(making: &Making) -> Doing<Kernel> {
    let block = making.node.attributes.int("blocksize", 0)?;
    let columns_first = making.node.attributes.only("mode", &["DCR", "CRD"])? == "CRD";
    check_block(block)?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let [n, c, h, w] = x.size()[..] else { return Err("takes images [N, C, H, W]".into()) };
        if c < 1 || c % (block * block) != 0 {
            return Err(format!("{c} channels are not blocks of {block}×{block}").into());
        }
        let inner = c / (block * block);
        let (split, order) = if columns_first {
            ([n, inner, block, block, h, w], [0, 1, 4, 2, 5, 3])
        } else {
            ([n, block, block, inner, h, w], [0, 3, 4, 1, 5, 2])
        };
        Ok(x.f_reshape(split)?.f_permute(order)?.f_reshape([n, inner, h * block, w * block])?)
    }))
}

pub(super) fn space_to_depth(making: &Making) -> Doing<Kernel> {
    let block = making.node.attributes.int("blocksize", 0)?;
    check_block(block)?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let [n, c, h, w] = x.size()[..] else { return Err("takes images [N, C, H, W]".into()) };
        let blocks = x.f_reshape([n, c, h / block, block, w / block, block])?.f_permute([0, 3, 5, 1, 2, 4])?;
        Ok(blocks.f_reshape([n, c.saturating_mul(block * block), h / block, w / block])?)
    }))
}

/// 1 at every index, 0 elsewhere, or two other numbers.
pub(super) fn one_hot(making: &Making) -> Doing<Kernel> {
    let at = making.node.attributes.int("axis", -1)?;
    Ok(one(move |inputs| {
        let (indices, depth) = (inputs.tensor(0)?, inputs.number(1)? as i64);
        if depth < 1 {
            return Err(format!("its depth is {depth}; it must be at least 1").into());
        }
        let (values, at) = (inputs.tensor(2)?, axis(at, indices.dim() + 1)?);
        let mut shape = indices.size();
        shape.insert(at as usize, depth);
        inputs.fits(&shape)?;
        let indices = indices.f_to_kind(Kind::Int64)?.f_to_device(values.device())?;
        let counted = indices.f_remainder(depth)?.f_unsqueeze(at)?;
        let mut classes = vec![1; shape.len()];
        classes[at as usize] = depth;
        let all = Tensor::f_arange(depth, (Kind::Int64, values.device()))?.f_reshape(classes)?;
        Ok(values.f_select(0, 1)?.f_where_self(&all.f_eq_tensor(&counted)?, &values.f_select(0, 0)?)?)
    }))
}
