//! Changes of type.

use tch::{Device, Kind, Tensor};

use super::{Context, Kernel, Making, one};
use crate::element::Element;
use crate::error::Doing;

pub(super) fn cast(making: &Making) -> Doing<Kernel> {
    let element = Element::of(i32::try_from(making.node.attributes.int("to", 0)?).unwrap_or(0))?;
    making.node.attributes.ignore("saturate"); // concerns float8 alone, which is not understood
    let kind = element.computed_in(making.context.float);
    Ok(one(move |inputs| to(inputs.tensor(0)?, kind)))
}

/// From fractions to whole numbers both cut off what stands behind the point.
fn to(x: &Tensor, kind: Kind) -> Doing<Tensor> {
    if kind == Kind::Bool { Ok(x.f_ne(0)?) } else { Ok(x.f_to_kind(kind)?) }
}

pub(super) fn cast_like(making: &Making) -> Doing<Kernel> {
    making.node.attributes.ignore("saturate");
    Ok(one(|inputs| to(inputs.tensor(0)?, inputs.tensor(1)?.kind())))
}

impl Context {
    /// A constant of the file as the network computes with it.
    pub(crate) fn constant(self, tensor: &Tensor) -> Doing<Tensor> {
        let kind = match tensor.kind() {
            Kind::Half | Kind::BFloat16 | Kind::Float => self.float,
            other => other,
        };
        Ok(tensor.f_to_kind(kind)?)
    }
}

/// A constant on the network's device. Small whole numbers stay beside the processor: they are shapes and axes.
pub(crate) fn placed(tensor: &Tensor, device: Device) -> Doing<Tensor> {
    const SMALL: usize = 64;
    let stays = !tensor.is_floating_point() && tensor.numel() <= SMALL;
    Ok(if stays { tensor.shallow_clone() } else { tensor.f_to_device(device)? })
}
