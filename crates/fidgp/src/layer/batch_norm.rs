//! Batch normalisation that reads its mode from the pass.

use std::collections::BTreeMap;

use tch::nn::Path;
use tch::{Kind, Tensor};

use super::Pass;

/// `y = γ (x − μ)/√(σ² + ε) + β`, over all axes but the second.
#[derive(Debug)]
pub struct BatchNorm {
    name: String,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
}

impl BatchNorm {
    /// Momentum of the running statistics.
    pub const MOMENTUM: f64 = 0.1;
    const EPSILON: f64 = 1e-5;

    /// γ = 1, β = 0, running statistics of the standard normal.
    pub fn init(path: &Path, features: i64) -> Self {
        Self {
            name: path.components().collect::<Vec<_>>().join("."),
            weight: path.ones("weight", &[features]),
            bias: path.zeros("bias", &[features]),
            running_mean: path.add("running_mean", Tensor::zeros([features], (path.kind(), path.device())), false),
            running_var: path.add("running_var", Tensor::ones([features], (path.kind(), path.device())), false),
        }
    }

    /// # Shapes
    /// `[N, features, ..]` → the same
    pub fn forward(&self, x: &Tensor, pass: &mut Pass) -> Tensor {
        if pass.batch_statistics() {
            // without running statistics there is nothing to update, and those of the batch are used
            let moved = (!pass.keep_statistics).then_some([&self.running_mean, &self.running_var]);
            return self.apply(x, moved, Some(Self::MOMENTUM));
        }
        match &mut pass.norm {
            Norm::Gathering { found, share } => {
                let own = [self.running_mean.zeros_like(), self.running_var.ones_like()];
                let y = self.apply(x, Some([&own[0], &own[1]]), Some(1.0));
                found.add(&self.name, own, *share);
                y
            }
            Norm::Own(NormStatistics(layers)) => match layers.get(&self.name) {
                Some([mean, var]) => self.apply(x, Some([mean, var]), None),
                None => self.apply(x, Some([&self.running_mean, &self.running_var]), None),
            },
            Norm::Running => self.apply(x, Some([&self.running_mean, &self.running_var]), None),
        }
    }

    /// Normalises with the given statistics, or, where there is a momentum, with those of the batch, towards which it moves
    /// the given ones.
    fn apply(&self, x: &Tensor, statistics: Option<[&Tensor; 2]>, momentum: Option<f64>) -> Tensor {
        let (mean, var) = (statistics.map(|[mean, _]| mean), statistics.map(|[_, var]| var));
        let (of_batch, momentum) = (momentum.is_some(), momentum.unwrap_or(Self::MOMENTUM));
        x.batch_norm(Some(&self.weight), Some(&self.bias), mean, var, of_batch, momentum, Self::EPSILON, true)
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
