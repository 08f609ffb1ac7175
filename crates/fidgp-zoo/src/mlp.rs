//! Multilayer perceptron; with Linear-BatchNorm-tanh blocks as in the paper's one-dimensional regression.

use fidgp::Key;
use fidgp::layer::{BatchNorm, Linear, Network, Pass};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use crate::{Architecture, Error, LayerPlan, Result, Takes, build};

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MlpConfig {
    /// Features in: the data's.
    #[serde(skip, default = "one")]
    pub inputs: i64,
    /// Widths of the hidden layers.
    pub hidden: Vec<i64>,
    /// Features out: the data's.
    #[serde(skip, default = "one")]
    pub outputs: i64,
    /// The function after each hidden layer.
    pub activation: Activation,
    /// Batch normalisation between a hidden layer and its activation.
    pub batch_norm: bool,
    /// ω, by which the first hidden layer is multiplied before its activation. With `sine` its features are waves of about
    /// that frequency: inputs further apart than `1/ω` are told apart from the start, and so is what lies far from the data.
    #[serde(default = "unit", skip_serializing_if = "is_unit")]
    pub frequency: f64,
    /// Upper bound of the spectral norm of every layer but the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spectral_norm: Option<f64>,
}

fn one() -> i64 {
    1
}

fn unit() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_unit(frequency: &f64) -> bool {
    (frequency - 1.0).abs() < f64::EPSILON
}

impl Default for MlpConfig {
    fn default() -> Self {
        let (hidden, activation) = (vec![100; 3], Activation::Relu);
        Self { inputs: 1, hidden, outputs: 1, activation, batch_norm: false, frequency: 1.0, spectral_norm: None }
    }
}

impl MlpConfig {
    /// 1-100-100-100-1 with Linear-BatchNorm-tanh blocks: the paper's one-dimensional regression.
    pub fn paper_regression() -> Self {
        Self { activation: Activation::Tanh, batch_norm: true, ..Self::default() }
    }

    /// The plain network, without numbers yet.
    ///
    /// # Errors
    /// When a width is not positive.
    pub fn network(&self) -> Result<Mlp> {
        let widths = self.widths();
        if let Some(width) = widths.iter().find(|width| **width < 1) {
            return Err(Error::setting("inputs, hidden, outputs", width, "every width must be at least 1"));
        }
        if !(self.frequency > 0.0 && self.frequency.is_finite()) {
            return Err(Error::setting("frequency", self.frequency, "must be greater than 0; 1 changes nothing"));
        }
        let layers = widths.windows(2).zip(1..).map(|(pair, i)| Linear::new(format!("fc{i}"), pair[0], pair[1], true));
        let normed = if self.batch_norm { &self.hidden[..] } else { &[] };
        let norms = normed.iter().zip(1..).map(|(width, i)| BatchNorm::new(format!("bn{i}"), *width));
        Ok(Mlp {
            layers: layers.collect::<fidgp::Result<_>>()?,
            norms: norms.collect::<fidgp::Result<_>>()?,
            activation: self.activation,
            frequency: self.frequency,
        })
    }

    /// The network by a plan, its numbers under `path`.
    ///
    /// # Errors
    /// As [`Self::network`] and [`build`].
    pub fn init(&self, path: &Path, plan: &LayerPlan, key: Key) -> Result<Mlp> {
        build(self.network()?, path, plan, key)
    }

    fn widths(&self) -> Vec<i64> {
        [&[self.inputs], &self.hidden[..], &[self.outputs]].concat()
    }
}

impl Architecture for MlpConfig {
    fn takes(&self) -> Takes {
        Takes::Table
    }

    fn fit(&mut self, input: &[i64], outputs: i64) -> Result<()> {
        (self.inputs, self.outputs) = (input.iter().product(), outputs);
        Ok(())
    }

    fn network(&self) -> Result<Box<dyn Network>> {
        Ok(Box::new(self.network()?))
    }

    fn name(&self) -> String {
        "mlp".to_owned()
    }

    fn has_batch_norm(&self) -> bool {
        self.batch_norm
    }

    fn spectral_norm(&self) -> Option<f64> {
        self.spectral_norm
    }

    fn unbind(&mut self) {
        self.spectral_norm = None;
    }
}

/// A multilayer perceptron.
#[derive(Debug)]
pub struct Mlp {
    layers: Vec<Linear>,
    norms: Vec<BatchNorm>,
    activation: Activation,
    frequency: f64,
}

fidgp::layers!(Mlp: layers, norms);

