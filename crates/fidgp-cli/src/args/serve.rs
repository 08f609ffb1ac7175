//! `fidgp serve`

use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::at_least_1;

/// Serve models over HTTP, with their uncertainty.
///
/// Speaks the Open Inference Protocol v2 (clients of KServe and Triton work unchanged), answers plain requests at /predict,
/// has a page to try it at /, and metrics for Prometheus at /metrics. Listens on this machine only unless --host says otherwise.
/// Ctrl-C or SIGTERM finishes the requests under way.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp serve models/cifar100-resnet18-fidgp\n  curl --data-binary @picture.png -H 'Content-Type: image/png' localhost:8000/predict\n  \
    fidgp serve cats=models/cats houses=runs/houses --port 9000 --log predictions.jsonl\n  \
    fidgp serve models/cats --host 0.0.0.0 --token-file token --tls-cert chain.pem --tls-key key.pem"
)]
pub struct Serve {
    /// Model or run folders, under their own names or as NAME=FOLDER
    #[arg(required = true, value_name = "[NAME=]FOLDER")]
    pub models: Vec<String>,
    /// Address to listen on; 0.0.0.0 is every interface
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// Port; 0 is any that is free
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// cpu, cuda, cuda:N or auto
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Threads inside an operation [default: OMP_NUM_THREADS; else 1 if all models are MLPs, otherwise all cores]
    #[arg(long, value_parser = at_least_1::<NonZero<u16>>)]
    pub threads: Option<NonZero<u16>>,
    /// File with a token that requests must send (Authorization: Bearer TOKEN)
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate chain, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Write a line of JSON for each answer to this file
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Log the features of rows as well
    #[arg(long, requires = "log")]
    pub log_inputs: bool,
    /// Print a line for each request, with its time, status and ids
    #[arg(long, value_name = "FORMAT")]
    pub requests: Option<LogFormat>,
    /// Inputs that go through a model at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub batch: u32,
    /// Models that compute at the same time; the others wait for their turn
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_1::<NonZero<u16>>)]
    pub computing: NonZero<u16>,
    /// How long a request waits for others to share its batch, milliseconds; a lone request does not wait
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub window_ms: u64,
    /// Inputs that may wait for a model before requests are refused
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub queue: u32,
    /// Largest body of a request, MiB
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub body_mb: u32,
    /// Largest picture, million pixels [default: 50, or 4 for segmentation]
    #[arg(long, value_name = "MP", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub picture_mp: Option<u32>,
    /// Seconds after which a request is given up
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// Let requests load and unload models
    #[arg(long)]
    pub allow_control: bool,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// An object in each line.
    Json,
}
