//! A network of your own: a small vision transformer, written in this file, which goes all the way. A config names it; it is made
//! Bayesian, trained on images of CIFAR-100, scored against images that are out of distribution, exported, and opened again for
//! predictions.
//!
//! `cargo run --release --example own_network [FOLDER]`, where the folder holds `cifar-100-binary`; without one it takes the 112
//! images that the project's tests use.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use fidgp::layer::{Conv2d, Conv2dConfig, LayerNorm, Linear, Network, Parameter, Pass, Start};
use fidgp::predict::Effort;
use fidgp::{Key, Result};
use fidgp_lab::config::{self, NetworkConfig, RunConfig};
use fidgp_lab::model_folder::{self, Dtype};
use fidgp_lab::ood::{More, Settings, WeightChoice};
use fidgp_lab::predict::{Predictor, Trained};
use fidgp_lab::run_folder::RunContext;
use fidgp_lab::{experiment, ood};
use fidgp_zoo::{Architecture, Takes};
use serde::{Deserialize, Serialize};
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
        // blocks before the first Bayesian layer run once for all draws of a prediction
        let tokens = pass.block(x, |x, pass| {
            let tokens = self.patches.forward(x, pass)?.flatten(2, 3).transpose(1, 2); // [N, 16, width]
            Ok(tokens + self.positions.value(pass)?)
        })?;
        let h = pass.blocks(&tokens, &self.blocks, Block::forward)?;
        let h = self.last.forward(&h, pass)?.mean_dim(1, false, h.kind());
        self.head.forward(&h, pass)
    }
}

// 2. Its config: what stands in `[network]`, and what follows from the data.

/// `{ kind = "vit", depth = 2 }`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VitConfig {
    depth: usize,
    #[serde(skip)]
    classes: i64,
}

impl Architecture for VitConfig {
    fn takes(&self) -> Takes {
        Takes::Images
    }

    fn fit(&mut self, input: &[i64], outputs: i64) -> fidgp_zoo::Result<()> {
        self.classes = outputs;
        if input == [3, 32, 32] {
            return Ok(());
        }
        Err(fidgp_zoo::Error::Network { key: "kind", why: format!("= \"vit\" takes [3, 32, 32], not {input:?}") })
    }

    fn network(&self) -> fidgp_zoo::Result<Box<dyn Network>> {
        Ok(Box::new(Vit::new(self.depth, self.classes)?))
    }

    fn name(&self) -> String {
        format!("vit-{}", self.depth)
    }

    fn has_batch_norm(&self) -> bool {
        false
    }
}

// 3. What is done with it.

/// The run: all layers are Bayesian, the linear ones on tokens too.
const CONFIG: &str = r#"
name = "vit"
method = "fidgp"
seed = 1
data = { set = "images", name = "cifar100" }
network = { kind = "vit", depth = 2 }
likelihood = { kind = "categorical" }
predict = { draws = 8 }
[inducing]
inducing_rows = 8
inducing_cols = 8
init_sd_u = 0.09
init_lamda = 0.02
[train]
epochs = 60
batch_size = 16
optimiser = { kind = "adam", learning_rate = 0.003, weight_decay = 0.0001 }
"#;

/// Makes the kind known to configs. Once in a program, before the first config or model that names it is read.
pub fn register() -> fidgp_zoo::Result<()> {
    NetworkConfig::register::<VitConfig>("vit")
}

/// The config, with changes such as `train.epochs=3`.
pub fn config(changes: &[&str]) -> fidgp_lab::Result<RunConfig> {
    let changes = changes.iter().map(|change| change.parse()).collect::<fidgp_lab::Result<Vec<_>>>()?;
    config::parse(CONFIG, &changes)
}

/// What the example found.
pub struct Found {
    /// Share of test images whose class was found.
    pub accuracy: f64,
    /// Mean entropy of the predictions for images of noise, and the part of it between the draws.
    pub entropy: [f64; 2],
    /// Scores, each with its AUROC on foggy images.
    pub scores: Vec<(String, f64)>,
    /// Largest difference between probabilities of the run and of the exported model.
    pub change: f64,
}

