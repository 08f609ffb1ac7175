//! Matrix products.

use tch::Tensor;

use super::{Inputs, Kernel, Making, broadcast, one};
use crate::error::Doing;

pub(super) fn matmul(_: &Making) -> Doing<Kernel> {
    Ok(one(|inputs| product(inputs, inputs.tensor(0)?, inputs.tensor(1)?)))
}

fn product(inputs: &Inputs, a: &Tensor, b: &Tensor) -> Doing<Tensor> {
    let (left, right) = (a.size(), b.size());
    if let ([outer_a @ .., rows, _], [outer_b @ .., _, columns]) = (&left[..], &right[..]) {
        let outer = broadcast(outer_a, outer_b)?;
        inputs.fits(&[&outer[..], &[*rows, *columns]].concat())?;
    }
    Ok(a.f_matmul(b)?)
}

/// `α A B + β C`
pub(super) fn gemm(making: &Making) -> Doing<Kernel> {
    let attributes = &making.node.attributes;
    let [alpha, beta] = ["alpha", "beta"].map(|name| attributes.float(name, 1.0));
    let (alpha, beta) = (alpha?, beta?);
    let (turn_a, turn_b) = (attributes.flag("transA", false)?, attributes.flag("transB", false)?);
    Ok(one(move |inputs| {
        let matrix = |index: usize, turn: bool| -> Doing<Tensor> {
            let x = inputs.tensor(index)?;
            if x.dim() != 2 {
                return Err(format!("input {index} has shape {:?}; it must be a matrix", x.size()).into());
            }
            Ok(if turn { x.f_transpose(0, 1)? } else { x.shallow_clone() })
        };
        let y = scaled(product(inputs, &matrix(0, turn_a)?, &matrix(1, turn_b)?)?, alpha)?;
        let Some(c) = inputs.optional(2)? else { return Ok(y) };
        if broadcast(&y.size(), &c.size())? != y.size() {
            return Err(format!("input 2 has shape {:?}, which is more than {:?}", c.size(), y.size()).into());
        }
        Ok(y.f_add(&scaled(c.shallow_clone(), beta)?)?)
    }))
}

fn scaled(x: Tensor, factor: f64) -> Doing<Tensor> {
    if (factor - 1.0).abs() < f64::EPSILON { Ok(x) } else { Ok(x.f_mul_scalar(factor)?) }
}

pub(super) fn einsum(making: &Making) -> Doing<Kernel> {
    let equation: String = making.node.attributes.text("equation", "")?.split_whitespace().collect();
    Ok(one(move |inputs| {
        let tensors = inputs.tensors()?;
        inputs.fits(&result(&equation, &tensors)?)?;
        Ok(Tensor::f_einsum(&equation, &tensors, None::<i64>)?)
    }))
}

/// The lengths of the letters of an einsum's result; dots count as every axis that has no letter.
fn result(equation: &str, tensors: &[&Tensor]) -> Doing<Vec<i64>> {
    let (terms, result) = equation.split_once("->").unwrap_or((equation, equation));
    let mut sizes = std::collections::BTreeMap::new();
    let mut dotted = Vec::new();
    for (term, tensor) in terms.split(',').zip(tensors) {
        let size = tensor.size();
        let (before, after) = term.split_once("...").unwrap_or((term, ""));
        let letters = before.chars().chain(after.chars()).count();
        if letters > size.len() {
            return Err(format!("`{term}` does not fit a tensor of shape {size:?}").into());
        }
        let inner = size.len() - after.chars().count();
        sizes.extend(before.chars().zip(&size).map(|(letter, size)| (letter, *size)));
        sizes.extend(after.chars().zip(&size[inner..]).map(|(letter, size)| (letter, *size)));
        dotted.extend(&size[before.chars().count()..inner]);
    }
    let letters: std::collections::BTreeSet<_> = result.chars().filter(|c| c.is_alphabetic()).collect();
    let dots = if result.contains("...") { dotted } else { Vec::new() };
    Ok(letters.iter().filter_map(|letter| sizes.get(letter).copied()).chain(dots).collect())
}
