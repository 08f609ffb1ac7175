//! The sizes every layer may have, with their parameters and what they lose.

use std::collections::{BTreeMap, HashMap};

use fidgp::layer::{LayerKind, Operation};
use fidgp_zoo::compress::{Choice, Sides, Spectrum, allocate};
use fidgp_zoo::cost::{Cost, Counting, cost};
use fidgp_zoo::{LayerPlan, RuleSlot};
use serde::Serialize;
use tch::Tensor;

use crate::config::RunConfig;
use crate::error::{LabError, Result};
use crate::model::Model;

/// For each layer the place of its choice.
pub type Sizes = Vec<usize>;

/// What became of a layer.
#[derive(Clone, Debug, Serialize)]
pub struct LayerSize {
    /// Its name.
    pub name: String,
    /// d_out and d_in.
    pub weight: [i64; 2],
    /// R = C; none where it stays plain.
    pub size: Option<i64>,
    /// Its parameters.
    pub parameters: i64,
    /// Those of the plain layer.
    pub plain_parameters: i64,
    /// What the NLL is expected to rise by, to second order.
    pub expected_loss: f64,
}

/// Every layer that may be Bayesian, and what else the network has.
#[derive(Debug)]
pub struct Candidates {
    layers: Vec<Layer>,
    /// Trainable numbers of everything else.
    others: i64,
}

#[derive(Debug)]
struct Layer {
    name: String,
    kind: LayerKind,
    weight: [i64; 2],
    bias: bool,
    shape: Vec<i64>,
    /// Plain weights last.
    choices: Vec<Choice>,
    spectrum: Spectrum,
}

/// Sizes that are tried: all small ones, then wider steps.
fn tried(most: i64) -> impl Iterator<Item = i64> {
    (1..=most).filter(move |size| *size <= 32 || (*size <= 128 && size % 4 == 0) || size % 16 == 0 || *size == most)
}

impl Candidates {
    /// The choices of every layer of a plain network that the config makes Bayesian and whose moments are known.
    pub fn of(config: &RunConfig, plain: &Model, moments: &BTreeMap<String, Sides>) -> Result<Self> {
        let (plan, variables) = (config.layer_plan(), plain.store.variables());
        let dense = cost(&plain.geometry, &LayerPlan::dense(), Counting::Ours)?;
        let widest =
            plain.geometry.iter().filter_map(fidgp_zoo::LayerGeometry::weight).map(|(out, ins)| out.min(ins)).max();
        let sized = tried(widest.unwrap_or(0));
        let sized = sized.map(|size| {
            Ok((size, cost(&plain.geometry, &plan.clone().rule("*", None, RuleSlot::Size([size; 2])), Counting::Ours)?))
        });
        let sized: Vec<(i64, Cost)> = sized.collect::<Result<_>>()?;
        let mut layers = Vec::new();
        for (place, own) in dense.layers.iter().enumerate() {
            let bayesian = sized.first().is_some_and(|(_, cost)| cost.layers[place].inducing.is_some());
            let (Some(sides), true) = (moments.get(&own.name), bayesian) else { continue };
            let (Some((d_out, d_in)), Some(kind)) = (own.geometry.weight(), own.geometry.kind()) else { continue };
            let spectrum = Spectrum::weighted(&matrix(&own.name, &variables), sides)?;
            let choice = |(size, cost): &(i64, Cost)| Choice {
                size: Some(*size),
                parameters: cost.layers[place].parameters,
                loss: spectrum.loss(*size),
            };
            let fits = |choice: &Choice| choice.parameters < own.parameters;
            let up_to = sized.iter().take_while(|(size, _)| *size <= d_out.min(d_in));
            let mut choices: Vec<_> = up_to.map(choice).take_while(fits).collect();
            choices.push(Choice { size: None, parameters: own.parameters, loss: 0.0 });
            let shape = variables[&format!("{}.weight", own.name)].size();
            let bias = matches!(own.geometry.operation, Operation::Conv(conv) if conv.bias)
                || matches!(own.geometry.operation, Operation::Linear { bias: true, .. });
            layers.push(Layer { name: own.name.clone(), kind, weight: [d_out, d_in], bias, shape, choices, spectrum });
        }
        if layers.iter().all(|layer| layer.choices.len() == 1) {
            let why = "has no layer that an inducing weight makes smaller: layers this narrow are smaller plain";
            return Err(LabError::config("inducing", why));
        }
        let counted: i64 = layers.iter().filter_map(|layer| layer.choices.last()).map(|choice| choice.parameters).sum();
        Ok(Self { layers, others: dense.parameters - counted })
    }

