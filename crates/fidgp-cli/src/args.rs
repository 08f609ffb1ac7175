//! What can be typed.

mod calibrate;
mod complexity;
mod compress;
mod init;
mod launch;
mod monitor;
mod onnx;
mod ood;
mod serve;
mod wrap;

use std::num::NonZero;
use std::path::PathBuf;

pub use calibrate::Calibrate;
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use complexity::Complexity;
pub use compress::Compress;
use fidgp_lab::bench::growth::Sweep;
use fidgp_lab::config::Override;
pub use init::Init;
pub use launch::Launch;
pub use monitor::Monitor;
pub use onnx::{Onnx, OnnxInspect, OnnxRun};
pub use ood::Ood;
pub use serve::Serve;
pub use wrap::Wrap;

/// Neural networks that know what they do not know.
///
/// Bayesian layers whose weights follow from a small inducing matrix with a normalising-flow posterior (FiD-GP).
/// Start with `fidgp demo`; then copy a file from configs/ and run `fidgp train`.
#[derive(Debug, Parser)]
#[command(name = "fidgp", version, propagate_version = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train on a curve with a gap and draw where the network is sure and where it is not (under a minute)
    Demo(Demo),
    /// Write a config for your own table or pictures
    Init(Init),
    /// Train, evaluate and record a run
    Train(Train),
    /// Train by several processes on this machine
    Launch(Launch),
    /// Measure the trained network of a run again, with other draws or on another device
    Eval(Eval),
    /// Fit rules for decisions to examples that were not trained on: sets, intervals, when to abstain, what is foreign
    Calibrate(Calibrate),
    /// Fit the linearised posterior to a trained network: uncertainty that grows where there are no data
    FitPosterior(FitPosterior),
    /// Compare a run on the curve with reference posteriors: HMC and exact Gaussian processes
    Reference(Reference),
    /// Say what pictures show, or what a table's rows give, and how sure the model is
    Predict(Predict),
    /// Serve models over HTTP, with their uncertainty
    Serve(Serve),
    /// Say from logs of predictions whether a model is still used on what it was calibrated for
    Monitor(Monitor),
    /// Compare out-of-distribution scores of a model, controls first
    Ood(Ood),
    /// Wrap a trained network: how much of it the Bayesian one keeps, before any training
    Wrap(Wrap),
    /// Make a trained network smaller: an inducing size for each layer, within a budget
    Compress(Box<Compress>),
    /// Turn the trained network of a run into a folder that can be passed on
    Export(Export),
    /// Look at ONNX files, and run them as they are
    #[command(subcommand)]
    Onnx(Onnx),
    /// Run several configs or methods under the same seeds and set them side by side
    Compare(Compare),
    /// Turn one or several runs, or a calibrated model, into one HTML page with figures
    Report(Report),
    /// Count parameters, operations and bytes of a config, layer by layer
    Cost(Cost),
    /// The complexity of a layer of each method: formulas beside what is counted and measured (about a minute)
    Complexity(Complexity),
    /// Time training steps, predictions and their parts
    Bench(Bench),
    /// Check the mathematics against reference numbers
    Verify(Verify),
    /// List the known data sets, or look at one on disk
    Data(Data),
    /// Show versions, devices and folders, run a self-check and say what is wrong
    Doctor,
}

/// A count that may not be 0, told in words.
fn at_least_1<N: std::str::FromStr>(text: &str) -> Result<N, &'static str> {
    text.parse().map_err(|_| "must be a whole number, 1 or more, and no larger than makes sense")
}

// Where a command computes and finds its data; no doc comment, which would replace the command's own.
#[derive(Debug, Args)]
pub struct Place {
    /// cpu, cuda, cuda:N or auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Folder with the data sets [default: $FIDGP_DATA, then ./data]
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Threads inside an operation [default: 1 for MLPs, whose matrices are small; otherwise all cores]
    #[arg(long, value_parser = at_least_1::<NonZero<u16>>)]
    pub threads: Option<NonZero<u16>>,
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Folder for the run and its report
    #[arg(long, default_value = "runs/demo")]
    pub out: PathBuf,
    /// Seed of data, start and noise
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// cpu, cuda, cuda:N or auto (the demo's matrices are small: the CPU is faster)
    #[arg(long, default_value = "cpu")]
    pub device: String,
}

