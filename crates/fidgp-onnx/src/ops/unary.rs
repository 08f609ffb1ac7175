//! One tensor in, one of the same shape out, without settings.

use tch::{TchError, Tensor};

use super::{Kernel, Making, one};
use crate::error::Doing;

type Function = fn(&Tensor) -> Result<Tensor, TchError>;

const FUNCTIONS: [(&str, Function); 32] = [
    ("Abs", Tensor::f_abs),
    ("Acos", Tensor::f_acos),
    ("Acosh", Tensor::f_acosh),
    ("Asin", Tensor::f_asin),
    ("Asinh", Tensor::f_asinh),
    ("Atan", Tensor::f_atan),
    ("Atanh", Tensor::f_atanh),
    ("Ceil", Tensor::f_ceil),
    ("Cos", Tensor::f_cos),
    ("Cosh", Tensor::f_cosh),
    ("Erf", Tensor::f_erf),
    ("Exp", Tensor::f_exp),
    ("Floor", Tensor::f_floor),
    ("HardSwish", Tensor::f_hardswish),
    ("Identity", |x| Ok(x.shallow_clone())),
    ("IsNaN", Tensor::f_isnan),
    ("Log", Tensor::f_log),
    ("Mish", Tensor::f_mish),
    ("Neg", Tensor::f_neg),
    ("Not", Tensor::f_logical_not),
    ("Reciprocal", Tensor::f_reciprocal),
    ("Relu", Tensor::f_relu),
    ("Round", Tensor::f_round),
    ("Sigmoid", Tensor::f_sigmoid),
    ("Sign", Tensor::f_sign),
    ("Sin", Tensor::f_sin),
    ("Sinh", Tensor::f_sinh),
    ("Softplus", Tensor::f_softplus),
    ("Softsign", |x| x.f_div(&(x.f_abs()?.f_add_scalar(1.0)?))),
    ("Sqrt", Tensor::f_sqrt),
    ("Tan", Tensor::f_tan),
    ("Tanh", Tensor::f_tanh),
];

pub(super) fn make(making: &Making) -> Doing<Kernel> {
    let name = &making.node.operator;
    let (_, function) = *FUNCTIONS.iter().find(|(known, _)| known == name).ok_or("is not understood")?;
    Ok(one(move |inputs| Ok(function(inputs.tensor(0)?)?)))
}
