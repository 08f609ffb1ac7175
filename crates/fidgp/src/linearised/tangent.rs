//! A network linearised at the centre of its posterior.

use std::ops::Range;

use tch::{Kind, Tensor};

use super::Jacobian;
use super::carried::{Carried, once};
use crate::conditional::Conditional;
use crate::layer::{Factors, Mode, Network, Operation, Pass, Taps};
use crate::linalg::Check;
use crate::{Error, Result};

/// What W given U adds to the variance of the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnConditional {
    /// Nothing: the posterior is on the inducing matrices alone.
    Dropped,
    /// `λ²σ_p²(‖G‖² − ‖A_r G A_cᵀ‖²)` for every layer, G the gradient by its weights: the conditional as it was trained
    /// (Matheron; Reparam's is isotropic, `λ²σ_p²‖G‖²`).
    Kept,
}

/// Numbers in the Jacobians that are held at once: 256 MiB in f64.
const NUMBERS_AT_ONCE: i64 = 1 << 25;

/// What is linear in what is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directions {
    /// The inducing matrices: derivatives of every output, a backward pass for each.
    #[default]
    Gradients,
    /// A readout of every layer's pooled inducing features `A_c a`, each of length 1, onto every output alike: no backward
    /// pass. Unusual inputs have *smaller* gradients in deep networks for images; their features point elsewhere.
    Features,
}

/// The centre of a network's posterior, its weights and factors, apart from the network.
#[derive(Debug)]
pub struct Centre {
    pass: Pass,
    weights: Vec<Tensor>,
    layers: Vec<Carried>,
    /// λ² of each layer, and whether its noise is that of the exact conditional.
    noise: Vec<(f64, bool)>,
    energy: f64,
}

/// A network with its inducing matrices at the centre m of q, and what is needed to differentiate by them.
#[derive(Debug)]
pub struct Tangent<'a> {
    network: &'a dyn Network,
    centre: Centre,
    /// What is linear.
    pub directions: Directions,
    /// What the conditional adds.
    pub conditional: OwnConditional,
    /// The type in which the network computes; that of its parameters when `None`.
    pub compute: Option<Kind>,
    /// What the network divides its outputs by: what features add is divided by it too, as gradients are by themselves.
    pub temperature: f64,
}

/// Outputs of some inputs and their derivatives.
#[derive(Debug)]
pub struct Linearised {
    /// `f_m(x)`. `[N, K]`
    pub outputs: Tensor,
    /// ∂f/∂V.
    pub jacobian: Jacobian,
    /// Covariance that the conditional adds, where it is kept. `[N, K, K]`
    pub conditional: Option<Tensor>,
}

impl<'a> Tangent<'a> {
    /// Linearises in the inducing matrices of the named layers, of all where none is named.
    ///
    /// # Errors
    /// When there is no such layer, a covariance cannot be factorised, or a weight is not finite; the error names the layer.
    pub fn at_centre(network: &'a dyn Network, layers: &[String]) -> Result<Self> {
        let weights = network.inducing();
        let chosen = |name: &String| layers.is_empty() || layers.contains(name);
        if let Some(missing) = layers.iter().find(|layer| weights.iter().all(|weight| weight.name != **layer)) {
            let known: Vec<_> = weights.iter().map(|weight| weight.name.as_str()).collect();
            return Err(Error::setting(
                "layers",
                missing,
                format!("is no inducing layer; there are {}", known.join(", ")),
            ));
        }
        if weights.is_empty() {
            return Err(Error::setting(
                "network",
                "plain",
                "has no inducing layer: a linearised posterior needs at least one",
            ));
        }
        tch::no_grad(|| {
            let factors = Factors::of(&weights, Check::Now)?;
            weights.iter().try_for_each(|weight| weight.check_finite(&factors.get(&weight.name)?))?;
            let centre = Pass::mean(&weights, &factors, Mode::Eval)?;
            let (mut carried, mut noise, mut energy) = (Vec::new(), Vec::new(), 0.0);
            for weight in weights.iter().filter(|weight| chosen(&weight.name)) {
                let lambda = weight.conditional_scale.value().double_value(&[]);
                noise.push((lambda * lambda, weight.config.conditional == Conditional::Matheron));
                carried.push(Carried::of(weight, &factors)?);
                let v = weight.posterior.centre(&factors.get(&weight.name)?);
                energy += v.to_kind(Kind::Double).square().sum(Kind::Double).double_value(&[]);
            }
            let weights = centre.weights().collect();
            Ok(Self::with(network, Centre { pass: centre, weights, layers: carried, noise, energy }))
        })
    }

