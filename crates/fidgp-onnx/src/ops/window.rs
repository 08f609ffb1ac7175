//! What convolutions and pools share: a window that moves over the last axes.

use tch::Tensor;

use super::{Inputs, Making};
use crate::attributes::Attributes;
use crate::error::{Doing, Problem};

/// Stride, dilation and borders of a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    pub strides: Vec<i64>,
    pub dilations: Vec<i64>,
    pub pads: Pads,
}

/// The borders of a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pads {
    /// `[before, after]` for each axis.
    Given(Vec<[i64; 2]>),
    /// As many as give `⌈size/stride⌉` places, the odd one before or after.
    Same { odd_before: bool },
}

impl Window {
    pub(super) fn of(making: &Making, axes: usize) -> Doing<Self> {
        Self::read(&making.node.attributes, axes)
    }

    /// The window of a node over so many axes.
    pub(crate) fn read(attributes: &Attributes, axes: usize) -> Doing<Self> {
        let all = |name: &str| -> Doing<Vec<i64>> {
            let list = attributes.ints(name)?.unwrap_or_else(|| vec![1; axes]);
            positive(name, list, axes)
        };
        Ok(Self { strides: all("strides")?, dilations: all("dilations")?, pads: pads(attributes, axes)? })
    }

    /// Borders for an input. `[before, after]` for each axis
    pub(crate) fn borders(&self, sizes: &[i64], kernel: &[i64]) -> Vec<[i64; 2]> {
        match &self.pads {
            Pads::Given(pads) => pads.clone(),
            Pads::Same { odd_before } => {
                let border = |i: usize| {
                    let places = (sizes[i] + self.strides[i] - 1) / self.strides[i];
                    let reach = (kernel[i] - 1).saturating_mul(self.dilations[i]).saturating_add(1);
                    let total = ((places - 1) * self.strides[i]).saturating_add(reach).saturating_sub(sizes[i]).max(0);
                    let (less, more) = (total / 2, total - total / 2);
                    if *odd_before { [more, less] } else { [less, more] }
                };
                (0..kernel.len()).map(border).collect()
            }
        }
    }

    /// Borders that are the same before and after, whatever the input; one for each axis.
    pub(crate) fn equal_borders(&self) -> Option<Vec<i64>> {
        let Pads::Given(pads) = &self.pads else { return None };
        pads.iter().map(|[before, after]| (before == after).then_some(*before)).collect()
    }

    /// How many places the window takes along each axis.
    pub(crate) fn places(&self, sizes: &[i64], kernel: &[i64], borders: &[[i64; 2]]) -> Vec<i64> {
        let along = |i: usize| {
            let padded = sizes[i].saturating_add(borders[i][0]).saturating_add(borders[i][1]);
            let reach = (kernel[i] - 1).saturating_mul(self.dilations[i]).saturating_add(1);
            padded.saturating_sub(reach).max(-1).div_euclid(self.strides[i]) + 1
        };
        (0..kernel.len()).map(along).collect()
    }
}

fn pads(attributes: &Attributes, axes: usize) -> Doing<Pads> {
    let given = attributes.ints("pads")?;
    match attributes.only("auto_pad", &["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])?.as_str() {
        "NOTSET" => {
            let list = given.unwrap_or_else(|| vec![0; 2 * axes]);
            if list.len() != 2 * axes || list.iter().any(|pad| *pad < 0) {
                return Err(format!("attribute `pads` = {list:?} are not {} sizes", 2 * axes).into());
            }
            Ok(Pads::Given((0..axes).map(|i| [list[i], list[i + axes]]).collect()))
        }
        "VALID" => Ok(Pads::Given(vec![[0; 2]; axes])),
        same => Ok(Pads::Same { odd_before: same == "SAME_LOWER" }),
    }
}

/// Fails unless there is one positive size for each axis.
pub(super) fn positive(name: &str, list: Vec<i64>, axes: usize) -> Doing<Vec<i64>> {
    if list.len() == axes && list.iter().all(|size| (1..=1 << 20).contains(size)) {
        return Ok(list);
    }
    Err(format!("attribute `{name}` = {list:?} are not {axes} positive sizes").into())
}

/// The sizes of an input's last axes.
pub(super) fn sizes(x: &Tensor, axes: usize) -> Doing<Vec<i64>> {
    let size = x.size();
    if size.len() == axes + 2 {
        return Ok(size[2..].to_vec());
    }
    Err(Problem::from(format!("its input has shape {size:?}; it needs {} axes", axes + 2)))
}

/// An input with a border of one value.
pub(super) fn bordered(inputs: &Inputs, x: &Tensor, borders: &[[i64; 2]], value: f64) -> Doing<Tensor> {
    let size = x.size();
    let sides = |(size, [before, after]): (&i64, &[i64; 2])| size.saturating_add(*before).saturating_add(*after);
    let padded: Vec<_> = size[2..].iter().zip(borders).map(sides).collect();
    inputs.fits(&[&size[..2], &padded[..]].concat())?;
    let from_last: Vec<_> = borders.iter().rev().flatten().copied().collect();
    Ok(x.f_pad(from_last, "constant", value)?)
}
