//! Multilayer perceptron; with Linear-BatchNorm-tanh blocks as in the paper's one-dimensional regression.

use fidgp::Key;
use fidgp::layer::{BatchNorm, Linear, Network, Pass, Slot};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use crate::parts::Parts;
use crate::{Error, LayerGeometry, LayerPlan, Result};

/// The function between two layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// `max(0, x)`
    #[default]
    Relu,
    /// `tanh x`
    Tanh,
    /// `x Φ(x)`
    Gelu,
    /// `x sigmoid(x)`
    Silu,
    /// `sin x`
    Sine,
}

impl Activation {
    /// Elementwise.
    pub fn forward(self, x: &Tensor) -> Tensor {
        match self {
            Self::Relu => x.relu(),
            Self::Tanh => x.tanh(),
            Self::Gelu => x.gelu("none"),
            Self::Silu => x.silu(),
            Self::Sine => x.sin(),
        }
    }
}

/// Sizes of an [`Mlp`]: layers `fc1`, `bn1`, `fc2`, ….
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MlpConfig {
    /// Features in.
    pub inputs: i64,
    /// Widths of the hidden layers.
    pub hidden: Vec<i64>,
    /// Features out.
    pub outputs: i64,
    /// The function after each hidden layer.
    pub activation: Activation,
    /// Batch normalisation between a hidden layer and its activation.
    pub batch_norm: bool,
}

impl Default for MlpConfig {
    fn default() -> Self {
        Self { inputs: 1, hidden: vec![100; 3], outputs: 1, activation: Activation::Relu, batch_norm: false }
    }
}

impl MlpConfig {
    /// 1-100-100-100-1 with Linear-BatchNorm-tanh blocks: the paper's one-dimensional regression.
    pub fn paper_regression() -> Self {
        Self { activation: Activation::Tanh, batch_norm: true, ..Self::default() }
    }

    /// Builds the network under `path`.
    ///
    /// # Errors
    /// When a width is not positive, a setting is out of range, or the plan names a layer there is not.
    pub fn init(&self, path: &Path, plan: &LayerPlan, key: Key) -> Result<Mlp> {
        if let Some(width) = self.widths().iter().find(|width| **width < 1) {
            return Err(Error::setting("inputs, hidden, outputs", width, "every width must be at least 1"));
        }
        plan.check(&self.geometry())?;
        let parts = Parts::new(path, plan, key);
        let layers = self.pairs().map(|(name, inputs, outputs)| parts.linear(&name, inputs, outputs));
        let norms = self.hidden.iter().enumerate().map(|(i, width)| parts.batch_norm(&format!("bn{}", i + 1), *width));
        Ok(Mlp {
            layers: layers.collect::<Result<_>>()?,
            norms: if self.batch_norm { norms.collect() } else { Vec::new() },
            activation: self.activation,
        })
    }

    /// Its layers.
    pub fn geometry(&self) -> Vec<LayerGeometry> {
        let mut layers = Vec::new();
        for (i, (name, inputs, outputs)) in self.pairs().enumerate() {
            layers.push(LayerGeometry::linear(name, inputs, outputs));
            if self.batch_norm && i < self.hidden.len() {
                layers.push(LayerGeometry::batch_norm(format!("bn{}", i + 1), outputs, [1, 1]));
            }
        }
        layers
    }

    fn widths(&self) -> Vec<i64> {
        [&[self.inputs], &self.hidden[..], &[self.outputs]].concat()
    }

    /// Name, inputs and outputs of each layer.
    fn pairs(&self) -> impl Iterator<Item = (String, i64, i64)> {
        let widths = self.widths();
        (1..widths.len()).map(move |i| (format!("fc{i}"), widths[i - 1], widths[i]))
    }
}

/// A multilayer perceptron.
#[derive(Debug)]
pub struct Mlp {
    layers: Vec<Linear>,
    norms: Vec<BatchNorm>,
    activation: Activation,
}

impl Network for Mlp {
    /// Taps: every layer by name, and `features`, the last hidden activation.
    ///
    /// # Shapes
    /// `[N, inputs]` → `[N, outputs]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let (last, hidden) = self.layers.split_last().expect("an MLP has at least one layer");
        let mut h = x.shallow_clone();
        for (i, layer) in hidden.iter().enumerate() {
            h = layer.forward(&h, pass)?;
            if let Some(norm) = self.norms.get(i) {
                h = norm.forward(&h, pass);
            }
            h = self.activation.forward(&h);
        }
        pass.tap("features", &h);
        last.forward(&h, pass)
    }

    fn slots(&self) -> Vec<&Slot> {
        self.layers.iter().map(|layer| &layer.slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidgp::layer::{Factors, Mode, Taps};
    use fidgp::linalg::Check;
    use fidgp::weight::InducingConfig;
    use tch::nn::VarStore;
    use tch::{Device, Kind};

    #[test]
    fn a_wrapped_mlp_draws_and_taps() {
        let store = VarStore::new(Device::Cpu);
        let config = MlpConfig { inputs: 3, hidden: vec![7, 5], outputs: 2, ..MlpConfig::paper_regression() };
        let plan =
            LayerPlan::all(InducingConfig { inducing_rows: 4.into(), inducing_cols: 3.into(), ..Default::default() });
        let net = config.init(&(store.root() / "net"), &plan, Key::new(1)).unwrap();
        let factors = Factors::of(&net.inducing(), Check::Now).unwrap();
        let pass = Pass::draw(&net.inducing(), &factors, Mode::Train, Key::new(2)).unwrap();
        let mut pass = pass.with_taps(Taps::on(&["features", "net.fc1"]));
        let x = Key::new(3).normal(&[6, 3], Kind::Float, Device::Cpu);
        assert_eq!(net.forward(&x, &mut pass).unwrap().size(), [6, 2]);
        assert_eq!(pass.taps.feature("features").unwrap().size(), [6, 5]);
        assert_eq!(pass.taps.feature("net.fc1").unwrap().size(), [6, 7]);
        assert_eq!(net.inducing().len(), 3);
    }

    #[test]
    fn the_geometry_counts_what_the_store_holds() {
        let store = VarStore::new(Device::Cpu);
        let config = MlpConfig::paper_regression();
        config.init(&store.root(), &LayerPlan::dense(), Key::new(1)).unwrap();
        let held: usize = store.trainable_variables().iter().map(Tensor::numel).sum();
        let counted: i64 = config.geometry().iter().map(LayerGeometry::dense_parameters).sum();
        assert_eq!(counted, held as i64);
    }

    #[test]
    fn a_width_of_zero_is_refused() {
        let store = VarStore::new(Device::Cpu);
        let config = MlpConfig { hidden: vec![0], ..MlpConfig::default() };
        let error = config.init(&store.root(), &LayerPlan::dense(), Key::new(1)).unwrap_err().to_string();
        assert!(error.contains("at least 1"), "{error}");
    }
}
