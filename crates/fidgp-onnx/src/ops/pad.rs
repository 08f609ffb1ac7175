//! Borders around tensors.

use tch::Tensor;

use super::{Kernel, Making, axes, one};
use crate::error::Doing;

pub(super) fn pad(making: &Making) -> Doing<Kernel> {
    let mode = making.node.attributes.only("mode", &["constant", "reflect", "edge", "wrap"])?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let given = inputs.ints(1)?;
        let along = inputs.optional_ints(3)?.unwrap_or_else(|| (0..x.dim() as i64).collect());
        let along = axes(&along, x.dim())?;
        if given.len() != 2 * along.len() {
            return Err(format!("{} borders for {} axes", given.len(), along.len()).into());
        }
        let mut borders = vec![[0; 2]; x.dim()];
        for (place, axis) in along.iter().enumerate() {
            borders[*axis as usize] = [given[place], given[place + along.len()]];
        }
        let sides = |(size, [before, after]): (&i64, &[i64; 2])| size.saturating_add(*before).saturating_add(*after);
        inputs.fits(&x.size().iter().zip(&borders).map(sides).collect::<Vec<_>>())?;
        let value = if inputs.optional(2)?.is_some() { inputs.number(2)? } else { 0.0 };
        let from_last: Vec<_> = borders.iter().rev().flatten().copied().collect();
        match mode.as_str() {
            "constant" => Ok(x.f_pad(from_last, "constant", value)?),
            other => around(x, &borders, other),
        }
    }))
}

/// Borders made of the tensor itself; libtorch takes the last axes alone.
fn around(x: &Tensor, borders: &[[i64; 2]], mode: &str) -> Doing<Tensor> {
    let name = match mode {
        "edge" => "replicate",
        "wrap" => "circular",
        other => other,
    };
    let untouched = borders.iter().take_while(|border| **border == [0; 2]).count();
    let axes = borders.len() - untouched;
    if !(1..=3).contains(&axes) {
        return if axes == 0 {
            Ok(x.shallow_clone())
        } else {
            Err(format!("mode `{mode}` over {axes} axes is not understood").into())
        };
    }
    let size = x.size();
    let (outer, inner) = size.split_at(untouched);
    let flat = [&[1, outer.iter().product()], inner].concat();
    let sides: Vec<_> = borders[untouched..].iter().rev().flatten().copied().collect();
    let padded = x.f_reshape(flat)?.f_pad(sides, name, None::<f64>)?;
    Ok(padded.f_reshape([outer, &padded.size()[2..]].concat())?)
}