    /// The same network with what was made for it before.
    pub fn with(network: &'a dyn Network, centre: Centre) -> Self {
        let (directions, conditional) = (Directions::Gradients, OwnConditional::Dropped);
        Self { network, centre, directions, conditional, compute: None, temperature: 1.0 }
    }

    /// What was made for the network, to be kept.
    pub fn into_centre(self) -> Centre {
        self.centre
    }

    /// D, the numbers in all its inducing matrices, or in the features of all layers.
    pub fn size(&self) -> i64 {
        self.centre.layers.iter().map(|layer| self.sides(layer).iter().product::<i64>()).sum()
    }

    /// Rows and columns of a layer's part of a Jacobian.
    pub(super) fn sides(&self, layer: &Carried) -> [i64; 2] {
        match self.directions {
            Directions::Gradients => [layer.row.size()[0], layer.col.size()[0]],
            Directions::Features => [1, layer.col.size()[0]],
        }
    }

    /// Rows of a Jacobian at an input, of a network of K outputs.
    pub(super) fn rows(&self, outputs: i64) -> i64 {
        if self.directions == Directions::Features { 1 } else { outputs }
    }

    /// Its layers.
    pub fn layers(&self) -> &[Carried] {
        &self.centre.layers
    }

    /// The weights of all inducing layers at the centre. `[d_out, d_in]` each
    pub fn weights(&self) -> &[Tensor] {
        &self.centre.weights
    }

    /// `‖m‖²`; features are read out with nothing at the centre.
    pub fn energy(&self) -> f64 {
        if self.directions == Directions::Features { 0.0 } else { self.centre.energy }
    }

    /// Outputs at the centre. `[N, ..]` → `[N, K]`
    ///
    /// # Errors
    /// When the inputs do not fit the network.
    pub fn outputs(&self, x: &Tensor) -> Result<Tensor> {
        let mut pass = self.centre.pass.with_weights(&self.centre.weights).computing_in(self.compute);
        tch::no_grad(|| self.network.forward(x, &mut pass))
    }

    /// Linearises at some inputs, a few of them at a time; `each` is told the row of the first of them.
    ///
    /// # Shapes
    /// `[N, ..]`
    ///
    /// # Errors
    /// When the inputs do not fit the network, its outputs are no rows of numbers, or a layer is used twice.
    pub fn each(&self, x: &Tensor, mut each: impl FnMut(i64, Linearised) -> Result<()>) -> Result<()> {
        if self.directions == Directions::Features {
            return tch::no_grad(|| each(0, self.featured(x)?));
        }
        let recorded = self.record(x)?;
        let (rows, outputs) = (recorded.outputs.size()[0], recorded.outputs.size()[1]);
        let at_once = (NUMBERS_AT_ONCE / (self.size() * outputs).max(1)).max(1);
        tch::no_grad(|| {
            (0..rows).step_by(at_once as usize).try_for_each(|start| {
                let part = start..rows.min(start + at_once);
                each(start, self.linearised(&recorded, part))
            })
        })
    }

    /// One forward pass: the features of every layer, averaged over positions, of length 1.
    fn featured(&self, x: &Tensor) -> Result<Linearised> {
        let names: Vec<&str> = self.centre.layers.iter().map(|layer| layer.name.as_str()).collect();
        let pass = self.centre.pass.with_weights(&self.centre.weights).with_taps(Taps::on(&names));
        let mut pass = pass.computing_in(self.compute);
        let outputs = rows_of_numbers(self.network.forward(x, &mut pass)?, x)?;
        let feature = |layer: &Carried| {
            let operation = once(&layer.name, pass.taps.operation(&layer.name))?;
            let input =
                pass.taps.input(&layer.name).ok_or_else(|| Error::setting("layer", &layer.name, "has no input"))?;
            let pooled = layer.columns(input, operation).mean_dim(1, false, Kind::Double); // [N, C]
            let length =
                pooled.square().sum_dim_intlist(1, true, Kind::Double).sqrt().clamp_min(f64::MIN_POSITIVE.sqrt());
            Ok((pooled / length).unsqueeze(1).unsqueeze(1)) // [N, 1, 1, C]
        };
        let layers = self.centre.layers.iter().map(feature).collect::<Result<_>>()?;
        let shares = Some((&outputs * self.temperature).softmax(-1, Kind::Double));
        Ok(Linearised { outputs, jacobian: Jacobian { layers, shares }, conditional: None })
    }

