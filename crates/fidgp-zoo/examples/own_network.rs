//! A network of your own: a small vision transformer, written in this file, made Bayesian, trained on images of CIFAR-100, and
//! asked for predictions with their uncertainty. Then it is saved and loaded.
//!
//! `cargo run --release --example own_network [FOLDER]`, where the folder holds `train.bin` and `test.bin` of CIFAR-100's binary
//! version; without one it takes the 112 images that the project's tests use.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use fidgp::layer::{
    Conv2d, Conv2dConfig, Factors, LayerNorm, Linear, Mode, Network, Parameter, Pass, Start, init, trace,
};
use fidgp::linalg::Check;
use fidgp::objective::{DatasetSize, categorical_nll, negative_elbo, sum_kl};
use fidgp::predict::{Classified, Draws, classify};
use fidgp::weight::InducingConfig;
use fidgp::{Key, Result};
use fidgp_data::Part;
use fidgp_data::cifar::{Labels, cifar100};
use fidgp_zoo::{Counting, LayerPlan, bayesianise, cost};
use tch::nn::{Adam, OptimizerConfig, VarStore};
use tch::{Device, Kind, Tensor};

// 1. The network: layers of fidgp where there are weights, plain operations on tensors between them.

/// Pictures 32×32 in 16 patches, each a token of so many features.
const WIDTH: i64 = 32;
const HEADS: i64 = 4;
const TOKENS: i64 = 16;

/// A transformer block: attention, then two linear layers, each beside a shortcut.
#[derive(Debug)]
struct Block {
    before: LayerNorm,
    attention: Linear,
    mixed: Linear,
    between: LayerNorm,
    wide: Linear,
    narrow: Linear,
}

// Its layers, once: plans, costs, optimisers and checkpoints know of them from here.
fidgp::layers!(Block: before, attention, mixed, between, wide, narrow);

impl Block {
    fn new(name: &str) -> Result<Self> {
        Ok(Self {
            before: LayerNorm::new(format!("{name}.before"), WIDTH)?,
            attention: Linear::new(format!("{name}.attention"), WIDTH, 3 * WIDTH, true)?,
            mixed: Linear::new(format!("{name}.mixed"), WIDTH, WIDTH, true)?,
            between: LayerNorm::new(format!("{name}.between"), WIDTH)?,
            wide: Linear::new(format!("{name}.wide"), WIDTH, 2 * WIDTH, true)?,
            narrow: Linear::new(format!("{name}.narrow"), 2 * WIDTH, WIDTH, true)?,
        })
    }

    /// `[N, tokens, width]` → the same
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let attended = self.attend(&self.before.forward(x, pass)?, pass)?;
        let x = x + attended;
        let h = self.between.forward(&x, pass)?;
        let h = self.wide.forward(&h, pass)?.gelu("none");
        Ok(x + self.narrow.forward(&h, pass)?)
    }

    fn attend(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let (n, tokens) = (x.size()[0], x.size()[1]);
        let all = self.attention.forward(x, pass)?.f_view([n, tokens, 3, HEADS, WIDTH / HEADS])?;
        let all = all.permute([2, 0, 3, 1, 4]); // [3, N, heads, tokens, width of a head]
        let (query, key, value) = (all.get(0), all.get(1), all.get(2));
        let scores = query.matmul(&key.transpose(-2, -1)) / ((WIDTH / HEADS) as f64).sqrt();
        let mixed = scores.softmax(-1, None).matmul(&value).transpose(1, 2).reshape([n, tokens, WIDTH]);
        self.mixed.forward(&mixed, pass)
    }
}

/// The whole transformer.
#[derive(Debug)]
struct Vit {
    patches: Conv2d,
    positions: Parameter,
    blocks: Vec<Block>,
    last: LayerNorm,
    head: Linear,
}

fidgp::layers!(Vit: patches, positions, blocks, last, head);

impl Vit {
    /// Names and sizes; no numbers yet.
    fn new(depth: usize, classes: i64) -> Result<Self> {
        let patches = Conv2dConfig { padding: [0; 2], ..Conv2dConfig::same(3, WIDTH, 8).stride(8).bias() };
        Ok(Self {
            patches: Conv2d::new("patches", patches)?,
            positions: Parameter::new("positions", &[TOKENS, WIDTH], Start::Normal(0.2))?,
            blocks: (0..depth).map(|i| Block::new(&format!("blocks.{i}"))).collect::<Result<_>>()?,
            last: LayerNorm::new("last", WIDTH)?,
            head: Linear::new("head", WIDTH, classes, true)?,
        })
    }
}

impl Network for Vit {
    /// `[N, 3, 32, 32]` → `[N, classes]`
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let tokens = self.patches.forward(x, pass)?.flatten(2, 3).transpose(1, 2); // [N, 16, width]
        let tokens = tokens + self.positions.value(pass)?;
        // blocks before the first Bayesian layer run once for all draws of a prediction
        let h = pass.blocks(&tokens, &self.blocks, Block::forward)?;
        let h = self.last.forward(&h, pass)?.mean_dim(1, false, h.kind());
        self.head.forward(&h, pass)
    }
}

// 2. What is done with it.

/// Images and their classes.
struct Data {
    /// `[N, 3, 32, 32]`
    x: Tensor,
    /// Classes that occur, counted from 0. `[N]`
    labels: Tensor,
    classes: i64,
}

