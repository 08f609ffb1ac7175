//! Evaluates published CIFAR-10 weights on the test set; with M, also the network wrapped at M inducing rows and columns.
//!
//! ```text
//! cargo run --release -p fidgp-zoo --example cifar10_accuracy -- 20 resnet20-cifar10.safetensors test_batch.bin 32
//! ```

use std::error::Error;
use std::path::Path;

use fidgp::Key;
use fidgp::layer::{Factors, Mode, Network, Pass};
use fidgp::linalg::Check;
use fidgp::weight::InducingConfig;
use fidgp_zoo::{ImportMode, LayerPlan, ResnetCifarConfig, import, start_network};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

/// One label byte, then 3×32×32 pixels.
const RECORD: i64 = 3073;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [depth, weights, test, wrap @ ..] = &arguments[..] else {
        return Err("usage: DEPTH WEIGHTS TEST_BATCH [M]".into());
    };
    let test = Tensor::from_slice(&std::fs::read(test)?).view([-1, RECORD]);
    let config = ResnetCifarConfig { depth: depth.parse()?, ..ResnetCifarConfig::default() };
    let store = VarStore::new(Device::Cpu);
    let network = config.init(&store.root(), &LayerPlan::dense(), Key::new(0))?;
    print!("{}", import(&store, Path::new(weights), ImportMode::Whole)?);
    println!("accuracy {:.2} %", accuracy(&network, &test)?);
    if let [m] = wrap {
        let inducing = InducingConfig {
            inducing_rows: m.parse::<i64>()?.into(),
            inducing_cols: m.parse::<i64>()?.into(),
            ..InducingConfig::default()
        };
        let wrapped_store = VarStore::new(Device::Cpu);
        let wrapped = config.init(&wrapped_store.root(), &LayerPlan::all(inducing), Key::new(0))?;
        print!("{}", start_network(&wrapped, &wrapped_store, store.variables())?);
        println!("accuracy {:.2} % at the posterior mean", accuracy(&wrapped, &test)?);
    }
    Ok(())
}

/// Per cent of the records that the network gets right, every Bayesian weight at its mean.
fn accuracy(network: &dyn Network, records: &Tensor) -> Result<f64, Box<dyn Error>> {
    let channels = |values: [f32; 3]| Tensor::from_slice(&values).view([1, 3, 1, 1]);
    let (mean, sd) = (channels([0.485, 0.456, 0.406]), channels([0.229, 0.224, 0.225]));
    let _no_grad = tch::no_grad_guard();
    let factors = Factors::of(&network.inducing(), Check::Now)?;
    let mut pass = Pass::mean(&network.inducing(), &factors, Mode::Eval)?;
    let mut correct = 0;
    for batch in records.split(500, 0) {
        let images = batch.narrow(1, 1, RECORD - 1).view([-1, 3, 32, 32]).to_kind(Kind::Float);
        let logits = network.forward(&((images / 255.0 - &mean) / &sd), &mut pass)?;
        let right = logits.argmax(1, false).eq_tensor(&batch.select(1, 0).to_kind(Kind::Int64));
        correct += right.sum(Kind::Int64).int64_value(&[]);
    }
    Ok(100.0 * correct as f64 / records.size()[0] as f64)
}