    /// One forward pass, and a backward pass for each output.
    fn record(&self, x: &Tensor) -> Result<Recorded> {
        let names: Vec<&str> = self.centre.layers.iter().map(|layer| layer.name.as_str()).collect();
        tch::with_grad(|| {
            let x = x.detach().set_requires_grad(true); // all that follows is then differentiable, parameters or not
            let pass = self.centre.pass.with_weights(&self.centre.weights).with_taps(Taps::on(&names));
            let mut pass = pass.computing_in(self.compute);
            let outputs = rows_of_numbers(self.network.forward(&x, &mut pass)?, &x)?;
            let operations: Vec<_> =
                names.iter().map(|name| once(name, pass.taps.operation(name))).collect::<Result<_>>()?;
            let features: Vec<_> = names.iter().filter_map(|name| pass.taps.feature(name)).collect();
            let mut gradients: Vec<Vec<Tensor>> = names.iter().map(|_| Vec::new()).collect();
            for k in 0..outputs.size()[1] {
                let one = outputs.select(1, k).sum(outputs.kind());
                for (own, gradient) in
                    gradients.iter_mut().zip(Tensor::f_run_backward(&[&one], &features, true, false)?)
                {
                    own.push(gradient.detach());
                }
            }
            let inputs = names.iter().filter_map(|name| pass.taps.input(name).map(Tensor::detach)).collect();
            Ok(Recorded { outputs: outputs.detach(), inputs, gradients, operations })
        })
    }

    fn linearised(&self, recorded: &Recorded, rows: Range<i64>) -> Linearised {
        let part = |tensor: &Tensor| tensor.narrow(0, rows.start, rows.end - rows.start);
        let (mut layers, mut conditional) = (Vec::new(), None);
        for (place, layer) in self.centre.layers.iter().enumerate() {
            let (operation, input) = (recorded.operations[place], part(&recorded.inputs[place]));
            let gradients: Vec<_> = recorded.gradients[place].iter().map(part).collect();
            let signals = Tensor::stack(&gradients.iter().map(|g| layer.rows(g, operation)).collect::<Vec<_>>(), 1);
            let jacobian = layer.jacobian(&signals, &layer.columns(&input, operation));
            if self.conditional == OwnConditional::Kept {
                let own = self.own(place, &jacobian, layer.energy(&input, &gradients, operation));
                conditional = Some(conditional.map_or_else(|| own.shallow_clone(), |sum: Tensor| sum + &own));
            }
            layers.push(jacobian);
        }
        Linearised { outputs: part(&recorded.outputs), jacobian: Jacobian { layers, shares: None }, conditional }
    }

    /// What one layer's conditional adds. `[N, K, K]`
    fn own(&self, place: usize, jacobian: &Tensor, energy: Tensor) -> Tensor {
        let (lambda_squared, exact) = self.centre.noise[place];
        if exact {
            let explained = jacobian.flatten(2, 3).to_kind(Kind::Double);
            return (energy - explained.matmul(&explained.mt())) * lambda_squared;
        }
        energy * lambda_squared
    }
}

fn rows_of_numbers(outputs: Tensor, x: &Tensor) -> Result<Tensor> {
    if outputs.dim() == 2 && outputs.size()[0] == x.size()[0] {
        return Ok(outputs);
    }
    let expected = format!("[{}, K]: a linearised posterior is for rows of numbers", x.size()[0]);
    Err(Error::shape("outputs of the network", &outputs.size(), expected))
}

/// What one forward and K backward passes leave.
struct Recorded {
    outputs: Tensor,
    /// Of each layer.
    inputs: Vec<Tensor>,
    /// Of each layer, for each output.
    gradients: Vec<Vec<Tensor>>,
    operations: Vec<Operation>,
}
