//! A trained network made Bayesian.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fidgp_lab::config::{self, Override, RunConfig, StartConfig};
use fidgp_lab::run_folder::RunContext;
use fidgp_lab::{LabError, device, experiment};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::of_lab;
use crate::train::{data_root, threads_for, watched, with_threads};

/// A network: a config (TOML), or the file of a graph.
#[derive(FromPyObject)]
pub enum Network {
    Graph(PathBuf),
    Config((String,)),
}

/// Wraps the network of a config or graph into a run folder, and tells as JSON what that does to it. `changes` are dotted keys
/// with their values, `key=value`. A signal's exception comes when the work is done.
#[pyfunction]
#[pyo3(signature = (network, changes, weights, run, data, device, threads, overwrite))]
#[expect(clippy::too_many_arguments, reason = "keywords, for the one function of Python that calls it")]
pub fn wrap(
    py: Python,
    network: Network,
    changes: Vec<String>,
    weights: Option<PathBuf>,
    run: PathBuf,
    data: Option<PathBuf>,
    device: &str,
    threads: Option<u16>,
    overwrite: bool,
) -> PyResult<String> {
    let wanted = wanted(&network, &changes, weights.as_deref()).map_err(|error| of_lab(&error))?;
    let threads = threads_for(&wanted, threads)?;
    let device = device::choose(device).map_err(|error| of_lab(&error))?;
    let stop = AtomicBool::new(false);
    let context = RunContext {
        force: overwrite,
        resume_command: format!("fidgp.train(None, '{}')", run.display()),
        ..RunContext::new(run, data_root(data), device, &stop)
    };
    let work = || with_threads(threads, || experiment::wrap(&wanted, &context, true, &mut |_| ()));
    let report = watched(py, &stop, work)?.map_err(|error| of_lab(&error))?;
    serde_json::to_string(&report).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// As `fidgp wrap` reads it.
fn wanted(network: &Network, changes: &[String], weights: Option<&Path>) -> Result<RunConfig, LabError> {
    let changes = changes.iter().map(|change| change.parse()).collect::<Result<Vec<Override>, _>>()?;
    let mut config = match network {
        Network::Graph(file) => config::around_graph(file, &changes)?,
        Network::Config((text,)) => config::parse(text, &changes)?,
    };
    if let Some(weights) = weights {
        let statistics_images = config.start.as_ref().map_or_else(StartConfig::default_images, |s| s.statistics_images);
        let backbone = config.start.as_ref().is_some_and(|start| start.backbone);
        config.start = Some(StartConfig { weights: weights.to_owned(), statistics_images, backbone });
    }
    Ok(config)
}
