//! Evaluates published CIFAR-10 weights on the test set.
//!
//! ```text
//! cargo run --release -p fidgp-zoo --example cifar10_accuracy -- 20 resnet20-cifar10.safetensors test_batch.bin
//! ```

use std::error::Error;
use std::path::Path;

use fidgp::Key;
use fidgp::layer::{Mode, Network, Pass};
use fidgp_zoo::{ImportMode, LayerPlan, ResnetCifarConfig, import};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

/// One label byte, then 3×32×32 pixels.
const RECORD: i64 = 3073;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [depth, weights, test] = &arguments[..] else { return Err("usage: DEPTH WEIGHTS TEST_BATCH".into()) };
    let store = VarStore::new(Device::Cpu);
    let config = ResnetCifarConfig { depth: depth.parse()?, ..ResnetCifarConfig::default() };
    let network = config.init(&store.root(), &LayerPlan::dense(), Key::new(0))?;
    print!("{}", import(&store, Path::new(weights), ImportMode::Whole)?);
    let records = Tensor::from_slice(&std::fs::read(test)?).view([-1, RECORD]);
    let labels = records.select(1, 0).to_kind(Kind::Int64);
    let images = records.narrow(1, 1, RECORD - 1).view([-1, 3, 32, 32]);
    let channels = |values: [f32; 3]| Tensor::from_slice(&values).view([1, 3, 1, 1]);
    let (mean, sd) = (channels([0.485, 0.456, 0.406]), channels([0.229, 0.224, 0.225]));
    let mut correct = 0;
    for (batch, labels) in images.split(500, 0).iter().zip(labels.split(500, 0)) {
        let x = (batch.to_kind(Kind::Float) / 255.0 - &mean) / &sd;
        let logits = tch::no_grad(|| network.forward(&x, &mut Pass::plain(Mode::Eval)))?;
        correct += logits.argmax(1, false).eq_tensor(&labels).sum(Kind::Int64).int64_value(&[]);
    }
    println!("accuracy {:.2} % on {} images", 100.0 * correct as f64 / images.size()[0] as f64, images.size()[0]);
    Ok(())
}
