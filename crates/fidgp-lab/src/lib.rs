//! The laboratory: train → predict → evaluate → record → report.
//!
//! On disk the flow is the same: `run.toml → checkpoint → results.json → report`. Each step reads only what stands left
//! of it.
//!
//! | to | use |
//! |---|---|
//! | train what a config describes | [`experiment::run`]; a task of your own: [`experiment::run_task`] |
//! | wrap a trained network: make it Bayesian | [`experiment::wrap`](fn@experiment::wrap) |
//! | predict with uncertainty | [`predict::Predictor`], which owns a [`predict::Trained`] model |
//! | score images that are out of distribution | [`ood::run`] |
//! | pass a model on | [`model_folder::export`] |
//!
//! A network of your own joins by [`config::NetworkConfig::register`]: `crates/fidgp-lab/examples/own_network.rs` defines one, and trains,
//! scores, exports and opens it. `crates/fidgp-zoo/examples/wrap_trained.rs` makes a trained one Bayesian without a config.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use fidgp::predict::Effort;
//! use fidgp_lab::predict::{Predictor, Trained};
//! use fidgp_lab::{config, experiment, run_folder::RunContext};
//!
//! let text = r#"
//!     name = "curve"
//!     method = "fidgp"
//!     data = { set = "synthetic-1d", train = 40, validation = 10, test = 10 }
//!     network = { kind = "mlp", hidden = [8], activation = "tanh", batch_norm = false }
//!     inducing = { inducing_rows = 4, inducing_cols = 4 }
//!     likelihood = { kind = "gaussian", noise = { kind = "fixed", sd = 0.1 } }
//!     train = { epochs = 2, batch_size = 20, optimiser = { kind = "adam", learning_rate = 0.01 } }
//!     predict = { draws = 4 }
//! "#;
//! let config = config::parse(text, &["train.epochs=1".parse()?])?;
//! let (folder, stop) = (tempfile::tempdir()?, AtomicBool::new(false));
//! let run = folder.path().join("run");
//! let context = RunContext::new(&run, "data", tch::Device::Cpu, &stop);
//! let results = experiment::run(&config, &context, &mut ())?.expect("nobody stopped it");
//! assert!(results.metrics["reg/RMSE"].is_some());
//!
//! let trained = Trained::open(&run, tch::Device::Cpu)?;
//! let mut predictor = Predictor::new(trained, None, 1 << 20)?;
//! let said = predictor.regress(&[-0.5, 0.0, 0.5], Effort::default())?;
//! assert!(said.len() == 3 && said.iter().all(|one| one.epistemic_sd > 0.0 && one.sd > one.epistemic_sd));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bench;
pub mod calibrate;
mod capture;
pub mod compare;
pub mod complexity;
pub mod config;
pub mod corruptions;
pub mod cost;
pub mod device;
pub mod error;
pub mod evaluate;
pub mod experiment;
pub mod files;
mod json;
pub mod maps;
pub mod model;
pub mod model_folder;
pub mod ood;
pub mod predict;
pub mod reference;
pub mod run_folder;
pub mod source;
pub mod starter;
pub mod train;
pub mod verify;

pub use error::{LabError, Result};
pub use fidgp_report::{self as report, record};
pub use fidgp_zoo::weights;