/// The images of CIFAR-100 in a folder, around zero.
fn read(folder: &Path, part: Part) -> std::result::Result<Data, Box<dyn Error>> {
    let images = cifar100(folder, part, Labels::Fine)?;
    let x = Tensor::from_slice(images.pixels()).view([-1, 3, 32, 32]).to_kind(Kind::Float) / 127.5 - 1.0;
    let names: BTreeSet<u32> = images.labels().iter().copied().collect();
    let place = |label: &u32| names.range(..label).count() as i64;
    let labels = Tensor::from_slice(&images.labels().iter().map(place).collect::<Vec<_>>());
    Ok(Data { x, labels, classes: names.len() as i64 })
}

/// Which layers are Bayesian: those of the second block's multilayer perceptron, and the head.
fn plan() -> LayerPlan {
    let size = 8.into();
    let spread = InducingConfig { init_sd_u: 0.09, init_lamda: 0.02, ..InducingConfig::default() };
    let config = InducingConfig { inducing_rows: size, inducing_cols: size, ..spread };
    LayerPlan::only(&["blocks.1.wide", "blocks.1.narrow", "head"], &config)
}

/// The Bayesian network, and the store of its parameters.
fn build(classes: i64) -> fidgp_zoo::Result<(Vit, VarStore)> {
    let (mut network, store) = (Vit::new(2, classes)?, VarStore::new(Device::Cpu));
    bayesianise(&mut network, &plan())?;
    init(&mut network, &store.root(), Key::new(1))?;
    Ok((network, store))
}

/// Trains it for some steps and returns the last loss.
fn train(network: &Vit, store: &VarStore, steps: u64, data: &Data) -> std::result::Result<f64, Box<dyn Error>> {
    let (Data { x, labels, .. }, examples) = (data, data.x.size()[0]);
    let mut optimiser = Adam::default().build(store, 5e-3)?;
    optimiser.set_weight_decay_group(1, 1e-4); // plain weights; what has a prior has the KL
    let (size, beta, weights) = (DatasetSize::new(examples as usize)?, Tensor::from(0.05_f32), network.inducing());
    let mut last = f64::NAN;
    for step in 0..steps {
        let rows =
            (Key::new(3).at(step).uniform(&[32], Kind::Float, Device::Cpu) * examples as f64).to_kind(Kind::Int64);
        let factors = Factors::of(&weights, Check::Now)?;
        let mut pass = Pass::draw(&weights, &factors, Mode::Train, Key::new(4).at(step))?;
        let logits = network.forward(&x.index_select(0, &rows), &mut pass)?;
        let nll = categorical_nll(&logits, &labels.index_select(0, &rows), 0.0);
        let loss = negative_elbo(&nll, sum_kl(pass.kl()).as_ref(), &beta, size);
        optimiser.backward_step(&loss);
        last = loss.double_value(&[]);
    }
    Ok(last)
}

/// Eight draws: probabilities, and how much the draws disagree.
fn predict(network: &Vit, x: &Tensor) -> Result<Classified> {
    classify(&Draws::new(network, 8, Key::new(5))?, std::slice::from_ref(x), None)
}

/// What the example found.
pub struct Found {
    /// Share of test images whose class was found, and that share by chance.
    pub accuracy: [f64; 2],
    /// Mean entropy of the predictions for test images, and for images of noise.
    pub entropy: [f64; 2],
    /// Largest change of a probability by saving and loading.
    pub change: f64,
}

/// Builds, trains, predicts, saves and loads.
pub fn run(data: &Path, steps: u64, file: &Path) -> std::result::Result<Found, Box<dyn Error>> {
    let (known, test) = (read(data, Part::Train)?, read(data, Part::Test)?);
    let (network, store) = build(known.classes)?;
    println!("{}", cost(&trace(&network, &[3, 32, 32])?, &plan(), Counting::Ours)?);
    let loss = train(&network, &store, steps, &known)?;
    let noise = Key::new(7).normal(&test.x.size(), Kind::Float, Device::Cpu);
    let (said, unknown) = (predict(&network, &test.x)?, predict(&network, &noise)?);
    store.save(file)?;
    let (loaded, mut fresh) = build(known.classes)?;
    fresh.load(file)?;
    let again = predict(&loaded, &test.x)?;
    let mean = |t: &Tensor| t.mean(Kind::Double).double_value(&[]);
    let right = said.probs.argmax(-1, false).eq_tensor(&test.labels);
    let found = Found {
        accuracy: [mean(&right.to_kind(Kind::Double)), 1.0 / known.classes as f64],
        entropy: [mean(&said.total), mean(&unknown.total)],
        change: (again.probs - &said.probs).abs().max().double_value(&[]),
    };
    println!("loss of the last of {steps} steps    {loss:.3}");
    let [accuracy, chance] = found.accuracy.map(|share| 100.0 * share);
    println!(
        "accuracy                      {accuracy:.1} % of {} test images; by chance {chance:.1} %",
        test.x.size()[0]
    );
    println!("uncertainty (entropy)         {:.3} on test images, {:.3} on noise", found.entropy[0], found.entropy[1]);
    println!("  of it between draws         {:.1e} and {:.1e}", mean(&said.epistemic), mean(&unknown.epistemic));
    println!("saved and loaded              largest change of a probability {}", found.change);
    Ok(found)
}

/// The images that the project's tests use.
pub const FEW: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../fidgp-cli/tests/fixtures/cifar100-small/cifar-100-binary");

#[allow(dead_code, reason = "a test calls `run` with fewer steps")]
fn main() -> std::result::Result<(), Box<dyn Error>> {
    let data = std::env::args().nth(1).unwrap_or_else(|| FEW.to_owned());
    let folder = std::env::temp_dir().join(format!("fidgp-own-network-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let found = run(Path::new(&data), 300, &folder.join("vit.safetensors"));
    std::fs::remove_dir_all(&folder)?;
    found.map(|_| ())
}
