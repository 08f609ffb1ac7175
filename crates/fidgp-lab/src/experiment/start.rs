//! A start at trained weights.

use std::path::Path;

use fidgp_zoo::{
    ImportMode, ImportReport, StartReport, import_tensors, is_of, reestimate_batch_norm, start_network, weights,
};
use tch::{Device, Kind, Tensor};

use crate::config::{GraphConfig, NetworkConfig, RunConfig, is_graph};
use crate::error::{LabError, Result};
use crate::model::{Model, Normalisation, Signature};
use crate::source::{Source, batches};
use crate::train::checkpoint;

/// Two numbers of a normalisation that differ by less are the same, stored in another precision.
const MOST_DIFFERENCE: f64 = 1e-5;

/// Starts a model at the weights its config names and re-estimates its BatchNorm statistics on training images.
pub fn run(config: &RunConfig, model: &Model, signature: &Signature, images: &dyn Source) -> Result<()> {
    let Some(start) = &config.start else { return Ok(()) };
    let (plain, found) = plain(config, signature, &start.weights, model.store.device())?;
    let kept = wrap(model, &plain)?; // not within the message: that is evaluated only where somebody listens
    tracing::info!("{}\n{found}\n{kept}", start.weights.display());
    reestimate(config, model, images, start.statistics_images)
}

/// The plain network of a config with the weights of a file, whose names may be of another program.
pub fn plain(config: &RunConfig, signature: &Signature, file: &Path, device: Device) -> Result<(Model, ImportReport)> {
    let backbone = config.start.as_ref().is_some_and(|start| start.backbone);
    let bounded = config.network.spectral_norm().is_some();
    let mut config = RunConfig { start: None, ..config.plain() };
    config.network.unbind();
    let model = Model::init(&config, signature, device)?;
    let head = model.network.head().unwrap_or_default();
    let mode = if backbone { ImportMode::Backbone { head } } else { ImportMode::Whole };
    let kept = matches!(&config.network, NetworkConfig::Onnx(graph) if graph.path == *file && graph.kept.is_some());
    if !kept && !file.exists() {
        let why = format!("= {} is not there; configs name it from the folder the command is given in", file.display());
        return Err(LabError::config("start.weights", why));
    }
    if model.normalisation.is_none() && config.normalisation.is_none() {
        let why = "is missing: weights do not say how the columns of a table were scaled for them; give \"none\" where the network \
                   takes and gives numbers as they are, { mean = […], sd = […] } of its columns where it only gives them so, or \
                   \"data\" to scale columns and target by the training rows";
        return Err(LabError::config("normalisation", why));
    }
    let mut tensors = if is_graph(file) { of_graph(&config, &model, file)? } else { weights::read(file)? };
    tensors.retain(|(name, _)| !name.starts_with("optimiser."));
    if let Some(damaged) = checkpoint::not_finite(&tensors) {
        let why = format!("{damaged}: these weights are damaged or of a training that diverged; take others");
        return Err(LabError::File { path: file.to_owned(), why });
    }
    same_bound(bounded, &tensors, file)?;
    same_normalisation(&config, &model, &tensors, file)?;
    // Weights from elsewhere do not say how images are normalised, nor how large the noise of a number is: the config or the
    // training set does.
    let in_file = |name: &str| tensors.iter().any(|(other, _)| other == name);
    let own = model.store.variables().into_iter().filter(|(name, _)| !model.is_of_network(name) && !in_file(name));
    let own: Vec<_> = own.collect();
    let added: Vec<_> = own.iter().map(|(name, _)| name.clone()).collect();
    tensors.extend(own);
    let leave_out_own = |report: &mut ImportReport| report.matched.retain(|name| !added.contains(name));
    let mut report = import_tensors(&model.store, tensors, mode).map_err(|mut error| {
        let fidgp_zoo::Error::Import(report) = &mut error else { return LabError::from(error) };
        leave_out_own(report);
        if report.missing.is_empty() && report.shape_mismatch.iter().all(|mismatch| is_of(&mismatch.name, head)) {
            let why = format!(
                "has a head for other classes; with start.backbone = true all other layers are taken from it\n{report}"
            );
            return LabError::config("start.weights", why);
        }
        error.into()
    })?;
    leave_out_own(&mut report);
    tell(file, &report);
    Ok((model, report))
}

