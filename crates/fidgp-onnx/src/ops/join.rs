//! Tensors put one after the other.

use tch::{Device, Tensor};

use super::{Inputs, Kernel, Making, axis, one};
use crate::error::Doing;

pub(super) fn concat(making: &Making) -> Doing<Kernel> {
    if !making.node.attributes.has("axis") {
        return Err("its axis is missing".into());
    }
    let along = making.node.attributes.int("axis", 0)?;
    Ok(one(move |inputs| joined(inputs, &inputs.tensors()?, along)))
}

/// All of them along one axis, on the network's device if one of them is.
pub(super) fn joined(inputs: &Inputs, tensors: &[&Tensor], along: i64) -> Doing<Tensor> {
    let first = tensors.first().ok_or("has nothing to join")?;
    let along = axis(along, first.dim())?;
    let lengths = tensors.iter().map(|tensor| tensor.size().get(along as usize).copied().unwrap_or(0));
    let mut shape = first.size();
    shape[along as usize] = lengths.fold(0, i64::saturating_add);
    inputs.fits(&shape)?;
    let place = tensors.iter().map(|tensor| tensor.device()).find(|device| *device != Device::Cpu);
    let moved = tensors.iter().map(|tensor| Ok(tensor.f_to_device(place.unwrap_or(Device::Cpu))?));
    Ok(Tensor::f_cat(&moved.collect::<Doing<Vec<_>>>()?, along)?)
}
