//! Functions of two tensors, or of several, that broadcast.

use tch::{Kind, TchError, Tensor};

use super::{Inputs, Kernel, Making, broadcast, one, together};
use crate::error::Doing;

type Function = fn(&Tensor, &Tensor) -> Result<Tensor, TchError>;

const FUNCTIONS: [(&str, Function); 16] = [
    ("Add", |a, b| a.f_add(b)),
    ("And", |a, b| a.f_logical_and(b)),
    ("Div", |a, b| if a.is_floating_point() { a.f_div(b) } else { whole_quotient(a, b) }),
    ("Equal", |a, b| a.f_eq_tensor(b)),
    ("Greater", |a, b| a.f_gt_tensor(b)),
    ("GreaterOrEqual", |a, b| a.f_ge_tensor(b)),
    ("Less", |a, b| a.f_lt_tensor(b)),
    ("LessOrEqual", |a, b| a.f_le_tensor(b)),
    ("Max", |a, b| a.f_maximum(b)),
    ("Min", |a, b| a.f_minimum(b)),
    ("Mul", |a, b| a.f_mul(b)),
    ("Or", |a, b| a.f_logical_or(b)),
    ("Pow", |a, b| a.f_pow(b)?.f_to_kind(a.kind())),
    ("Sub", |a, b| a.f_sub(b)),
    ("Sum", |a, b| a.f_add(b)),
    ("Xor", |a, b| a.f_logical_xor(b)),
];

/// Whole numbers divided. The smallest by −1 has no result, and the processor stops the program there: it stays as it is.
fn whole_quotient(a: &Tensor, b: &Tensor) -> Result<Tensor, TchError> {
    let (divisor, minus_one) = without_minus_one(b)?;
    let quotient = a.f_div_tensor_mode(&divisor, "trunc")?;
    quotient.f_neg()?.f_where_self(&minus_one, &quotient)
}

/// Divisors with 1 in place of −1, and where that was.
fn without_minus_one(b: &Tensor) -> Result<(Tensor, Tensor), TchError> {
    let minus_one = b.f_eq(-1)?;
    Ok((b.f_ones_like()?.f_where_self(&minus_one, b)?, minus_one))
}

pub(super) fn make(making: &Making) -> Doing<Kernel> {
    let name = &making.node.operator;
    let (_, function) = *FUNCTIONS.iter().find(|(known, _)| known == name).ok_or("is not understood")?;
    Ok(one(move |inputs| fold(inputs, function)))
}

/// From the first tensor to the last.
fn fold(inputs: &Inputs, function: Function) -> Doing<Tensor> {
    let mut result = inputs.tensor(0)?.shallow_clone();
    for index in 1..inputs.count() {
        result = apply(inputs, &result, inputs.tensor(index)?, function)?;
    }
    Ok(result)
}

fn apply(inputs: &Inputs, one: &Tensor, other: &Tensor, function: Function) -> Doing<Tensor> {
    inputs.fits(&broadcast(&one.size(), &other.size())?)?;
    if one.device() == other.device() {
        return Ok(function(one, other)?);
    }
    let (one, other) = together(one, other)?;
    Ok(function(&one, &other)?)
}

/// The average of all inputs.
pub(super) fn mean(_: &Making) -> Doing<Kernel> {
    Ok(one(|inputs| Ok(fold(inputs, tch::Tensor::f_add)?.f_div_scalar(inputs.count() as i64)?)))
}

/// The remainder with the divisor's sign, or as in C with the dividend's.
pub(super) fn modulo(making: &Making) -> Doing<Kernel> {
    let like_c = making.node.attributes.flag("fmod", false)?;
    Ok(one(move |inputs| {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        if !like_c && a.is_floating_point() {
            return Err("attribute `fmod` = 0 is for whole numbers".into());
        }
        let remainder: Function = if like_c { |a, b| a.f_fmod_tensor(b) } else { |a, b| a.f_remainder_tensor(b) };
        if a.is_floating_point() {
            return apply(inputs, a, b, remainder);
        }
        apply(inputs, a, &without_minus_one(b)?.0, remainder) // by −1 as by 1 nothing is left
    }))
}

/// One of two tensors, element by element.
pub(super) fn choose(_: &Making) -> Doing<Kernel> {
    Ok(one(|inputs| {
        let (condition, yes, no) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let shape = broadcast(&broadcast(&condition.size(), &yes.size())?, &no.size())?;
        inputs.fits(&shape)?;
        let (yes, no) = together(yes, no)?;
        let (condition, yes) = together(condition, &yes)?;
        let (no, yes) = together(&no, &yes)?;
        Ok(yes.f_where_self(&condition.f_to_device(yes.device())?.f_to_kind(Kind::Bool)?, &no)?)
    }))
}
