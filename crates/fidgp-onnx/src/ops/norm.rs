//! Normalisations whose scale and shift are any values.

use tch::{Kind, Tensor};

use super::{Kernel, Making, axis, one};
use crate::error::Doing;

/// With the statistics of the file, or those of what it is given.
pub(super) fn batch(making: &Making) -> Doing<Kernel> {
    making.outputs_up_to(1)?;
    let attributes = &making.node.attributes;
    let epsilon = attributes.float("epsilon", 1e-5)?;
    attributes.ignore("momentum");
    let of_batch = attributes.flag("training_mode", false)?;
    Ok(one(move |inputs| {
        let [scale, shift, mean, var] = [1, 2, 3, 4].map(|index| inputs.tensor(index));
        let x = inputs.tensor(0)?;
        let channels = x.size().get(1).copied().unwrap_or(0);
        if [&scale, &shift, &mean, &var].iter().any(|one| one.as_ref().is_ok_and(|one| one.size() != [channels])) {
            return Err(format!(
                "its input has shape {:?}, its statistics are of another number of channels",
                x.size()
            )
            .into());
        }
        if !of_batch
            && (mean.as_ref().is_ok_and(|mean| mean.requires_grad())
                || var.as_ref().is_ok_and(|var| var.requires_grad()))
        {
            return by_formula(x, [scale?, shift?, mean?, var?], epsilon);
        }
        let (mean, var) = if of_batch { (None, None) } else { (Some(mean?), Some(var?)) };
        Ok(x.f_batch_norm(Some(scale?), Some(shift?), mean, var, of_batch, 0.0, epsilon, true)?)
    }))
}

/// libtorch's own function takes statistics as they are, and no gradient goes through them.
fn by_formula(x: &Tensor, numbers: [&Tensor; 4], epsilon: f64) -> Doing<Tensor> {
    let mut shape = vec![1; x.dim()];
    shape[1] = -1;
    let along = |number: &Tensor| number.f_reshape(&shape);
    let [scale, shift, mean, var] = numbers.map(along);
    let factor = scale?.f_mul(&var?.f_add_scalar(epsilon)?.f_rsqrt()?)?;
    Ok(x.f_sub(&mean?)?.f_mul(&factor)?.f_add(&shift?)?)
}

pub(super) fn layer(making: &Making) -> Doing<Kernel> {
    making.outputs_up_to(1)?;
    let attributes = &making.node.attributes;
    let (first, epsilon) = (attributes.int("axis", -1)?, attributes.float("epsilon", 1e-5)?);
    attributes.must_be("stash_type", 1)?;
    Ok(one(move |inputs| {
        let (x, scale, shift) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.optional(2)?);
        let size = x.size();
        let over = &size[axis(first, x.dim())? as usize..];
        if scale.size() == over && shift.is_none_or(|shift| shift.size() == over) {
            return Ok(x.f_layer_norm(over, Some(scale), shift, epsilon, true)?);
        }
        inputs.fits(&super::broadcast(&size, &scale.size())?)?;
        let y = x.f_layer_norm(over, None::<&Tensor>, None, epsilon, true)?.f_mul(scale)?;
        shift.map_or_else(|| Ok(y.shallow_clone()), |shift| Ok(y.f_add(shift)?))
    }))
}

/// `x/√(mean(x²) + ε) · γ`
pub(super) fn root_mean_square(making: &Making) -> Doing<Kernel> {
    let attributes = &making.node.attributes;
    let (first, epsilon) = (attributes.int("axis", -1)?, attributes.float("epsilon", 1e-5)?);
    attributes.must_be("stash_type", 1)?;
    Ok(one(move |inputs| {
        let (x, scale) = (inputs.tensor(0)?, inputs.tensor(1)?);
        inputs.fits(&super::broadcast(&x.size(), &scale.size())?)?;
        let over: Vec<_> = (axis(first, x.dim())?..x.dim() as i64).collect();
        let mean = x.f_square()?.f_mean_dim(over, true, None::<Kind>)?;
        Ok(x.f_mul(&mean.f_add_scalar(epsilon)?.f_rsqrt()?)?.f_mul(scale)?)
    }))
}

/// Every example and channel by itself.
pub(super) fn instance(making: &Making) -> Doing<Kernel> {
    let epsilon = making.node.attributes.float("epsilon", 1e-5)?;
    Ok(one(move |inputs| {
        let (x, scale, shift) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let none = None::<&Tensor>;
        Ok(x.f_instance_norm(Some(scale), Some(shift), none, none, true, 0.0, epsilon, true)?)
    }))
}

/// Groups of channels; before opset 21 scale and shift are one number for each group.
pub(super) fn group(making: &Making) -> Doing<Kernel> {
    let attributes = &making.node.attributes;
    let (groups, epsilon) = (attributes.int("num_groups", 0)?, attributes.float("epsilon", 1e-5)?);
    attributes.must_be("stash_type", 1)?;
    let by_group = making.opset() < 21;
    if groups < 1 {
        return Err("attribute `num_groups` must be positive".into());
    }
    Ok(one(move |inputs| {
        let (x, scale, shift) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let channels = x.size().get(1).copied().unwrap_or(0);
        let each = |one: &Tensor| -> Doing<Tensor> {
            let times = if by_group { channels / groups } else { 1 };
            Ok(one.f_repeat_interleave_self_int(times, 0, None)?)
        };
        Ok(x.f_group_norm(groups, Some(&each(scale)?), Some(&each(shift)?), epsilon, true)?)
    }))
}