/// Train, evaluate and record a run.
///
/// A run is one TOML file; every value can be changed with --set. The folder holds the resolved config (run.toml),
/// checkpoint/, metrics.jsonl (a line per epoch) and results.json. Ctrl-C finishes the step and saves; --resume goes on.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp train configs/regression-left.toml\n  fidgp train configs/uci-boston.toml --splits all --data ~/data\n  \
    fidgp train configs/regression-left.toml --set train.optimiser.learning_rate=0.002 --set seed=2 --out runs/other\n  fidgp train --resume runs/regression-left"
)]
pub struct Train {
    /// The config file
    #[arg(required_unless_present = "resume")]
    pub config: Option<PathBuf>,
    /// Change a config value: dotted.key=value (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// The run folder [default: runs/<name>]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Go on with the run in this folder, from its last checkpoint
    #[arg(long, value_name = "RUN", conflicts_with_all = ["config", "overrides", "out", "force"])]
    pub resume: Option<PathBuf>,
    /// Start again even if the folder holds a run
    #[arg(long)]
    pub force: bool,
    /// Read the data, build the network, say what would be trained and stop; nothing is written
    #[arg(long, conflicts_with_all = ["resume", "member"])]
    pub dry_run: bool,
    /// Only this member of a deep ensemble, counted from 0: run one for each device, then --resume the whole
    #[arg(long, value_name = "K", conflicts_with = "force")]
    pub member: Option<i64>,
    #[command(flatten)]
    pub place: Place,
    /// Which standard splits of a UCI set: all, or numbers such as 0,1,2 [default: all; with --resume those of the run, to which
    /// others are added]
    #[arg(long)]
    pub splits: Option<String>,
    /// Splits trained at the same time [default: one per core]
    #[arg(long, value_parser = at_least_1::<NonZero<usize>>)]
    pub parallel: Option<NonZero<usize>>,
}

/// Measure the trained network of a run again.
///
/// Reads the run's config and its best (or last) checkpoint, or a model folder made by `fidgp export`; writes nothing. The
/// same number of draws gives the numbers of results.json, up to rounding.
#[derive(Debug, Args)]
pub struct Eval {
    /// A run folder, or a model folder
    pub run: PathBuf,
    /// Weight draws K [default: as in the run's config]
    #[arg(long)]
    pub draws: Option<u64>,
    #[command(flatten)]
    pub place: Place,
    /// The whole results document as JSON
    #[arg(long)]
    pub json: bool,
}