    /// The best sizes within so many numbers.
    pub fn by_layer(&self, most: i64) -> Result<Sizes> {
        let choices: Vec<_> = self.layers.iter().map(|layer| layer.choices.clone()).collect();
        allocate(&choices, most - self.others).ok_or_else(|| {
            let (least, plain) = (self.least_numbers(), self.plain_numbers());
            let why = format!("asks for {most} parameters; the plain network has {plain}, and {least} are the least");
            LabError::config("--budget", why)
        })
    }

    /// The largest size within so many numbers that all layers have, but those that are smaller plain.
    pub fn one_size(&self, most: i64) -> Option<Sizes> {
        let of = |size: i64| -> Sizes {
            let place = |layer: &Layer| {
                let own = size.min(layer.weight[0].min(layer.weight[1]));
                let found = layer.choices.iter().position(|choice| choice.size == Some(own));
                found.unwrap_or(layer.choices.len() - 1)
            };
            self.layers.iter().map(place).collect()
        };
        let widest = self.layers.iter().map(|layer| layer.weight[0].min(layer.weight[1])).max()?;
        let sizes: Vec<_> = tried(widest).map(of).filter(|sizes| self.numbers(sizes) <= most).collect();
        sizes.into_iter().max_by_key(|sizes| self.numbers(sizes))
    }

    pub fn dense(&self) -> Sizes {
        self.layers.iter().map(|layer| layer.choices.len() - 1).collect()
    }

    pub fn numbers(&self, sizes: &Sizes) -> i64 {
        self.others + self.picked(sizes).map(|(_, choice)| choice.parameters).sum::<i64>()
    }

    pub fn plain_numbers(&self) -> i64 {
        self.numbers(&self.dense())
    }

    pub fn least_numbers(&self) -> i64 {
        let least = |layer: &Layer| layer.choices.iter().map(|choice| choice.parameters).min().unwrap_or(0);
        self.others + self.layers.iter().map(least).sum::<i64>()
    }

    fn picked<'a>(&'a self, sizes: &'a Sizes) -> impl Iterator<Item = (&'a Layer, &'a Choice)> {
        self.layers.iter().zip(sizes).map(|(layer, place)| (layer, &layer.choices[*place]))
    }

    /// The Bayesian layers with their sizes.
    pub fn named(&self, sizes: &Sizes) -> Vec<(String, i64, LayerKind)> {
        self.picked(sizes).filter_map(|(layer, choice)| Some((layer.name.clone(), choice.size?, layer.kind))).collect()
    }

    /// What became of every layer, for the report.
    pub fn sizes(&self, sizes: &Sizes) -> Vec<LayerSize> {
        let plain = |layer: &Layer| layer.choices.last().map_or(0, |choice| choice.parameters);
        let one = |(layer, choice): (&Layer, &Choice)| LayerSize {
            name: layer.name.clone(),
            weight: layer.weight,
            size: choice.size,
            parameters: choice.parameters,
            plain_parameters: plain(layer),
            expected_loss: choice.loss,
        };
        self.picked(sizes).map(one).collect()
    }

    /// Puts the best weight of each layer's rank in place of the trained one.
    pub fn put(&self, sizes: &Sizes, dense: &mut HashMap<String, Tensor>) -> Result<()> {
        for (layer, choice) in self.picked(sizes) {
            let Some(size) = choice.size else { continue };
            let low = layer.spectrum.truncated(size)?;
            let columns = layer.weight[1] - i64::from(layer.bias);
            let weight = low.f_narrow(1, 0, columns)?.f_reshape(&layer.shape)?;
            dense.insert(format!("{}.weight", layer.name), weight);
            if layer.bias {
                dense.insert(format!("{}.bias", layer.name), low.f_select(1, columns)?);
            }
        }
        Ok(())
    }
}

/// A layer's weight as a matrix with the bias, if there is one, as its last column. `[d_out, d_in]`
fn matrix(layer: &str, variables: &HashMap<String, Tensor>) -> Tensor {
    let weight = variables[&format!("{layer}.weight")].detach().flatten(1, -1);
    match variables.get(&format!("{layer}.bias")) {
        Some(bias) => Tensor::cat(&[weight, bias.detach().unsqueeze(1)], 1),
        None => weight,
    }
}
