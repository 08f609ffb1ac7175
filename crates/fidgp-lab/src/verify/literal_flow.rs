//! The flow as the paper writes it: h ← φ(W/σ(W)·h + b).

use fidgp::flow::{Flow, Flowed, LinearParams, LipschitzFlow};
use fidgp::spectral::{SpectralRule, exact_norm, normalise};
use tch::Tensor;

use super::case::Case;
use super::error::{Result, VerifyError};
use super::node::Node;
use super::setting::Setting;

/// The slope of φ below zero.
const SLOPE: f64 = 0.5;

pub(super) fn check(case: &mut Case, node: &Node, _root: &Node, setting: Setting) {
    case.uses(node, &["phi", "x", "layers"]);
    match read(node, setting) {
        Ok(literal) => literal.check(case, node),
        Err(error) => case.give_up(&error, &[node]),
    }
    case.rest(node);
}

struct Literal<'a> {
    layers: Vec<(Node<'a>, Tensor)>,
    flow: LipschitzFlow,
    x: Tensor,
}

impl Literal<'_> {
    fn check(&self, case: &mut Case, node: &Node) {
        for (layer, weight) in &self.layers {
            case.uses(layer, &["W", "b"]);
            case.check(layer, "sigma_max", || Ok(exact_norm(weight)));
            case.rest(layer);
        }
        case.check(node, "y", || Ok(self.flowed().value));
        case.check(node, "logabsdet", || Ok(self.flowed().log_det));
    }

    /// One point or several, as the file has it.
    fn flowed(&self) -> Flowed {
        if self.x.dim() == 2 {
            return self.flow.forward(&self.x, None);
        }
        let Flowed { value, log_det } = self.flow.forward(&self.x.unsqueeze(0), None);
        Flowed { value: value.squeeze_dim(0), log_det: log_det.squeeze_dim(0) }
    }
}

fn read<'a>(node: &Node<'a>, setting: Setting) -> Result<Literal<'a>> {
    check_slope(node)?;
    let x_node = node.need("x")?;
    let x = setting.tensor(&x_node)?;
    let dim = *x
        .size()
        .last()
        .filter(|_| x.dim() <= 2)
        .ok_or_else(|| VerifyError::malformed(&x_node.path, "is no vector"))?;
    let read = |layer: Node<'a>| {
        let weight = setting.shaped(&layer.need("W")?, &[dim, dim])?;
        let bias = setting.shaped(&layer.need("b")?, &[dim])?;
        Ok(((layer, weight.shallow_clone()), literal(&weight, bias)))
    };
    let layers = node.need("layers")?.cases()?.into_iter().map(read).collect::<Result<Vec<_>>>()?;
    let (layers, params): (Vec<_>, Vec<_>) = layers.into_iter().unzip();
    Ok(Literal { layers, flow: LipschitzFlow::from_layers(params)?, x })
}

/// The paper divides by σ also where it is below 1; our flow never scales up, and leaves a weight of norm 1 alone.
fn literal(weight: &Tensor, bias: Tensor) -> LinearParams {
    LinearParams { weight: normalise(weight, &exact_norm(weight), SpectralRule::Compat), bias, power: None }
}

/// The number in `leaky relu slope 0.5`, if there is one, must be ours.
fn check_slope(node: &Node) -> Result<()> {
    let Some(phi) = node.get("phi") else { return Ok(()) };
    match phi.text()?.split_whitespace().find_map(|word| word.parse::<f64>().ok()) {
        Some(slope) if (slope - SLOPE).abs() > 0.0 => {
            Err(VerifyError::malformed(&phi.path, format!("has slope {slope}; our flow has {SLOPE}")))
        }
        _ => Ok(()),
    }
}
