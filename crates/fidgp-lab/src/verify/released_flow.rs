//! The masked autoregressive flow of the released code, its spectral norms and its masks.

use fidgp::Key;
use fidgp::flow::{Flow, LinearParams, MadeDegrees, MadeFlow, MadeLayers, MadeMasks, SCALE_FLOOR};
use fidgp::spectral::{PowerState, SpectralRule, exact_norm, normalise, spectral_norm};
use tch::Tensor;

use super::case::Case;
use super::error::{Result, VerifyError};
use super::node::Node;
use super::setting::{Setting, number};

pub(super) fn check(case: &mut Case, node: &Node, _root: &Node, setting: Setting) {
    case.uses(node, &["features", "hidden", "num_blocks", "x", "layers"]);
    match Made::read(node, setting) {
        Ok(made) => made.check(case, node),
        Err(error) => case.give_up(&error, &[node]),
    }
    case.rest(node);
}

/// A flow of the file.
pub(super) struct Made<'a> {
    pub flow: MadeFlow,
    pub dim: i64,
    hidden: i64,
    layers: Vec<Layer<'a>>,
    /// Every name below `layers`.
    all: Node<'a>,
    setting: Setting,
}

/// Where a layer stands in the network: decides its mask and degrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Initial,
    Block,
    Last,
}

struct Layer<'a> {
    place: Place,
    node: Node<'a>,
    params: LinearParams,
}

impl<'a> Made<'a> {
    pub fn read(node: &Node<'a>, setting: Setting) -> Result<Self> {
        let all = node.need("layers")?;
        let initial = all.need("initial_layer")?;
        let (_, hidden, dim) = setting.matrix(&initial.need("weight_orig")?)?;
        agree(node, "features", dim)?;
        agree(node, "hidden", hidden)?;
        let places = std::iter::once((Place::Initial, initial)).chain(blocks(node, &all)?);
        let places = places.chain([(Place::Last, all.need("final_layer")?)]);
        let read = |(place, node)| Layer::read(place, node, (hidden, dim), setting);
        let layers = places.map(read).collect::<Result<Vec<_>>>()?;
        let flow = build(&layers)?;
        Ok(Self { flow, dim, hidden, layers, all, setting })
    }

    fn check(&self, case: &mut Case, node: &Node) {
        let x = || match node.need("x").and_then(|x| self.setting.matrix(&x)) {
            Ok((x, _, cols)) if cols == self.dim => Ok(x),
            Ok((_, _, cols)) => {
                Err(VerifyError::malformed(&node.path, format!("x has {cols} columns, expected {}", self.dim)))
            }
            Err(error) => Err(error),
        };
        let raw = || Ok::<_, VerifyError>(self.flow.conditioner(&x()?, None));
        let jacobian = || jacobian(&self.flow, &x()?.get(0));
        case.check(node, "eps_scale", || Ok(number(SCALE_FLOOR)));
        case.check(node, "y", || Ok(self.flow.forward(&x()?, None).value));
        case.check(node, "logabsdet", || Ok(self.flow.forward(&x()?, None).log_det));
        case.check(node, "unconstrained_scale", || Ok(raw()?.0));
        case.check(node, "shift", || Ok(raw()?.1));
        case.check(node, "scale", || Ok(self.flow.scale_and_shift(&x()?, None).0));
        case.check(node, "jacobian_row0", jacobian);
        case.check(node, "lipschitz_row0", || Ok(exact_norm(&jacobian()?)));
        for layer in &self.layers {
            self.check_layer(case, layer);
            case.uses(&self.all, &[layer.name()]);
        }
        case.rest(&self.all);
    }

    fn check_layer(&self, case: &mut Case, layer: &Layer) {
        let (node, weight) = (&layer.node, &layer.params.weight);
        case.uses(node, &["weight_orig", "u", "v", "bias"]);
        let sigma = || match &layer.params.power {
            Some(power) => Ok(spectral_norm(weight, power)),
            None => Err(VerifyError::Missing { path: format!("{}.u", node.path) }),
        };
        let mask = self.mask(layer.place);
        case.check(node, "sigma_power", sigma);
        case.check(node, "sigma_exact", || Ok(exact_norm(weight)));
        case.check(node, "sigma_masked_exact", || Ok(exact_norm(&(weight * &mask))));
        case.check(node, "weight_used", || Ok(normalise(weight, &sigma()?, SpectralRule::Compat)));
        case.check_within(node, "mask", 0.0, || Ok(mask.shallow_clone()));
        case.check_within(node, "degrees", 0.0, || Ok(Tensor::from_slice(&self.degrees(layer.place))));
        case.rest(node);
    }