/// Trains, scores, exports and opens it again; everything is written below a folder.
pub fn run(config: &RunConfig, data: &Path, folder: &Path) -> std::result::Result<Found, Box<dyn Error>> {
    let (run, model, stop) = (folder.join("run"), folder.join("model"), AtomicBool::new(false));
    // checkpoints, metrics and results.json; with `resume` a run that was stopped goes on
    let results = experiment::run(config, &RunContext::new(&run, data, Device::Cpu, &stop), &mut ())?;
    let results = results.ok_or("the training was stopped")?;
    println!("parameters  {}", results.cost.parameters);

    let trained = Trained::of_run(&run, Device::Cpu, Some(data))?;
    let benchmark = ood::run(&trained, &foggy(data), &mut |_| {})?;
    let auroc = |score: &fidgp_lab::record::OodScoreRecord| Some((score.name.clone(), score.sets.get("fog")?.AUROC));
    let scores: Vec<_> = benchmark.document.scores.iter().filter_map(auroc).collect();

    model_folder::export(&run, &trained, Dtype::F32, &model)?;
    let noise = (Key::new(7).uniform(&[16, 3, 32, 32], Kind::Float, Device::Cpu) * 255.0).round();
    let mut before = Predictor::new(trained, None, 1 << 26)?;
    let mut opened = Predictor::new(Trained::open(&model, Device::Cpu)?, None, 1 << 26)?;
    let said = before.classify(&noise, 0, Effort::default())?;
    let again = opened.classify(&noise, 0, Effort::default())?;
    let probabilities = |said: &[fidgp_lab::predict::ClassPrediction]| -> Vec<f64> {
        said.iter().flat_map(|one| one.probabilities.clone()).collect()
    };
    let differences = probabilities(&said).into_iter().zip(probabilities(&again)).map(|(a, b)| (a - b).abs());
    let change = differences.fold(0.0, f64::max);
    let mean =
        |of: fn(&fidgp_lab::predict::ClassPrediction) -> f64| said.iter().map(of).sum::<f64>() / said.len() as f64;
    let entropy = [mean(|one| one.total), mean(|one| one.epistemic)];
    let accuracy = results.metrics.get("cls/Acc").copied().flatten().unwrap_or(f64::NAN);
    Ok(Found { accuracy, entropy, scores, change })
}

/// The test images, and the same in fog.
fn foggy(data: &Path) -> Settings {
    Settings {
        model: "vit".to_owned(),
        id: None,
        ood: vec!["fog".to_owned()],
        near: Vec::new(),
        choose_on: Vec::new(),
        root: data.to_owned(),
        u: WeightChoice::Mean,
        draws: 4,
        gradients: true,
        limit: 1000,
        fit: 1000,
        batch: 16,
        seed: 1,
        skip_controls: false,
        command: None,
        more: More::default(),
    }
}

/// The images that the project's tests use.
pub const FEW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fidgp-cli/tests/fixtures/cifar100-small");

#[allow(dead_code, reason = "a test calls `run` with fewer epochs")]
fn main() -> std::result::Result<(), Box<dyn Error>> {
    let data = std::env::args().nth(1).unwrap_or_else(|| FEW.to_owned());
    let folder = std::env::temp_dir().join(format!("fidgp-own-network-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    register()?;
    let found = run(&config(&[])?, Path::new(&data), &folder)?;
    std::fs::remove_dir_all(&folder)?;
    println!("accuracy    {:.1} % of the test images", 100.0 * found.accuracy);
    println!("entropy     {:.3} on images of noise, {:.1e} of it between draws", found.entropy[0], found.entropy[1]);
    println!("AUROC of foggy images against clear ones");
    found.scores.iter().for_each(|(name, auroc)| println!("  {name:<22}{auroc:.3}"));
    println!("exported and opened again: largest change of a probability {}", found.change);
    Ok(())
}
