//! Serves models with their uncertainty over HTTP.
//!
//! A [`Model`] answers a batch of inputs; everything else is here: the Open Inference Protocol v2 (JSON and binary tensors) and
//! one plain endpoint, a queue and a worker for each model, limits, metrics, a log of predictions, and a page to try it.
//! Nothing in this crate knows tensors or libtorch, so its tests run in seconds.
//!
//! ARCHITECTURE.md has the order of the modules.

pub mod answer;
mod bodies;
mod failure;
pub mod limits;
pub mod log;
mod metrics;
pub mod model;
mod open_files;
mod page;
mod plain;
pub mod protocol;
pub mod queue;
pub mod repository;
mod routes;
mod rows;
pub mod security;
pub mod server;
mod turns;

pub use answer::{Answer, Decision, Interval, LabelSet, OutOfDistribution, Prediction, Ranked, Uncertainty};
pub use limits::Limits;
pub use model::{Column, Holds, Item, Model, ModelError, Options, Outputs, Signature, Takes};
pub use server::{Address, Server, Tls};
