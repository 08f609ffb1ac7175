//! The numbers of a plain network that stands for a trained one: at the posterior mean, or under a draw of the weights.

use std::collections::BTreeMap;

use fidgp::Key;
use fidgp::layer::{Factors, Mode, Operation, Pass, Slot};
use fidgp::linalg::Check;
use tch::{Kind, Tensor};

use crate::error::{LabError, Result};
use crate::model::Model;
use crate::predict::Trained;

/// Variables of a plain network, by name.
pub(super) type Variables = BTreeMap<String, Tensor>;

/// Fails where no plain network stands for a trained one; `what` is asked for.
pub(super) fn check(trained: &Trained, what: &str) -> Result<()> {
    let model = &trained.model;
    if !model.network.custom().is_empty() || model.network.members() != 1 {
        let name = trained.config.method.name();
        let why =
            format!("is for plain networks and for inducing weights; the weights of method = \"{name}\" are neither");
        return Err(LabError::config(what, why));
    }
    Ok(())
}

/// What a network's weights can be.
pub(super) struct Values<'a> {
    trained: &'a Trained,
    factors: Factors,
    plain: Variables,
}

impl<'a> Values<'a> {
    pub(super) fn new(trained: &'a Trained) -> Result<Self> {
        let factors = Factors::of(&trained.model.network.inducing(), Check::Now)?;
        Ok(Self { trained, factors, plain: plain_variables(&trained.model) })
    }

    /// The posterior mean.
    pub(super) fn mean(&self) -> Result<Variables> {
        let inducing = self.trained.model.network.inducing();
        tch::no_grad(|| self.all(&Pass::mean(&inducing, &self.factors, Mode::Eval)?))
    }

    /// The draw that `fidgp predict` calls k, from 0 on, with its own BatchNorm statistics where it has some; `option` asked for it.
    pub(super) fn draw(&self, k: u64, option: &str) -> Result<Variables> {
        let model = &self.trained.model;
        let inducing = model.network.inducing();
        if inducing.iter().any(|weight| weight.draws_outputs()) {
            let why =
                "has no weights to draw where the noise is on the outputs (inducing.noise); export the posterior mean";
            return Err(LabError::config(option, why));
        }
        if !inducing.is_empty() && !model.norms.is_empty() && model.norms.len() as u64 <= k {
            let known = model.norms.len();
            let why =
                format!("asks for draw {k} (the first is 0); the BatchNorm statistics of {known} draws are known");
            return Err(LabError::config(option, why));
        }
        let key = Key::new(self.trained.config.seed).fold("predict"); // as `Trained::draws`
        tch::no_grad(|| {
            let drawn = Pass::draw_many(&inducing, &self.factors, &[key.at(k)], false)?.pop();
            let mut all = self.all(&drawn.ok_or_else(|| LabError::config(option, "gave no weights"))?)?;
            let own = model.norms.get(k as usize).filter(|_| !inducing.is_empty());
            all.extend(
                own.into_iter()
                    .flat_map(fidgp::layer::NormStatistics::named)
                    .map(|(name, held)| (name, held.shallow_clone())),
            );
            Ok(all)
        })
    }

    fn all(&self, pass: &Pass) -> Result<Variables> {
        let model = &self.trained.model;
        let mut all: Variables =
            self.plain.iter().map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect();
        let inducing = model.network.inducing();
        let mut names: Vec<_> = inducing.iter().map(|weight| weight.name.as_str()).collect();
        names.sort_unstable();
        for (name, matrix) in names.into_iter().zip(pass.weights()) {
            all.extend(matrix_parts(model, name, &matrix)?);
        }
        Ok(all)
    }

    /// Numbers that every draw has of its own, and those that all have in common.
    pub(super) fn counts(&self) -> (u64, u64) {
        let model = &self.trained.model;
        let norms: usize = model.norms.first().map_or(0, |norm| norm.named().map(|(_, held)| held.numel()).sum());
        let inducing = model.network.inducing();
        let matrices: i64 = model
            .network
            .layers()
            .iter()
            .filter(|layer| inducing.iter().any(|weight| weight.name == layer.name()))
            .map(|layer| layer.operation().parameters())
            .sum();
        let plain: usize = self.plain.values().filter(|held| held.kind() != Kind::Int64).map(Tensor::numel).sum();
        let own = matrices as u64 + norms as u64;
        (own, (plain as u64).saturating_sub(norms as u64))
    }
}

/// What inputs are normalised with; pictures are 0 to 255.
pub(super) fn normalisation(trained: &Trained) -> Result<Option<[Vec<f64>; 2]>> {
    if let Some(normalisation) = &trained.model.normalisation {
        let (mean, sd) = normalisation.statistics();
        let scaled = |values: &Tensor| Vec::<f64>::try_from(values.to_kind(Kind::Double) * 255.0);
        return Ok(Some([scaled(mean)?, scaled(sd)?]));
    }
    Ok(trained.table.as_ref().map(|table| [table.scale.feature_mean.clone(), table.scale.feature_sd.clone()]))
}

/// Variables of the network that are no parts of an inducing weight.
fn plain_variables(model: &Model) -> BTreeMap<String, Tensor> {
    let mut held = BTreeMap::new();
    let slots = model.network.slots();
    let inducing: Vec<_> =
        slots.iter().filter(|slot| matches!(slot, Slot::Inducing(_))).map(|slot| slot.name()).collect();
    let layers: Vec<_> = model.network.layers().into_iter().map(|layer| layer.name().to_owned()).collect();
    for (name, tensor) in model.store.variables() {
        // a layer may stand within another one's name: the longest is the one it belongs to
        let holds = |layer: &&String| name.strip_prefix(layer.as_str()).is_some_and(|rest| rest.starts_with('.'));
        let owner = layers.iter().filter(holds).max_by_key(|layer| layer.len());
        if model.is_of_network(&name) && !owner.is_some_and(|layer| inducing.contains(&layer.as_str())) {
            held.insert(name, tensor.detach());
        }
    }
    held
}

/// A weight matrix as the plain layer's `weight` and `bias`.
fn matrix_parts(model: &Model, layer: &str, matrix: &Tensor) -> Result<Vec<(String, Tensor)>> {
    let found = model.network.layers().into_iter().find(|one| one.name() == layer).map(fidgp::layer::Layer::operation);
    let (shape, bias) = match found {
        Some(Operation::Conv(conv)) => (conv.weight_shape().to_vec(), conv.bias),
        Some(Operation::Linear { inputs, outputs, bias }) => (vec![outputs, inputs], bias),
        _ => return Err(LabError::config(layer, "is no layer with a weight matrix")),
    };
    let columns = matrix.size()[1] - i64::from(bias);
    let weight = matrix.f_narrow(1, 0, columns)?.f_reshape(shape)?;
    let mut parts = vec![(format!("{layer}.weight"), weight)];
    if bias {
        parts.push((format!("{layer}.bias"), matrix.f_select(1, columns)?.f_contiguous()?));
    }
    Ok(parts)
}
