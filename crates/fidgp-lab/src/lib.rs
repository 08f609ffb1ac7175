//! The laboratory: train → predict → evaluate → record → report.
//!
//! On disk the flow is the same: `run.toml → checkpoint → results.json → report`. Each step reads only what stands left
//! of it.

pub mod bench;
pub mod calibrate;
mod capture;
pub mod compare;
pub mod complexity;
pub mod config;
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
pub mod run_folder;
pub mod source;
pub mod train;
pub mod verify;

pub use error::{LabError, Result};
pub use fidgp_report::{self as report, record};
