//! Maxima and means over windows.

use tch::{Kind, Tensor};

use super::window::{Window, bordered, positive, sizes};
use super::{Inputs, Kernel, Making, one};
use crate::error::Doing;

/// A pool over up to three axes.
struct Pool {
    kernel: Vec<i64>,
    window: Window,
    ceil: bool,
}

impl Pool {
    fn of(making: &Making) -> Doing<Self> {
        let attributes = &making.node.attributes;
        let kernel = attributes.ints("kernel_shape")?.ok_or("its kernel_shape is missing")?;
        let axes = kernel.len();
        if !(1..=3).contains(&axes) {
            return Err(format!("a pool over {axes} axes is not understood").into());
        }
        let kernel = positive("kernel_shape", kernel, axes)?;
        Ok(Self { kernel, window: Window::of(making, axes)?, ceil: attributes.flag("ceil_mode", false)? })
    }

    /// The input and borders that libtorch can pad itself: equal ones of half the kernel at most.
    fn prepare(&self, inputs: &Inputs, x: &Tensor, value: f64) -> Doing<(Tensor, Vec<i64>)> {
        let borders = self.window.borders(&sizes(x, self.kernel.len())?, &self.kernel);
        let small = |([before, after], kernel): (&[i64; 2], &i64)| before == after && *before <= kernel / 2;
        if borders.iter().zip(&self.kernel).all(small) {
            return Ok((x.shallow_clone(), borders.iter().map(|[before, _]| *before).collect()));
        }
        if self.ceil {
            return Err(format!("ceil_mode with borders {borders:?} is not understood").into());
        }
        Ok((bordered(inputs, x, &borders, value)?, vec![0; self.kernel.len()]))
    }
}

pub(super) fn max(making: &Making) -> Doing<Kernel> {
    making.outputs_up_to(1)?;
    making.node.attributes.must_be("storage_order", 0)?;
    let pool = Pool::of(making)?;
    Ok(one(move |inputs| {
        let (x, padding) = pool.prepare(inputs, inputs.tensor(0)?, f64::NEG_INFINITY)?;
        let Pool { kernel, window: Window { strides, dilations, .. }, ceil } = &pool;
        Ok(match kernel.len() {
            1 => x.f_max_pool1d(kernel, strides, padding, dilations, *ceil)?,
            2 => x.f_max_pool2d(kernel, strides, padding, dilations, *ceil)?,
            _ => x.f_max_pool3d(kernel, strides, padding, dilations, *ceil)?,
        })
    }))
}

pub(super) fn average(making: &Making) -> Doing<Kernel> {
    let pool = Pool::of(making)?;
    let count_borders = making.node.attributes.flag("count_include_pad", false)?;
    if pool.window.dilations.iter().any(|dilation| *dilation != 1) {
        return Err("a mean with dilation is not understood".into());
    }
    Ok(one(move |inputs| {
        let given = inputs.tensor(0)?;
        let (x, padding) = pool.prepare(inputs, given, 0.0)?;
        let padded = x.size() != given.size();
        let y = mean(&x, &pool, &padding, count_borders)?;
        if !padded || count_borders {
            return Ok(y);
        }
        // how much of each window is inside
        let ones =
            bordered(inputs, &given.f_ones_like()?, &pool.window.borders(&given.size()[2..], &pool.kernel), 0.0)?;
        Ok(y.f_div(&mean(&ones, &pool, &padding, false)?)?)
    }))
}

fn mean(x: &Tensor, pool: &Pool, padding: &[i64], count_borders: bool) -> Doing<Tensor> {
    let Pool { kernel, window: Window { strides, .. }, ceil } = pool;
    Ok(match kernel.len() {
        1 => x.f_avg_pool1d(kernel, strides, padding, *ceil, count_borders)?,
        2 => x.f_avg_pool2d(kernel, strides, padding, *ceil, count_borders, None)?,
        _ => x.f_avg_pool3d(kernel, strides, padding, *ceil, count_borders, None)?,
    })
}

/// Over all of the last axes.
pub(super) fn global(making: &Making) -> Doing<Kernel> {
    let largest = making.node.operator == "GlobalMaxPool";
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let axes: Vec<_> = (2..x.dim() as i64).collect();
        if axes.is_empty() {
            return Err(format!("its input has shape {:?}; it needs three axes or more", x.size()).into());
        }
        Ok(if largest { x.f_amax(axes, true)? } else { x.f_mean_dim(axes, true, None::<Kind>)? })
    }))
}
