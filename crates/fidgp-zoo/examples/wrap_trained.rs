//! A trained plain network becomes a Bayesian one: its weights are kept, as far as the inducing matrices can hold them.
//!
//! `cargo run --release --example wrap_trained`

use std::error::Error;
use std::path::Path;

use fidgp::Key;
use fidgp::layer::{Mode, Network, Pass, init};
use fidgp::objective::categorical_nll;
use fidgp::predict::{Draws, classify};
use fidgp::weight::InducingConfig;
use fidgp_zoo::{LayerPlan, ResnetConfig, bayesianise, reestimate_batch_norm, start_network, weights};
use tch::nn::{Adam, OptimizerConfig, VarStore};
use tch::{Device, Kind, Tensor};

/// Any network does, one of your own too: see `own_network.rs`.
fn resnet() -> ResnetConfig {
    ResnetConfig { width: 8, classes: 2, ..ResnetConfig::default() }
}

/// Pictures that are brighter on the left or on the right.
fn pictures(count: i64, key: Key) -> (Tensor, Tensor) {
    let labels = key.fold("side").uniform(&[count], Kind::Float, Device::Cpu).ge(0.5).to_kind(Kind::Int64);
    let x = key.fold("noise").normal(&[count, 3, 32, 32], Kind::Float, Device::Cpu);
    let sign = (labels.to_kind(Kind::Float) * 2.0 - 1.0).view([-1, 1, 1, 1]);
    let ramp = Tensor::linspace(-1.0, 1.0, 32, (Kind::Float, Device::Cpu));
    (x + sign * ramp, labels)
}

/// A plain network, trained for some steps: the file somebody hands you.
fn train_plain(steps: u64, file: &Path) -> Result<(), Box<dyn Error>> {
    let (mut network, store) = (resnet().network()?, VarStore::new(Device::Cpu));
    init(&mut network, &store.root(), Key::new(1))?;
    let mut optimiser = Adam::default().build(&store, 1e-3)?;
    for step in 0..steps {
        let (x, labels) = pictures(32, Key::new(2).at(step));
        let logits = network.forward(&x, &mut Pass::plain(Mode::Train))?;
        optimiser.backward_step(&categorical_nll(&logits, &labels, 0.0));
    }
    Ok(store.save(file)?)
}

/// What the example found.
pub struct Found {
    /// Share of pictures for which the plain and the wrapped network name the same class.
    pub agreement: f64,
    /// Mean disagreement of the draws, in nats.
    pub epistemic: f64,
}

/// Trains a plain network, wraps it, and compares both.
#[expect(clippy::disallowed_methods, reason = "the file is ours")]
pub fn run(steps: u64, file: &Path) -> Result<Found, Box<dyn Error>> {
    train_plain(steps, file)?;
    let trained = weights::read(file)?;

    let (mut plain, mut plain_store) = (resnet().network()?, VarStore::new(Device::Cpu));
    init(&mut plain, &plain_store.root(), Key::new(1))?;
    plain_store.load(file)?;

    // The same network, the layers of its last blocks Bayesian, started at the trained weights.
    let spread = InducingConfig { init_sd_u: 0.09, init_lamda: 0.02, ..InducingConfig::default() };
    let config = InducingConfig { inducing_rows: 32.into(), inducing_cols: 32.into(), ..spread };
    let (mut network, store) = (resnet().network()?, VarStore::new(Device::Cpu));
    bayesianise(&mut network, &LayerPlan::only(&["layer4.1.*"], &config))?;
    init(&mut network, &store.root(), Key::new(3))?;
    println!("{}", start_network(&network, &store, trained)?);
    let batches = (0..8).map(|batch| pictures(32, Key::new(2).at(batch)).0);
    reestimate_batch_norm(&network, batches)?; // truncated weights give other statistics

    let (x, _) = pictures(128, Key::new(4));
    let logits = tch::no_grad(|| plain.forward(&x, &mut Pass::plain(Mode::Eval)))?;
    let wrapped = classify(&Draws::new(&network, 8, Key::new(5))?, &[x], None)?;
    let same = wrapped.probs.argmax(-1, false).eq_tensor(&logits.argmax(-1, false));
    let found = Found {
        agreement: same.to_kind(Kind::Double).mean(Kind::Double).double_value(&[]),
        epistemic: wrapped.epistemic.mean(Kind::Double).double_value(&[]),
    };
    println!("same class as the plain network   {:.1} % of 128 pictures", 100.0 * found.agreement);
    println!("disagreement of eight draws       {:.1e} nats", found.epistemic);
    Ok(found)
}

#[allow(dead_code, reason = "a test calls `run` with fewer steps")]
fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("fidgp-wrap-trained-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let found = run(60, &folder.join("plain.safetensors"));
    std::fs::remove_dir_all(&folder)?;
    found.map(|_| ())
}
