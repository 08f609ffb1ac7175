//! A new kind of network is one file, here this one, and one line in `networks!`.

use fidgp::Key;
use fidgp::layer::{Linear, Mode, Network, Pass};
use fidgp::weight::InducingConfig;
use fidgp_zoo::{Architecture, LayerPlan, MlpConfig, Result, Takes};
use serde::{Deserialize, Serialize};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

/// `{ kind = "tiny", scale = 2.0 }`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TinyConfig {
    scale: f64,
    #[serde(skip)]
    sizes: [i64; 2],
}

impl Architecture for TinyConfig {
    fn takes(&self) -> Takes {
        Takes::Images
    }

    fn fit(&mut self, input: &[i64], outputs: i64) -> Result<()> {
        self.sizes = [input.iter().product(), outputs];
        Ok(())
    }

    fn network(&self) -> Result<Box<dyn Network>> {
        let [inputs, outputs] = self.sizes;
        Ok(Box::new(Tiny { linear: Linear::new("linear", inputs, outputs, true)?, scale: self.scale }))
    }

    fn name(&self) -> String {
        "tiny".to_owned()
    }
}

#[derive(Debug)]
struct Tiny {
    linear: Linear,
    scale: f64,
}

fidgp::layers!(Tiny: linear);

impl Network for Tiny {
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        self.linear.forward(&(x.flatten(1, -1) * self.scale), pass)
    }
}

fidgp_zoo::networks! {
    /// The zoo's kind and one of somebody else.
    enum Kinds {
        Mlp(MlpConfig),
        Tiny(TinyConfig), // the line
    }
}

#[test]
fn a_new_kind_is_read_built_and_drawn() {
    let mut config: Kinds = serde_json::from_str(r#"{"kind": "tiny", "scale": 2.0}"#).unwrap();
    assert_eq!(serde_json::to_string(&config).unwrap(), r#"{"kind":"tiny","scale":2.0}"#);
    config.fit(&[3, 8, 8], 4).unwrap();
    let store = VarStore::new(Device::Cpu);
    let network = config.init(&store.root(), &LayerPlan::all(InducingConfig::default()), Key::new(1)).unwrap();
    assert!(network.is_random() && store.variables().contains_key("linear.z_row"));
    let draws = fidgp::predict::Draws::new(&network, 3, Key::new(2)).unwrap();
    let x = Key::new(3).normal(&[5, 3, 8, 8], Kind::Float, Device::Cpu);
    let found = fidgp::predict::classify(&draws, &[x], None).unwrap();
    assert_eq!(found.probs.size(), [5, 4]);
    let unknown = serde_json::from_str::<Kinds>(r#"{"kind": "tiny", "scale": 2.0, "sizes": [1, 2]}"#).unwrap_err();
    assert!(unknown.to_string().contains("sizes"), "{unknown}");
    let mlp: Kinds =
        serde_json::from_str(r#"{"kind": "mlp", "hidden": [4], "activation": "tanh", "batch_norm": false}"#).unwrap();
    let plain = mlp.init(&VarStore::new(Device::Cpu).root(), &LayerPlan::dense(), Key::new(1)).unwrap();
    assert!(plain.forward(&Tensor::zeros([2, 1], (Kind::Float, Device::Cpu)), &mut Pass::plain(Mode::Eval)).is_ok());
}