    fn mask(&self, place: Place) -> Tensor {
        let MadeMasks { initial, block, last } = MadeMasks::new(self.dim, self.hidden);
        let mask = match place {
            Place::Initial => initial,
            Place::Block => block,
            Place::Last => last,
        };
        mask.to_kind(self.setting.kind()).to_device(self.setting.device)
    }

    fn degrees(&self, place: Place) -> Vec<i64> {
        let MadeDegrees { hidden, outputs, .. } = MadeDegrees::new(self.dim, self.hidden);
        if place == Place::Last { outputs } else { hidden }
    }
}

impl<'a> Layer<'a> {
    fn read(place: Place, node: Node<'a>, (hidden, dim): (i64, i64), setting: Setting) -> Result<Self> {
        let (out, input) = match place {
            Place::Initial => (hidden, dim),
            Place::Block => (hidden, hidden),
            Place::Last => (2 * dim, hidden),
        };
        let weight = setting.shaped(&node.need("weight_orig")?, &[out, input])?;
        let power = match (node.get("u"), node.get("v")) {
            (Some(u), Some(v)) => {
                PowerState { left: setting.shaped(&u, &[out])?, right: setting.shaped(&v, &[input])? }
            }
            _ => settled(&weight),
        };
        let bias = setting.shaped(&node.need("bias")?, &[out])?;
        Ok(Self { place, params: LinearParams { weight, bias, power: Some(power) }, node })
    }

    /// Its key in the file, which may itself hold dots.
    fn name(&self) -> &str {
        self.node.path.split_once(".layers.").map_or(self.node.path.as_str(), |(_, name)| name)
    }

    fn share(&self) -> LinearParams {
        let LinearParams { weight, bias, power } = &self.params;
        LinearParams {
            weight: weight.shallow_clone(),
            bias: bias.shallow_clone(),
            power: power.as_ref().map(PowerState::share),
        }
    }
}

/// A power iteration that has converged, for a file without one.
fn settled(weight: &Tensor) -> PowerState {
    let state = PowerState::draw(weight, Key::new(0));
    state.settle(weight, 0.0, 1 << 16);
    state
}

/// The layers of the residual blocks: as many as `num_blocks` says, or as there are.
fn blocks<'a>(node: &Node, all: &Node<'a>) -> Result<Vec<(Place, Node<'a>)>> {
    let name = |block: i64, layer: i64| format!("blocks.{block}.linear_layers.{layer}");
    let count = match node.get("num_blocks") {
        Some(count) => count.integer()?,
        None => (0..all.entries()?.len() as i64).take_while(|block| all.get(&name(*block, 0)).is_some()).count() as i64,
    };
    let names = (0..count).flat_map(|block| [name(block, 0), name(block, 1)]);
    names.map(|name| Ok((Place::Block, all.need(&name)?))).collect()
}

fn build(layers: &[Layer]) -> Result<MadeFlow> {
    let at = |place: Place| layers.iter().filter(move |layer| layer.place == place).map(Layer::share);
    let mut inner = at(Place::Block);
    let blocks = std::iter::from_fn(|| Some([inner.next()?, inner.next()?])).collect();
    let missing = |path: &str| VerifyError::Missing { path: path.to_owned() };
    let initial = at(Place::Initial).next().ok_or_else(|| missing("initial_layer"))?;
    let last = at(Place::Last).next().ok_or_else(|| missing("final_layer"))?;
    Ok(MadeFlow::from_layers(MadeLayers { initial, blocks, last }, SpectralRule::Compat, 0.0)?)
}

fn agree(node: &Node, key: &str, size: i64) -> Result<()> {
    let Some(said) = node.get(key) else { return Ok(()) };
    if said.integer()? == size {
        return Ok(());
    }
    Err(VerifyError::malformed(
        &said.path,
        format!("is {}, but the first layer's weight makes it {size}", said.integer()?),
    ))
}

/// ∂y/∂x at one point. `[C]` → `[C, C]`
fn jacobian(flow: &dyn Flow, x: &Tensor) -> Result<Tensor> {
    let x = x.copy().detach().set_requires_grad(true);
    let y = flow.forward(&x.unsqueeze(0), None).value.squeeze_dim(0);
    let rows = (0..y.size()[0]).map(|i| Ok(Tensor::f_run_backward(&[y.get(i)], &[&x], true, false)?.remove(0)));
    Ok(Tensor::f_stack(&rows.collect::<Result<Vec<_>>>()?, 0)?)
}
