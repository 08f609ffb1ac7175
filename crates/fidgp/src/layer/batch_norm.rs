//! Batch normalisation that reads its mode from the pass.

use std::collections::BTreeMap;

use tch::nn::Path;
use tch::{Kind, Tensor};

use super::network::{with_numbers, without_numbers};
use super::{Across, Layer, Operation, Pass};
use crate::prior::layer_name;
use crate::role::Role;
use crate::{Error, Key, Result};

/// `y = γ (x − μ)/√(σ² + ε) + β`, over all axes but the second.
#[derive(Debug)]
pub struct BatchNorm {
    name: String,
    features: i64,
    momentum: f64,
    epsilon: f64,
    numbers: Option<Numbers>,
}

#[derive(Debug)]
struct Numbers {
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
}

impl BatchNorm {
    const MOMENTUM: f64 = 0.1;
    const EPSILON: f64 = 1e-5;

    /// A normalisation of this name, without numbers yet: momentum 0.1, ε = 1e-5.
    ///
    /// # Errors
    /// When there is no feature.
    pub fn new(name: impl Into<String>, features: i64) -> Result<Self> {
        let name = name.into();
        super::at_least(1, &name, &[("features", features)])?;
        Ok(Self { name, features, momentum: Self::MOMENTUM, epsilon: Self::EPSILON, numbers: None })
    }

    /// The same with another momentum of the running statistics and another ε.
    ///
    /// # Errors
    /// When the momentum is not within 0 … 1 or is 0, or ε is negative.
    pub fn with(self, momentum: f64, epsilon: f64) -> Result<Self> {
        if !(momentum > 0.0 && momentum <= 1.0) {
            return Err(Error::setting(
                format!("{}: momentum", self.name),
                momentum,
                "must be greater than 0, and 1 at most",
            ));
        }
        if !(epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(Error::setting(format!("{}: epsilon", self.name), epsilon, "must be 0 or greater"));
        }
        Ok(Self { momentum, epsilon, ..self })
    }

    /// # Shapes
    /// `[N, features, ..]` → the same
    ///
    /// # Errors
    /// When the input has another number of features, or the layer has no numbers yet.
    pub fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let size = x.size();
        if size.get(1) != Some(&self.features) {
            return Err(Error::shape(format!("input of {}", self.name), &size, format!("[N, {}, ..]", self.features)));
        }
        if let Some(traced) = pass.traced(self, x, &size) {
            return Ok(traced);
        }
        let numbers = self.numbers.as_ref().ok_or_else(|| without_numbers(&self.name))?;
        let running = [&numbers.running_mean, &numbers.running_var];
        if pass.batch_statistics() {
            // without running statistics there is nothing to update, and those of the batch are used
            let moved = (!pass.keep_statistics).then_some(running);
            if let Some(across) = &pass.across {
                return self.apply_across(numbers, x, moved, across);
            }
            return self.apply(numbers, x, moved, Some(self.momentum));
        }
        match &mut pass.norm {
            Norm::Gathering { found, share } => {
                let own = [numbers.running_mean.zeros_like(), numbers.running_var.ones_like()];
                let y = self.apply(numbers, x, Some([&own[0], &own[1]]), Some(1.0))?;
                found.add(&self.name, own, *share);
                Ok(y)
            }
            Norm::Own(NormStatistics(layers)) => match layers.get(&self.name) {
                Some([mean, var]) => self.apply(numbers, x, Some([mean, var]), None),
                None => self.apply(numbers, x, Some(running), None),
            },
            Norm::Running => self.apply(numbers, x, Some(running), None),
        }
    }

    /// Normalises with the given statistics, or, where there is a momentum, with those of the batch, towards which it moves
    /// the given ones.
    fn apply(
        &self,
        numbers: &Numbers,
        x: &Tensor,
        statistics: Option<[&Tensor; 2]>,
        momentum: Option<f64>,
    ) -> Result<Tensor> {
        let (mean, var) = (statistics.map(|[mean, _]| mean), statistics.map(|[_, var]| var));
        let (of_batch, momentum) = (momentum.is_some(), momentum.unwrap_or(self.momentum));
        let (weight, bias) = (Some(&numbers.weight), Some(&numbers.bias));
        Ok(x.f_batch_norm(weight, bias, mean, var, of_batch, momentum, self.epsilon, true)?)
    }

    /// Normalises with the statistics of a batch of which other processes have the rest.
    fn apply_across(
        &self,
        numbers: &Numbers,
        x: &Tensor,
        moved: Option<[&Tensor; 2]>,
        across: &Across,
    ) -> Result<Tensor> {
        let axes: Vec<i64> = (0..x.dim() as i64).filter(|&axis| axis != 1).collect();
        let wide = x.to_kind(if x.kind() == Kind::Double { Kind::Double } else { Kind::Float });
        let own = across.weight() * x.numel() as f64 / self.features as f64;
        let (var, mean) = wide.f_var_mean_correction(&axes[..], 0.0, false)?;
        // sums in f64: what is subtracted below are sums of squares
        let [var, mean] = [var, mean].map(|statistic| statistic.to_kind(Kind::Double));
        let count = mean.full_like(own).detach();
        let sums = across.sum(&Tensor::stack(&[&mean * own, (var + mean.square()) * own, count], 0))?;
        let (count, mean) = (sums.get(2), sums.get(0) / sums.get(2));
        let var = (sums.get(1) / &count - mean.square()).clamp_min(0.0);
        if let Some([running_mean, running_var]) = moved {
            tch::no_grad(|| {
                let unbiased = &var * &count / (&count - 1.0).clamp_min(1.0);
                for (running, now) in [(running_mean, &mean), (running_var, &unbiased)] {
                    let _ = running.shallow_clone().lerp_(&now.to_kind(running.kind()), self.momentum);
                }
            });
        }
        let shape: Vec<i64> = (0..x.dim() as i64).map(|axis| if axis == 1 { self.features } else { 1 }).collect();
        let wide_of = |statistic: &Tensor| statistic.to_kind(wide.kind()).view(&shape[..]);
        let scale = wide_of(&((var + self.epsilon).rsqrt() * &numbers.weight));
        Ok(((&wide - wide_of(&mean)) * scale + wide_of(&numbers.bias)).to_kind(x.kind()))
    }
}

