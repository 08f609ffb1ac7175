//! How much of what a layer is given its inducing columns leave unexplained: the trace term of a sparse Gaussian process, as
//! something to train.

use tch::{Kind, Tensor};

use super::carried::{Carried, once};
use crate::layer::{Conv2dConfig, Factors, Operation, Taps};
use crate::weight::InducingWeight;
use crate::{Error, Result};

/// `1 − Σ‖A_c a‖²/Σ‖a‖²` over a batch and its positions, the mean over the layers that were used once. 0: the columns explain all inputs;
/// 1: none. Gradients reach the columns `A_c` alone, not the inputs, which could be made easy to explain. None without layers.
///
/// # Errors
/// When a layer is not among the factors.
pub fn unexplained(weights: &[&InducingWeight], factors: &Factors, taps: &Taps) -> Result<Option<Tensor>> {
    let mut shares = Vec::new();
    for weight in weights {
        let Some(input) = taps.input(&weight.name) else { continue };
        let Ok(operation) = once(&weight.name, taps.operation(&weight.name)) else { continue };
        let factors = factors.get(&weight.name)?;
        let (row, col) = (factors.a_row.detach(), factors.a_col.shallow_clone());
        let carried = Carried { name: weight.name.clone(), row, col, scale: 1.0 };
        let input = input.detach();
        let explained = carried.columns(&input, operation).square().sum(Kind::Float);
        let all = energy(&input, operation)?;
        shares.push((explained / all.clamp_min(1e-30)).neg() + 1.0);
    }
    if shares.is_empty() {
        return Ok(None);
    }
    Ok(Some(Tensor::stack(&shares, 0).mean(Kind::Float)))
}

/// `Σ‖a‖²` over all positions, biases' 1 included. Scalar.
fn energy(input: &Tensor, operation: Operation) -> Result<Tensor> {
    match operation {
        Operation::Linear { inputs, bias, .. } => {
            let rows = input.numel() as i64 / inputs.max(1);
            Ok(input.square().sum(Kind::Float) + if bias { rows as f64 } else { 0.0 })
        }
        Operation::Conv(Conv2dConfig { stride, padding, dilation, groups, bias, kernel, .. }) => {
            let channels = input.size()[1];
            let ones = Tensor::ones([groups, channels / groups, kernel[0], kernel[1]], (input.kind(), input.device()));
            let patches = input.square().f_conv2d(&ones, None::<Tensor>, stride, padding, dilation, groups)?; // [N, groups, H', W']
            let biases = if bias { patches.numel() as f64 } else { 0.0 };
            Ok(patches.sum(Kind::Float) + biases)
        }
        _ => Err(Error::setting("layer", "", "with a Bayesian weight must be a convolution or linear")),
    }
}
