//! Functions of every element with settings.

use tch::{Kind, Scalar, Tensor};

use super::{Kernel, Making, axis, one};
use crate::error::Doing;

pub(super) fn leaky_relu(making: &Making) -> Doing<Kernel> {
    let slope = making.node.attributes.float("alpha", 0.01)?;
    Ok(one(move |inputs| negative(inputs.tensor(0)?, |x| Ok(x.f_mul_scalar(slope)?))))
}

/// The positive part as it is, the negative one by a function.
fn negative(x: &Tensor, function: impl Fn(&Tensor) -> Doing<Tensor>) -> Doing<Tensor> {
    Ok(x.f_where_self(&x.f_ge(0)?, &function(x)?)?)
}

pub(super) fn prelu(_: &Making) -> Doing<Kernel> {
    Ok(one(|inputs| {
        let (x, slope) = (inputs.tensor(0)?, inputs.tensor(1)?);
        inputs.fits(&super::broadcast(&x.size(), &slope.size())?)?;
        negative(x, |x| Ok(x.f_mul(slope)?))
    }))
}

/// `x` where it is positive, `α (eˣ − 1)` elsewhere.
pub(super) fn elu(making: &Making) -> Doing<Kernel> {
    let alpha = making.node.attributes.float("alpha", 1.0)?;
    Ok(one(move |inputs| exponential(inputs.tensor(0)?, alpha, 1.0)))
}

/// `α (e^(x/s) − 1)` in the negative part; nothing large is raised, so that gradients stay finite.
fn exponential(x: &Tensor, alpha: f64, scale: f64) -> Doing<Tensor> {
    let below = x.f_clamp_max(0.0)?.f_div_scalar(scale)?.f_expm1()?.f_mul_scalar(alpha)?;
    Ok(x.f_where_self(&x.f_gt(0)?, &below)?)
}

pub(super) fn celu(making: &Making) -> Doing<Kernel> {
    let alpha = making.node.attributes.float("alpha", 1.0)?;
    if alpha == 0.0 {
        return Err("attribute `alpha` = 0 divides by zero".into());
    }
    Ok(one(move |inputs| exponential(inputs.tensor(0)?, alpha, alpha)))
}

pub(super) fn selu(making: &Making) -> Doing<Kernel> {
    let alpha = making.node.attributes.float("alpha", 1.673_263_242_354_377_2)?;
    let gamma = making.node.attributes.float("gamma", 1.050_700_987_355_480_5)?;
    Ok(one(move |inputs| Ok(exponential(inputs.tensor(0)?, alpha, 1.0)?.f_mul_scalar(gamma)?)))
}

/// `max(0, min(1, αx + β))`
pub(super) fn hard_sigmoid(making: &Making) -> Doing<Kernel> {
    let [alpha, beta] = [("alpha", 0.2), ("beta", 0.5)].map(|(name, value)| making.node.attributes.float(name, value));
    let (alpha, beta) = (alpha?, beta?);
    // The attribute is f32: a sixth is PyTorch's own function, which knows it exactly.
    if (alpha - 1.0 / 6.0).abs() < 1e-7 && (beta - 0.5).abs() < 1e-7 {
        return Ok(one(|inputs| Ok(inputs.tensor(0)?.f_hardsigmoid()?)));
    }
    Ok(one(move |inputs| Ok(inputs.tensor(0)?.f_mul_scalar(alpha)?.f_add_scalar(beta)?.f_clamp(0.0, 1.0)?)))
}

pub(super) fn thresholded_relu(making: &Making) -> Doing<Kernel> {
    let alpha = making.node.attributes.float("alpha", 1.0)?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        Ok(x.f_mul(&x.f_gt(alpha)?.f_to_kind(x.kind())?)?)
    }))
}

pub(super) fn gelu(making: &Making) -> Doing<Kernel> {
    let approximate = making.node.attributes.only("approximate", &["none", "tanh"])?;
    Ok(one(move |inputs| Ok(inputs.tensor(0)?.f_gelu(&approximate)?)))
}

/// `x sigmoid(αx)`
pub(super) fn swish(making: &Making) -> Doing<Kernel> {
    let alpha = making.node.attributes.float("alpha", 1.0)?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        Ok(x.f_mul(&x.f_mul_scalar(alpha)?.f_sigmoid()?)?)
    }))
}

pub(super) fn clip(_: &Making) -> Doing<Kernel> {
    Ok(one(|inputs| {
        let mut x = inputs.tensor(0)?.shallow_clone();
        let whole = !x.is_floating_point();
        let scalar = |bound: f64| if whole { Scalar::int(bound as i64) } else { Scalar::float(bound) };
        if inputs.optional(1)?.is_some() {
            x = x.f_clamp_min(scalar(inputs.number(1)?))?;
        }
        if inputs.optional(2)?.is_some() {
            x = x.f_clamp_max(scalar(inputs.number(2)?))?;
        }
        Ok(x)
    }))
}

/// Dropout of an exported network is that of evaluation: nothing.
pub(super) fn dropout(making: &Making) -> Doing<Kernel> {
    making.outputs_up_to(1)?;
    making.node.attributes.ignore("seed");
    making.node.attributes.ignore("ratio");
    Ok(one(|inputs| {
        if inputs.optional(2)?.is_some() && inputs.number(2)? != 0.0 {
            return Err("its `training_mode` is on; export the network in evaluation mode".into());
        }
        Ok(inputs.tensor(0)?.shallow_clone())
    }))
}

pub(super) fn softmax(making: &Making) -> Doing<Kernel> {
    normalised(making, |x, axis| Ok(x.f_softmax(axis, None::<Kind>)?))
}

pub(super) fn log_softmax(making: &Making) -> Doing<Kernel> {
    normalised(making, |x, axis| Ok(x.f_log_softmax(axis, None::<Kind>)?))
}

/// Up to opset 12 everything from the axis on is one axis.
fn normalised(making: &Making, function: fn(&Tensor, i64) -> Doing<Tensor>) -> Doing<Kernel> {
    if making.opset() >= 13 {
        let given = making.node.attributes.int("axis", -1)?;
        return Ok(one(move |inputs| {
            let x = inputs.tensor(0)?;
            function(x, axis(given, x.dim())?)
        }));
    }
    let given = making.node.attributes.int("axis", 1)?;
    Ok(one(move |inputs| {
        let x = inputs.tensor(0)?;
        let first = axis(given, x.dim())?;
        Ok(function(&x.f_flatten(first, -1)?, first)?.f_reshape(x.size())?)
    }))
}