impl Network for Mlp {
    /// Taps: every layer by name.
    ///
    /// # Shapes
    /// `[N, inputs]` → `[N, outputs]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let (last, hidden) = self.layers.split_last().expect("an MLP has at least one layer");
        let h = pass.blocks(x, hidden.iter().enumerate(), |(i, layer), h, pass| {
            let mut h = layer.forward(h, pass)?;
            if let Some(norm) = self.norms.get(i) {
                h = norm.forward(&h, pass)?;
            }
            if i == 0 && !is_unit(&self.frequency) {
                h = h.g_mul_scalar(self.frequency); // not in place: taps hold the layer's own output
            }
            Ok(self.activation.forward(&h))
        })?;
        last.forward(&h, pass)
    }

    fn takes_empty_batches(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use fidgp::layer::{
        Apply, CustomWeight, DenseWeight, Factors, LayerGeometry, MakeWeight, Mode, PlannedWeight, Role, Taps, trace,
    };
    use fidgp::linalg::Check;
    use fidgp::predict::Draws;
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
        let mut pass = pass.with_taps(Taps::on(&["net.fc1", "net.fc3"]));
        let x = Key::new(3).normal(&[6, 3], Kind::Float, Device::Cpu);
        assert_eq!(net.forward(&x, &mut pass).unwrap().size(), [6, 2]);
        assert_eq!(pass.taps.input(net.head().unwrap()).unwrap().size(), [6, 5]);
        assert_eq!(pass.taps.feature("net.fc1").unwrap().size(), [6, 7]);
        assert_eq!(net.inducing().len(), 3);
    }

    /// A plain weight that counts its forward passes.
    #[derive(Debug)]
    struct Counting(Arc<AtomicU64>);

    impl MakeWeight for Counting {
        fn make(&self, planned: &PlannedWeight, path: &Path, key: Key) -> fidgp::Result<Box<dyn CustomWeight>> {
            let dense = planned.dense(&Role::Decayed.of(path), planned.bias, key);
            Ok(Box::new(Counted { dense, runs: self.0.clone() }))
        }

        fn parameters(&self, layer: &LayerGeometry) -> i64 {
            layer.dense_parameters()
        }
    }

    #[derive(Debug)]
    struct Counted {
        dense: DenseWeight,
        runs: Arc<AtomicU64>,
    }

    impl CustomWeight for Counted {
        fn name(&self) -> &str {
            &self.dense.name
        }

        fn forward(&self, x: &Tensor, pass: &mut Pass, apply: &Apply) -> fidgp::Result<Tensor> {
            self.runs.fetch_add(1, Ordering::Relaxed);
            apply(x, &self.dense.weight, self.dense.bias.as_ref(), pass)
        }
    }

    #[test]
    fn layers_before_the_first_bayesian_one_run_once_for_all_draws() {
        for (bayesian, runs) in [("fc3", 1), ("fc1", 5)] {
            let (store, counted) = (VarStore::new(Device::Cpu), Arc::new(AtomicU64::new(0)));
            let config = MlpConfig { inputs: 3, hidden: vec![7, 5], outputs: 2, ..MlpConfig::paper_regression() };
            let plan = LayerPlan::only(&[bayesian], &InducingConfig::default());
            let plan = plan.custom("fc2", Counting(counted.clone()));
            let net = config.init(&store.root(), &plan, Key::new(1)).unwrap();
            let x = Key::new(3).normal(&[6, 3], Kind::Float, Device::Cpu);
            Draws::new(&net, 5, Key::new(2)).unwrap().outputs(&[x], |_, _| Ok(())).unwrap();
            assert_eq!(counted.load(Ordering::Relaxed), runs, "{bayesian}");
        }
    }

    #[test]
    fn a_trace_counts_what_the_store_holds() {
        let store = VarStore::new(Device::Cpu);
        let config = MlpConfig::paper_regression();
        config.init(&store.root(), &LayerPlan::dense(), Key::new(1)).unwrap();
        let held: usize = store.trainable_variables().iter().map(Tensor::numel).sum();
        let layers = trace(&config.network().unwrap(), &[1]).unwrap();
        let counted: i64 = layers.iter().map(LayerGeometry::dense_parameters).sum();
        assert_eq!(counted, held as i64);
    }

    #[test]
    fn a_frequency_multiplies_the_first_layer_alone() {
        let output = |frequency: f64, scale: f64| {
            let store = VarStore::new(Device::Cpu);
            let config =
                MlpConfig { hidden: vec![5, 4], activation: Activation::Sine, frequency, ..MlpConfig::default() };
            let net = config.init(&store.root(), &LayerPlan::dense(), Key::new(1)).unwrap();
            tch::no_grad(|| {
                for (name, mut tensor) in store.variables().into_iter().filter(|(name, _)| name.starts_with("fc1")) {
                    assert!(tensor.numel() > 0, "{name}");
                    let _ = tensor.g_mul_scalar_(scale);
                }
            });
            let x = Key::new(3).normal(&[6, 1], Kind::Float, Device::Cpu);
            net.forward(&x, &mut Pass::plain(Mode::Eval)).unwrap()
        };
        assert!(output(8.0, 1.0).allclose(&output(1.0, 8.0), 1e-5, 1e-6, false));
        assert!(!output(8.0, 1.0).allclose(&output(1.0, 1.0), 1e-2, 1e-2, false));
        assert!(MlpConfig { frequency: 0.0, ..MlpConfig::default() }.network().is_err());
    }

    #[test]
    fn a_width_of_zero_is_refused() {
        let store = VarStore::new(Device::Cpu);
        let config = MlpConfig { hidden: vec![0], ..MlpConfig::default() };
        let error = config.init(&store.root(), &LayerPlan::dense(), Key::new(1)).unwrap_err().to_string();
        assert!(error.contains("at least 1"), "{error}");
    }
}