/// The numbers of a graph, under the names of the network; a head for other classes keeps those it was made with.
fn of_graph(config: &RunConfig, model: &Model, file: &Path) -> Result<Vec<(String, Tensor)>> {
    let NetworkConfig::Onnx(graph) = &config.network else {
        let why = "is a graph; it goes with network.kind = \"onnx\" and network.path = the same file";
        return Err(LabError::config("start.weights", why));
    };
    if model.normalisation.is_some() && config.normalisation.is_none() {
        let why = "is missing: a graph does not say how its images are normalised; give what it was trained with, such as \"imagenet\"";
        return Err(LabError::config("normalisation", why));
    }
    let head = model.geometry.iter().find(|layer| layer.is_head);
    let mut graph = model.fitted(graph);
    if graph.path != file {
        graph = GraphConfig { path: file.to_owned(), kept: None, sha256: None, ..graph };
    }
    let mut tensors = graph.import()?.tensors;
    let of_head =
        |name: &str| head.is_some_and(|head| name.strip_prefix(&head.name).is_some_and(|rest| rest.starts_with('.')));
    if let Some(head) = head.filter(|_| !tensors.iter().any(|(name, _)| of_head(name))) {
        tracing::warn!(
            "{}: the head `{}` is for other outputs there; it starts from the seed",
            file.display(),
            head.name
        );
        tensors.extend(model.store.variables().into_iter().filter(|(name, _)| of_head(name)));
    }
    Ok(tensors)
}

/// Refuses weights that were trained under a spectral bound for a network without one: it would compute with larger ones.
fn same_bound(bounded: bool, tensors: &[(String, Tensor)], file: &Path) -> Result<()> {
    let of_bound = tensors.iter().map(|(name, _)| name).filter(|name| !bounded && name.ends_with(".power.left"));
    match of_bound.min() {
        Some(name) => {
            let layer = name.trim_end_matches(".power.left");
            let why = format!(
                "= {} was trained with a spectral bound (`{layer}`), without which its layers are larger than they were; \
                 set the same network.spectral_norm, or start at a network that was trained without",
                file.display()
            );
            Err(LabError::config("start.weights", why))
        }
        None => Ok(()),
    }
}

/// Says in a line what became of a file's tensors, and warns of layers that the network does not have.
fn tell(file: &Path, report: &ImportReport) {
    tracing::info!(target: "start", "{}: {}", file.display(), report.line());
    let unused = report.unused_layers();
    if !unused.is_empty() {
        let listed = unused.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        let more = if unused.len() > 3 { ", …" } else { "" };
        tracing::warn!(
            "{}: the network has no place for {} layers of the file ({listed}{more}), they are not used; is it the weights of this very network?",
            file.display(),
            unused.len()
        );
    }
}

/// Refuses a normalisation that is given and differs from the one the weights bring: the network would see other numbers than
/// the record says.
fn same_normalisation(config: &RunConfig, model: &Model, tensors: &[(String, Tensor)], file: &Path) -> Result<()> {
    let given = config.normalisation.as_ref().and(model.normalisation.as_ref());
    let Some((mean, sd)) = given.map(Normalisation::statistics) else { return Ok(()) };
    let brought = |name: &str| tensors.iter().find(|(other, _)| other == name).map(|(_, tensor)| tensor);
    for (what, ours) in [("mean", mean), ("sd", sd)] {
        let Some(theirs) = brought(&format!("input.{what}")) else { continue };
        let (ours, theirs) = (numbers(ours)?, numbers(theirs)?);
        let same = |(ours, theirs): (&f64, &f64)| (ours - theirs).abs() < MOST_DIFFERENCE;
        if ours.len() != theirs.len() || !ours.iter().zip(&theirs).all(same) {
            let file = file.display();
            let why = format!(
                "gives {what} {ours:.4?}, but {file} was trained with {theirs:.4?}; leave it out: the weights bring their own"
            );
            return Err(LabError::config("normalisation", why));
        }
    }
    Ok(())
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    Ok(Vec::try_from(tensor.to_kind(Kind::Double).to_device(Device::Cpu).reshape([-1]))?)
}

/// Starts a model at a plain one of the same network.
pub fn wrap(model: &Model, plain: &Model) -> Result<StartReport> {
    Ok(start_network(model.network.as_ref(), &model.store, plain.store.variables())?)
}

/// Replaces the BatchNorm statistics by those of so many training images, taken at random.
pub fn reestimate(config: &RunConfig, model: &Model, images: &dyn Source, count: usize) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let mut broken = None;
    let batches = batches(images, model.store.device(), count, config.predict.batch_size)
        .map_while(|batch| batch.map_err(|error: LabError| broken = Some(error)).ok());
    reestimate_batch_norm(model.network.as_ref(), batches)?;
    broken.map_or(Ok(()), Err)
}
