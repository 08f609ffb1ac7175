//! What can be typed.

mod calibrate;
mod complexity;
mod compress;
mod documents;
mod eval;
mod export;
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
pub use documents::{Completions, Man};
pub use eval::Eval;
pub use export::{Dtype, Export, Format};
use fidgp_lab::bench::growth::Sweep;
use fidgp_lab::config::Override;
pub use init::Init;
pub use launch::Launch;
pub use monitor::Monitor;
pub use onnx::{Onnx, OnnxInspect, OnnxRun};
pub use ood::Ood;
pub use serve::{LogFormat, Serve};
pub use wrap::Wrap;

/// Neural networks that report their uncertainty.
#[derive(Debug, Parser)]
#[command(name = "fidgp", version, propagate_version = true, arg_required_else_help = true)]
pub struct Arguments {
    /// Print results, errors and warnings only: no progress, no hints
    #[arg(long, short, global = true, display_order = 1000)]
    pub quiet: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    // A doc comment here would replace the long help of the command's own struct: only structs without one have it here.
    /// Train a small network and plot its uncertainty (under a minute)
    Demo(Demo),
    Init(Init),
    Train(Train),
    Launch(Launch),
    Eval(Eval),
    Calibrate(Calibrate),
    FitPosterior(FitPosterior),
    Reference(Reference),
    Predict(Predict),
    Serve(Serve),
    Monitor(Monitor),
    Ood(Ood),
    Wrap(Wrap),
    Compress(Box<Compress>),
    Export(Export),
    /// Inspect ONNX files and run them
    #[command(subcommand)]
    Onnx(Onnx),
    Compare(Compare),
    /// Write one HTML page with figures, of runs or of a calibrated model
    Report(Report),
    Cost(Cost),
    Complexity(Complexity),
    Bench(Bench),
    Verify(Verify),
    /// List the known data sets, or check one on disk
    Data(Data),
    Doctor(Doctor),
    Completions(Completions),
    Man(Man),
}

/// A count of at least 1.
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
    /// Threads inside an operation [default: OMP_NUM_THREADS; else 1 for MLPs, otherwise all cores]
    #[arg(long, value_parser = at_least_1::<NonZero<u16>>)]
    pub threads: Option<NonZero<u16>>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  fidgp demo\n  fidgp demo --seed 2 --out runs/second")]
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

/// Train a network from a config, evaluate it and save the run.
///
/// One TOML file describes a run; --set changes any value. The run folder holds the full config (run.toml), checkpoint/,
/// metrics.jsonl (one line per epoch) and results.json. Ctrl-C finishes the step and saves; --resume continues.
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
    /// Resume the run in this folder from its last checkpoint
    #[arg(long, value_name = "RUN", conflicts_with_all = ["config", "overrides", "out", "force"])]
    pub resume: Option<PathBuf>,
    /// Resume if the folder holds a run of this config, begin it if not: one command for a launcher that restarts
    #[arg(long, conflicts_with_all = ["resume", "force"])]
    pub resume_if_begun: bool,
    /// Start again and replace the run in the folder
    #[arg(long)]
    pub force: bool,
    /// Read the data, build the network, time a few steps; print what would be trained and how long it takes; write nothing
    #[arg(long, conflicts_with_all = ["resume", "member"])]
    pub dry_run: bool,
    /// Train only this member of a deep ensemble, counted from 0. Run one process per device, then --resume the run
    #[arg(long, value_name = "K", conflicts_with = "force")]
    pub member: Option<i64>,
    #[command(flatten)]
    pub place: Place,
    /// Splits of a UCI set to train: all, or numbers such as 0,1,2 [default: all; with --resume the splits of the run; others are
    /// added]
    #[arg(long)]
    pub splits: Option<String>,
    /// Splits trained at the same time [default: one per core]
    #[arg(long, value_parser = at_least_1::<NonZero<usize>>)]
    pub parallel: Option<NonZero<usize>>,
}