impl Layer for BatchNorm {
    fn name(&self) -> &str {
        &self.name
    }

    fn operation(&self) -> Operation {
        Operation::BatchNorm { features: self.features }
    }

    fn momentum(&self) -> Option<f64> {
        Some(self.momentum)
    }

    fn running(&self) -> Vec<(&'static str, &Tensor)> {
        let [mean, var] = NormStatistics::NAMES;
        self.numbers.iter().flat_map(|own| [(mean, &own.running_mean), (var, &own.running_var)]).collect()
    }

    /// γ = 1, β = 0, running statistics of the standard normal.
    fn init(&mut self, path: &Path, _: Key) -> Result<()> {
        if self.numbers.is_some() {
            return Err(with_numbers(&self.name));
        }
        self.name = layer_name(path);
        let (plain, features) = (Role::Decayed.of(path), [self.features]);
        self.numbers = Some(Numbers {
            weight: plain.ones("weight", &features),
            bias: plain.zeros("bias", &features),
            running_mean: path.zeros_no_train("running_mean", &features),
            running_var: path.ones_no_train("running_var", &features),
        });
        Ok(())
    }
}

/// Which statistics BatchNorm uses in evaluation.
///
/// A draw of the weights moves the mean and variance of a layer's outputs. In training BatchNorm takes that away, as it
/// uses the batch's own; the running ones are averages over draws and do not.
#[derive(Debug, Default)]
pub enum Norm {
    /// The running ones.
    #[default]
    Running,
    /// The batch's, of which this share is added to what was found.
    Gathering {
        /// Sums so far.
        found: NormStatistics,
        /// The batch's share of all examples.
        share: f64,
    },
    /// Those of this very draw; the running ones in layers before the first that is drawn.
    Own(NormStatistics),
}

impl Norm {
    /// What was gathered; BatchNorm uses the running statistics from then on.
    pub(crate) fn take_found(&mut self) -> NormStatistics {
        match std::mem::take(self) {
            Self::Gathering { found, .. } | Self::Own(found) => found,
            Self::Running => NormStatistics::default(),
        }
    }
}

/// Mean and variance of the inputs of BatchNorm layers, by layer name.
#[derive(Debug, Default)]
pub struct NormStatistics(BTreeMap<String, [Tensor; 2]>);

impl NormStatistics {
    const NAMES: [&'static str; 2] = ["running_mean", "running_var"];

    /// From tensors named as in a checkpoint, `<layer>.running_mean` and `<layer>.running_var`; `None` when there are others
    /// among them, or one without its fellow.
    pub fn from_named(tensors: impl IntoIterator<Item = (String, Tensor)>) -> Option<Self> {
        let mut layers: BTreeMap<String, [Option<Tensor>; 2]> = BTreeMap::new();
        for (name, tensor) in tensors {
            let (layer, part) = name.rsplit_once('.')?;
            let place = Self::NAMES.iter().position(|known| *known == part)?;
            layers.entry(layer.to_owned()).or_default()[place] = Some(tensor);
        }
        let both = layers.into_iter().map(|(layer, [mean, var])| Some((layer, [mean?, var?])));
        both.collect::<Option<_>>().map(Self)
    }

    /// Every tensor with its name.
    pub fn named(&self) -> impl Iterator<Item = (String, &Tensor)> {
        let of_layer = |(layer, pair): (&String, _)| {
            let names = Self::NAMES.map(|name| format!("{layer}.{name}"));
            names.into_iter().zip(pair)
        };
        self.0.iter().flat_map(move |(layer, pair)| of_layer((layer, pair)))
    }

    /// The same numbers in tensors of their own.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self(self.0.iter().map(|(layer, pair)| (layer.clone(), pair.each_ref().map(Tensor::copy))).collect())
    }

    /// Adds a share of a layer's mean and second moment.
    fn add(&mut self, layer: &str, [mean, var]: [Tensor; 2], share: f64) {
        let [mean, var] = [mean, var].map(|statistic| statistic.to_kind(Kind::Double));
        let own = [&mean * share, (var + mean.square()) * share];
        match self.0.get_mut(layer) {
            Some(sums) => sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own),
            None => _ = self.0.insert(layer.to_owned(), own),
        }
    }

    /// Turns second moments into variances.
    pub(crate) fn settle(&mut self) {
        for pair in self.0.values_mut() {
            let [mean, second] = &*pair;
            let var = (second - mean.square()).clamp_min(0.0);
            *pair = [mean.to_kind(Kind::Float), var.to_kind(Kind::Float)];
        }
    }

    /// Overwrites every tensor with that of others of the same network.
    pub(super) fn overwrite(&self, other: &Self) {
        for (mine, theirs) in self.0.values().flatten().zip(other.0.values().flatten()) {
            mine.shallow_clone().copy_(theirs);
        }
    }
}
