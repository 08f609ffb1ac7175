//! Convolutions whose kernel is any value.

use tch::Tensor;

use super::window::{Window, bordered, positive, sizes};
use super::{Inputs, Kernel, Making, one};
use crate::error::Doing;

pub(super) fn conv(making: &Making) -> Doing<Kernel> {
    let attributes = &making.node.attributes;
    let groups = attributes.int("group", 1)?;
    let kernel = attributes.ints("kernel_shape")?;
    if groups < 1 {
        return Err(format!("attribute `group` = {groups} must be positive").into());
    }
    let windows = (1..=3).map(|axes| Window::of(making, axes).ok()).collect::<Vec<_>>();
    if windows.iter().all(Option::is_none) {
        Window::of(making, 2)?;
    }
    Ok(one(move |inputs| {
        let (x, weight) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let axes = weight.dim().saturating_sub(2);
        if kernel.as_ref().is_some_and(|kernel| weight.size().get(2..) != Some(&kernel[..])) {
            return Err(format!("attribute `kernel_shape` is not that of the weight, {:?}", weight.size()).into());
        }
        let window = windows.get(axes.wrapping_sub(1)).and_then(Option::as_ref);
        let window =
            window.ok_or_else(|| format!("strides, pads and dilations do not fit a weight {:?}", weight.size()))?;
        convolve(inputs, x, weight, window, groups)
    }))
}

fn convolve(inputs: &Inputs, x: &Tensor, weight: &Tensor, window: &Window, groups: i64) -> Doing<Tensor> {
    let (axes, kernel) = (weight.dim() - 2, weight.size()[2..].to_vec());
    let sizes = sizes(x, axes)?;
    let mut borders = window.borders(&sizes, &kernel);
    let places = window.places(&sizes, &kernel, &borders);
    inputs.fits(&[&[x.size()[0], weight.size()[0]], &places[..]].concat())?;
    let mut x = x.shallow_clone();
    if borders.iter().any(|[before, after]| before != after) {
        x = bordered(inputs, &x, &borders, 0.0)?;
        borders = vec![[0; 2]; axes];
    }
    let padding: Vec<_> = borders.iter().map(|[before, _]| *before).collect();
    let none = vec![0; axes];
    let bias = inputs.optional(2)?;
    Ok(x.f_convolution(weight, bias, &window.strides, &padding, &window.dilations, false, &none, groups)?)
}

/// The geometry of a transposed convolution.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transposed {
    pub window: Window,
    pub groups: i64,
    pub output_padding: Vec<i64>,
    pub output_shape: Option<Vec<i64>>,
}

impl Transposed {
    pub(crate) fn read(attributes: &crate::attributes::Attributes, axes: usize) -> Doing<Self> {
        attributes.ignore("kernel_shape");
        let output_padding = attributes.ints("output_padding")?.unwrap_or_else(|| vec![0; axes]);
        if output_padding.len() != axes || output_padding.iter().any(|pad| !(0..1 << 20).contains(pad)) {
            return Err(format!("attribute `output_padding` = {output_padding:?} are not {axes} sizes").into());
        }
        let output_shape = attributes.ints("output_shape")?;
        let output_shape = output_shape.map(|shape| positive("output_shape", shape, axes)).transpose()?;
        let groups = attributes.int("group", 1)?;
        if groups < 1 {
            return Err(format!("attribute `group` = {groups} must be positive").into());
        }
        Ok(Self { window: Window::read(attributes, axes)?, groups, output_padding, output_shape })
    }

    /// Borders that are cut off the result. `[before, after]` for each axis
    fn cut(&self, sizes: &[i64], kernel: &[i64]) -> Doing<Vec<[i64; 2]>> {
        let Window { strides, dilations, pads } = &self.window;
        let full = |i: usize| {
            let reach = (kernel[i] - 1).saturating_mul(dilations[i]).saturating_add(1);
            (sizes[i] - 1).saturating_mul(strides[i]).saturating_add(reach).saturating_add(self.output_padding[i])
        };
        let wanted = |i: usize| match (&self.output_shape, pads) {
            (Some(shape), _) => Some(shape[i]),
            (None, super::Pads::Same { .. }) => Some(sizes[i].saturating_mul(strides[i])),
            (None, super::Pads::Given(_)) => None,
        };
        let border = |i: usize| match (wanted(i), pads) {
            (None, super::Pads::Given(pads)) => Ok(pads[i]),
            (Some(size), pads) => {
                let total = full(i) - size;
                let odd_before = matches!(pads, super::Pads::Same { odd_before: false });
                let (less, more) = (total / 2, total - total / 2);
                if total < 0 {
                    return Err(format!("its result cannot be as long as {size}").into());
                }
                Ok(if odd_before { [less, more] } else { [more, less] })
            }
            (None, super::Pads::Same { .. }) => Err("has borders that are not known".into()),
        };
        (0..kernel.len()).map(border).collect()
    }