/// Fit the linearised posterior to a trained network: uncertainty that grows where there are no data.
///
/// One pass over the training data; nothing is trained. The posterior is kept in the folder and predicts from then on: eval,
/// predict, export. --set posterior.kind=flow removes it. For tables; see [posterior] in docs/guide.md.
#[derive(Debug, Args)]
pub struct FitPosterior {
    /// A run folder, or a model folder
    pub run: PathBuf,
    /// Change a value of [posterior]: --set posterior.structure=low-rank, --set posterior.prior_precision=evidence
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    #[command(flatten)]
    pub place: Place,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Compare a run on the curve with reference posteriors of its network: Hamiltonian Monte Carlo over all weights, and the exact
/// Gaussian process of the linearised network.
///
/// For small networks without BatchNorm and with a fixed noise, such as configs/regression-small.toml; computed in f64 on
/// the CPU. Look at R-hat first: chains above 1.05 have not met.
#[derive(Debug, Args)]
pub struct Reference {
    /// A run folder
    pub run: PathBuf,
    /// Chains of Hamiltonian Monte Carlo
    #[arg(long, value_parser = at_least_1::<NonZero<u32>>, default_value = "4")]
    pub chains: NonZero<u32>,
    /// Draws of each chain that are kept
    #[arg(long, default_value_t = 1000)]
    pub draws: u32,
    /// Draws of each chain in which its steps are found
    #[arg(long, default_value_t = 1000)]
    pub warmup: u32,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Time training steps, predictions and their parts, on random images of a config's size.
///
/// Several configs are measured one after the other in one process: compare them as ratios, machines are noisy.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp bench configs/cifar100-deterministic.toml configs/cifar100-fidgp-all.toml\n  \
    fidgp bench configs/cifar100-fidgp-four.toml --batch 32 --draws 8 --device cpu --json\n  \
    fidgp bench configs/cifar100-fidgp-all.toml --grow m --grow k=1,2,4 --grow layers --batch 8 --out runs/growth"
)]
pub struct Bench {
    /// The config files
    #[arg(required = true)]
    pub configs: Vec<PathBuf>,
    /// Change a value of every config: dotted.key=value (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// Images in a batch
    #[arg(long, value_parser = at_least_1::<NonZero<u32>>, default_value = "32")]
    pub batch: NonZero<u32>,
    /// Weight draws K of a prediction
    #[arg(long, value_parser = at_least_1::<NonZero<u64>>, default_value = "8")]
    pub draws: NonZero<u64>,
    /// The parts of a step of a Bayesian network as well: factors, draw, gradient, network, and one layer by both orders
    #[arg(long)]
    pub parts: bool,
    /// How time grows along an axis while the rest stays: m, k, batch or layers, with values if not the usual ones (repeatable)
    ///
    /// m: inducing size R = C (32,64,128,256; [[inducing.rules]] keep theirs). k: weight draws (1,2,4,8,16,32; prediction only).
    /// batch: images (1,8,32,128,512). layers, of a ResNet: 0 (plain weights), 1 to 4 (the last so many of the paper's four:
    /// layer2.1.conv1, layer2.1.conv2, layer4.1.conv1, layer4.1.conv2), all (0,1,4,all). One config, with inducing weights for m
    /// and layers. The least times stand beside their growth since the first value, and the growth of the multiplications counted.
    #[arg(long, value_name = "AXIS[=VALUE,…]", conflicts_with = "parts")]
    pub grow: Vec<Sweep>,
    /// With --grow: folder for growth.json, report.html and its figures
    #[arg(long, requires = "grow")]
    pub out: Option<PathBuf>,
    /// Samples of each time, of which the median is shown
    #[arg(long, value_parser = at_least_1::<NonZero<usize>>, default_value = "7")]
    pub rounds: NonZero<usize>,
    /// cpu, cuda, cuda:N or auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Say what pictures show, or what a table's rows give, and how sure the model is.
///
/// Probabilities are means over weight draws. Uncertainty is in nats: total (entropy of the mean), aleatoric (what the data
/// leaves open) and epistemic (what the weights leave open). A model with rules (`fidgp calibrate`) also says what to do:
/// accept, abstain or out-of-distribution, why, and which classes or numbers cannot be ruled out. Features outside the
/// training data are named. Bad files are named, the rest is still predicted.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp predict runs/cifar100-fidgp-all picture.png\n  fidgp predict MODEL photos/ --top 5 --draws 4\n  \
    fidgp predict runs/regression-left points.csv --json\n  fidgp predict runs/houses - --jsonl < houses.csv >> log.jsonl"
)]
pub struct Predict {
    /// A run folder, or a model folder made by `fidgp export`
    pub model: PathBuf,
    /// Pictures (PNG, JPEG, WebP) or folders of them, class folders too; for rows, tables (.csv, .npy, .safetensors); `-` is
    /// standard input: a table, or the names of pictures, one a line
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// Weight draws K [default: as in the model's config]
    #[arg(long)]
    pub draws: Option<u64>,
    /// Stop drawing once no probability has a Monte-Carlo error above this; --draws is then the most that are made
    #[arg(long)]
    pub tolerance: Option<f64>,
    /// Classes shown for each picture
    #[arg(long, value_parser = at_least_1::<NonZero<usize>>, default_value = "3")]
    pub top: NonZero<usize>,
    /// Segmentation: the folder for maps of prediction and uncertainty
    #[arg(long, default_value = "maps", value_name = "FOLDER")]
    pub maps: PathBuf,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// As a line of JSON for each input, written as they are made: what `fidgp monitor` reads
    #[arg(long, conflicts_with = "json")]
    pub jsonl: bool,
    /// As CSV, written as it is made
    #[arg(long, conflicts_with_all = ["json", "jsonl"])]
    pub csv: bool,
    /// cpu, cuda, cuda:N or auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Threads inside an operation [default: 1 for MLPs, whose matrices are small; otherwise all cores]
    #[arg(long, value_parser = at_least_1::<NonZero<u16>>)]
    pub threads: Option<NonZero<u16>>,
}

/// Turn the trained network of a run into a folder that can be passed on.
///
/// The folder has the form of the Hugging Face Hub: config.json, model.safetensors, preprocessor_config.json and a card
/// with the run's results. `fidgp predict FOLDER` needs nothing else. Other formats are single files: `onnx`, a graph for any
/// runtime whose outputs are probabilities (or mean) and uncertainties, for networks that came from a graph; `torch`, the
/// posterior mean as a plain state dict.
#[derive(Debug, Args)]
pub struct Export {
    /// The run folder
    pub run: PathBuf,
    /// Where to write the model: a folder, or a file for the formats onnx and torch
    #[arg(long)]
    pub out: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value = "folder")]
    pub format: Format,
    /// onnx: `mean`, how many draws of the weights the file holds [default: as in the run's config], or `linearised`: the closed
    /// form of a table's linearised posterior
    #[arg(long, value_name = "K|mean|linearised")]
    pub draws: Option<String>,
    /// Type of the stored numbers; f16 halves the size, and what does not bear rounding stays in f32
    #[arg(long, value_enum, default_value = "f32")]
    pub dtype: Dtype,
    /// Folder with the data sets, for class names that the run does not have [default: $FIDGP_DATA, then ./data]
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Write even if the folder holds a model
    #[arg(long)]
    pub force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Folder,
    Onnx,
    Torch,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Dtype {
    F32,
    F16,
}

