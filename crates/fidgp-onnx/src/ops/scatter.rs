//! Tensors with some of their entries replaced.

use super::{Kernel, Making, axis, one, pick};
use crate::error::Doing;

/// Entries by the places along several axes at once.
pub(super) fn scatter_nd(making: &Making) -> Doing<Kernel> {
    let add = making.node.attributes.only("reduction", &["none", "add"])? == "add";
    Ok(one(move |inputs| {
        let (x, updates) = (inputs.tensor(0)?, inputs.tensor(2)?);
        let coordinates = pick::coordinates(x, inputs.tensor(1)?)?;
        let updates = updates.f_to_device(x.device())?;
        Ok(x.f_index_put(&coordinates.into_iter().map(Some).collect::<Vec<_>>(), &updates, add)?)
    }))
}

/// Entries along one axis.
pub(super) fn scatter_elements(making: &Making) -> Doing<Kernel> {
    let along = making.node.attributes.int("axis", 0)?;
    let add = making.node.attributes.only("reduction", &["none", "add"])? == "add";
    Ok(one(move |inputs| {
        let (x, updates) = (inputs.tensor(0)?, inputs.tensor(2)?);
        let along = axis(along, x.dim())?;
        let indices = pick::places(inputs.tensor(1)?, x.size()[along as usize], x.device())?;
        let updates = updates.f_to_device(x.device())?;
        Ok(if add { x.f_scatter_add(along, &indices, &updates)? } else { x.f_scatter(along, &indices, &updates)? })
    }))
}