/// Fit the linearised posterior: uncertainty that grows away from the data.
///
/// Takes one pass over the training data and trains nothing. The posterior is stored in the folder; eval, predict, ood, serve,
/// calibrate and export then use it. results.json of a run is measured again. For numbers and classes, of tables and pictures;
/// not for segmentation. --set posterior.kind=flow removes it. Keys: docs/config/posterior.md.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp fit-posterior runs/houses\n  fidgp fit-posterior runs/photos --set posterior.directions=features --data ~/data\n  \
    fidgp fit-posterior runs/houses --set posterior.prior_precision=evidence\n  fidgp fit-posterior runs/houses --set posterior.kind=flow"
)]
pub struct FitPosterior {
    /// A run folder, or a model folder
    pub run: PathBuf,
    /// Change a value of [posterior]: --set posterior.structure=low-rank, --set posterior.prior_precision=evidence
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// Leave results.json of the run as it is, instead of measuring again
    #[arg(long)]
    pub no_eval: bool,
    #[command(flatten)]
    pub place: Place,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Compare a run on the 1-D curve with HMC and with an exact Gaussian process.
///
/// Hamiltonian Monte Carlo samples all weights of the run's network; the Gaussian process is that of the linearised network.
///
/// For small networks without BatchNorm and with a fixed noise, such as configs/regression-small.toml; computed in f64 on
/// the CPU. Look at R-hat first: above 1.05 the chains have not converged.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp train configs/regression-small.toml\n  fidgp reference runs/regression-small --chains 4 --draws 1000"
)]
pub struct Reference {
    /// A run folder
    pub run: PathBuf,
    /// Chains of Hamiltonian Monte Carlo
    #[arg(long, value_parser = at_least_1::<NonZero<u32>>, default_value = "4")]
    pub chains: NonZero<u32>,
    /// Draws to keep from each chain
    #[arg(long, default_value_t = 1000)]
    pub draws: u32,
    /// Warm-up draws of each chain
    #[arg(long, default_value_t = 1000)]
    pub warmup: u32,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Time training steps and predictions on random images.
///
/// Several configs are measured in turn in one process. Compare ratios within one call; machines are noisy.
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
    /// Also time the parts of a Bayesian step: factors, draw, gradient, network, and one layer in both evaluation orders
    #[arg(long)]
    pub parts: bool,
    /// Measure how time grows along an axis: m, k, batch or layers; give values to replace the defaults (repeatable)
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

/// Predict pictures or table rows, with uncertainty.
///
/// Probabilities are means over weight draws. Uncertainty of classes is in nats: total (entropy of the mean), aleatoric (from
/// the data) and epistemic (from the weights). A calibrated model (`fidgp calibrate`) adds a decision (accept, abstain or
/// out-of-distribution) with its reason, and prediction sets or intervals. Features outside the training data are named. A
/// file that cannot be read is named, and the others are still predicted.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp predict runs/cifar100-fidgp-all picture.png\n  fidgp predict MODEL photos/ --top 5 --draws 4\n  \
    fidgp predict runs/regression-left points.csv --json\n  fidgp predict runs/houses - --jsonl < houses.csv >> log.jsonl"
)]
pub struct Predict {
    /// A run folder, or a model folder made by `fidgp export`
    pub model: PathBuf,
    /// Pictures (PNG, JPEG, WebP) or folders of them, class folders too; for rows, tables (.csv, .npy, .safetensors); `-` is
    /// standard input: a table, or names of pictures, one per line
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// Weight draws K [default: as in the model's config]
    #[arg(long)]
    pub draws: Option<u64>,
    /// Pictures: draw until no probability has a Monte Carlo error above this; --draws is the maximum
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
    /// Print one line of JSON per input as it is predicted; `fidgp monitor` reads this
    #[arg(long, conflicts_with = "json")]
    pub jsonl: bool,
    /// Print CSV, row by row
    #[arg(long, conflicts_with_all = ["json", "jsonl"])]
    pub csv: bool,
    /// cpu, cuda, cuda:N or auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Threads inside an operation [default: OMP_NUM_THREADS; else 1 for MLPs, otherwise all cores]
    #[arg(long, value_parser = at_least_1::<NonZero<u16>>)]
    pub threads: Option<NonZero<u16>>,
}

/// Train several configs or methods with the same seeds and compare them.
///
/// Every run has its own folder. Finished runs are skipped, stopped runs are resumed. The report has means
/// and deviations over seeds, paired differences from the first config with bootstrap intervals, costs, and size against
/// quality.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp compare configs/cifar100-deterministic.toml configs/cifar100-fidgp-all.toml --seeds 3\n  \
    fidgp compare configs/uci-yacht.toml --methods deterministic,mc-dropout,ensemble,ffgu,fidgp --data ~/data"
)]
pub struct Compare {
    /// The config files. The first (with the first method) is the reference
    #[arg(required = true)]
    pub configs: Vec<PathBuf>,
    /// Run every config with each of these methods
    #[arg(long, value_delimiter = ',', value_name = "METHOD,…")]
    pub methods: Vec<String>,
    /// Change a value of every config: dotted.key=value (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// Number of seeds, counted up from the seed of the first config
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
    /// Largest number of images per set for --ood
    #[arg(long, value_parser = at_least_1::<NonZero<usize>>, requires = "ood")]
    pub ood_limit: Option<NonZero<usize>>,
    /// Also measure every classifier with a temperature fitted on its validation examples
    #[arg(long)]
    pub temperature: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp report runs/houses\n  fidgp report runs/ --out overview.html\n  fidgp report models/cifar100-resnet18-fidgp --out trust.html"
)]
pub struct Report {
    /// Run folders, folders with several runs, results.json files, or one model folder
    #[arg(required = true, value_name = "RUN|MODEL")]
    pub runs: Vec<PathBuf>,
    /// File or folder to write to [default: report.html in the first folder]
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
#[command(
    after_help = "Examples:\n  fidgp cost configs/cifar100-fidgp-all.toml\n  fidgp cost configs/cifar100-fidgp-all.toml --set method=deterministic --json\n  \
    fidgp cost runs/houses/run.toml --explain"
)]
pub struct Cost {
    /// The config file
    pub config: PathBuf,
    /// Change a config value: dotted.key=value (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// Count parameters as in the paper's released code, to compare with its tables
    #[arg(long)]
    pub compat: bool,
    /// Show for each Bayesian layer whether W is built or applied factor by factor, with both counts and the reason
    ///
    /// Training and prediction make the same choice. --json always contains it, as `layers[].orders`.
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
#[command(after_help = "Examples:\n  fidgp verify\n  fidgp verify --precision f32 --device cuda")]
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

/// Show versions, devices and folders, and check the installation
#[derive(Debug, Args)]
pub struct Doctor {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  fidgp data\n  fidgp data check houses.csv\n  fidgp data check photos/")]
pub struct Data {
    #[command(subcommand)]
    pub action: Option<DataAction>,
}

#[derive(Debug, Subcommand)]
pub enum DataAction {
    /// Check a file or folder: rows, columns, classes, balance, channel statistics, checksums
    #[command(after_help = "Examples:\n  fidgp data check houses.csv\n  fidgp data check photos/ --json")]
    Check {
        /// The file or folder
        path: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}