    /// Patches added where they overlap, for inputs of these sizes.
    ///
    /// # Shapes
    /// `[N, out·places, ..]` → `[N, out, ..]`
    pub(crate) fn folded(
        &self,
        fits: &dyn Fn(&[i64]) -> Doing<()>,
        patches: &Tensor,
        sizes: &[i64],
        weight: &[i64],
    ) -> Doing<Tensor> {
        let (axes, kernel, n) = (sizes.len(), &weight[2..], patches.size()[0]);
        let (cut, channels) = (self.cut(sizes, kernel)?, weight[1].saturating_mul(self.groups));
        let Window { strides, dilations, .. } = &self.window;
        let along = |i: usize| {
            let reach = (kernel[i] - 1).saturating_mul(dilations[i]).saturating_add(1);
            (sizes[i] - 1).saturating_mul(strides[i]).saturating_add(reach)
        };
        let full: Vec<_> = (0..axes).map(along).collect();
        fits(&[&[n, channels], &full[..]].concat())?;
        let two = |list: &[i64]| if axes == 1 { vec![1, list[0]] } else { list.to_vec() };
        let flat = patches.f_reshape([n, channels * kernel.iter().product::<i64>(), -1])?;
        let y = flat.f_col2im(two(&full), two(kernel), two(dilations), [0, 0], two(strides))?;
        let y = if axes == 1 { y.f_squeeze_dim(2)? } else { y };
        let more: Vec<_> = self.output_padding.iter().rev().flat_map(|more| [0, *more]).collect();
        let y = if self.output_padding.iter().any(|more| *more > 0) { y.f_constant_pad_nd(more)? } else { y };
        cut.iter().enumerate().try_fold(y, |y, (i, [before, after])| {
            Ok(y.f_narrow(i as i64 + 2, *before, y.size()[i + 2] - before - after)?)
        })
    }

    /// # Shapes
    /// `[N, in, ..]`, weight `[in, out/groups, ..]`
    pub(crate) fn apply(
        &self,
        fits: &dyn Fn(&[i64]) -> Doing<()>,
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Doing<Tensor> {
        let (axes, kernel) = (weight.dim() - 2, weight.size()[2..].to_vec());
        let sizes = sizes(x, axes)?;
        let cut = self.cut(&sizes, &kernel)?;
        let Window { strides, dilations, .. } = &self.window;
        let along =
            |i: usize| (sizes[i] - 1).saturating_mul(strides[i]).saturating_add(kernel[i].saturating_mul(dilations[i]));
        let full: Vec<_> = (0..axes).map(|i| along(i).saturating_add(self.output_padding[i])).collect();
        let channels = weight.size()[1].saturating_mul(self.groups);
        fits(&[&[x.size()[0], channels], &full[..]].concat())?;
        let symmetric = cut.iter().all(|[before, after]| before == after);
        let padding: Vec<_> = cut.iter().map(|[before, _]| if symmetric { *before } else { 0 }).collect();
        let y = x.f_convolution(weight, bias, strides, &padding, dilations, true, &self.output_padding, self.groups)?;
        if symmetric {
            return Ok(y);
        }
        cut.iter().enumerate().try_fold(y, |y, (i, [before, after])| {
            let axis = i as i64 + 2;
            Ok(y.f_narrow(axis, *before, y.size()[i + 2] - before - after)?)
        })
    }
}

pub(super) fn transposed(making: &Making) -> Doing<Kernel> {
    let all: Vec<_> = (1..=3).map(|axes| Transposed::read(&making.node.attributes, axes).ok()).collect();
    if all.iter().all(Option::is_none) {
        Transposed::read(&making.node.attributes, 2)?;
    }
    Ok(one(move |inputs| {
        let (x, weight) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let geometry = all.get(weight.dim().wrapping_sub(3)).and_then(Option::as_ref);
        let geometry = geometry.ok_or_else(|| format!("its settings do not fit a weight {:?}", weight.size()))?;
        geometry.apply(&|shape| inputs.fits(shape), x, weight, inputs.optional(2)?)
    }))
}