/// Run several configs or methods under the same seeds and set them side by side.
///
/// Every run has a folder of its own; one that is finished is not repeated, one that was stopped goes on. The report has means
/// and deviations over seeds, paired differences from the first config with bootstrap intervals, costs, and size against
/// quality.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp compare configs/cifar100-deterministic.toml configs/cifar100-fidgp-all.toml --seeds 3\n  \
    fidgp compare configs/uci-yacht.toml --methods deterministic,mc-dropout,ensemble,ffgu,fidgp --data ~/data"
)]
pub struct Compare {
    /// The config files; the first (with the first method) is what the others are compared with
    #[arg(required = true)]
    pub configs: Vec<PathBuf>,
    /// Run every config with each of these methods
    #[arg(long, value_delimiter = ',', value_name = "METHOD,…")]
    pub methods: Vec<String>,
    /// Change a value of every config: dotted.key=value (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// Runs of each config, all under the same seeds, which count up from that of the first
    #[arg(long, value_parser = at_least_1::<NonZero<u64>>, default_value = "3")]
    pub seeds: NonZero<u64>,
    /// Folder for the runs and the report
    #[arg(long, default_value = "runs/compare")]
    pub out: PathBuf,
    #[command(flatten)]
    pub place: Place,
    /// Which standard splits of a UCI set: all, or numbers such as 0,1,2
    #[arg(long, default_value = "all")]
    pub splits: String,
    /// Splits trained at the same time [default: one per core]
    #[arg(long, value_parser = at_least_1::<NonZero<usize>>)]
    pub parallel: Option<NonZero<usize>>,
    /// Score these sets as out of distribution with every run, as `fidgp ood` does
    #[arg(long, value_delimiter = ',', value_name = "SET,…")]
    pub ood: Vec<String>,
    /// Most images of a set for --ood
    #[arg(long, value_parser = at_least_1::<NonZero<usize>>, requires = "ood")]
    pub ood_limit: Option<NonZero<usize>>,
    /// Measure every classification once more with a temperature fitted on its validation examples
    #[arg(long)]
    pub temperature: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Report {
    /// Run folders, or folders that hold several; or one model folder
    #[arg(required = true, value_name = "RUN|MODEL")]
    pub runs: Vec<PathBuf>,
    /// Where to write the page [default: report.html in the first]
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// Count parameters, operations and bytes of a config, layer by layer.
///
/// Nothing is trained and no data is read. FLOPs are two for each multiply-accumulate of one input and one weight draw, by
/// the paper's order of evaluation and by ours; those of a prediction are of one input with all draws or members. Of a deep
/// ensemble the layers are those of one member, parameters and bytes those of all. Bytes in f16 are those with every number
/// halved; `fidgp export --dtype f16` keeps vectors in f32, which is a few per cent more.
#[derive(Debug, Args)]
pub struct Cost {
    /// The config file
    pub config: PathBuf,
    /// Change a config value: dotted.key=value (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// Count as the paper's released code stores things, to compare with its tables
    #[arg(long)]
    pub compat: bool,
    /// For each Bayesian layer the order of evaluation: W built, or applied factor by factor; both counts, and why
    ///
    /// It is the choice that training and prediction make. With --json it is always there, as `layers[].orders`.
    #[arg(long, conflicts_with_all = ["compat", "json"])]
    pub explain: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Check the mathematics against reference numbers.
///
/// The error of a quantity is max|Δ| / max(1, max|expected|): at most 1e-9 in f64, 1e-4 in f32. Quantities that this
/// version does not know are listed as not checked. Exit code 1 if any fails.
#[derive(Debug, Args)]
pub struct Verify {
    /// A file of reference vectors [default: the one inside the program]
    pub file: Option<PathBuf>,
    /// Precision of the computation
    #[arg(long, value_enum, default_value = "f64")]
    pub precision: Precision,
    /// cpu, cuda, cuda:N or auto
    #[arg(long, default_value = "cpu")]
    pub device: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Precision {
    F64,
    F32,
}

#[derive(Debug, Args)]
pub struct Data {
    #[command(subcommand)]
    pub action: Option<DataAction>,
}

#[derive(Debug, Subcommand)]
pub enum DataAction {
    /// Say what a file or folder holds: rows, classes, balance, channel statistics, checksums
    Check {
        /// The file or folder
        path: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}
