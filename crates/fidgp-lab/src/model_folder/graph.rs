//! A trained model as one ONNX graph, for any runtime.

use std::collections::BTreeMap;
use std::path::Path;

use fidgp::objective::Reading;
use fidgp_data::file_sha256;
use fidgp_decision::Calibration;
use fidgp_metrics::recalibration::Recalibration;
use fidgp_onnx::{Exported, Graph, Import, Outputs, Rules, Source, Wanted};
use tch::Tensor;
use toml::Value;

use super::values::{self, Values, Variables};
use super::{Dtype, GraphRequest, Weights, decisions, linearised, sketch};
use crate::config::NetworkConfig;
use crate::error::{LabError, Result};
use crate::files::NETWORK_FILE;
use crate::model::Signature;
use crate::predict::Trained;
use crate::record::{commit, write_atomically};
use crate::train::checkpoint;

/// What was written.
#[derive(Debug)]
pub struct WrittenGraph {
    /// Bytes of the file.
    pub bytes: usize,
    /// Its outputs.
    pub outputs: Vec<String>,
    /// Why the rules of a calibrated model are not in it.
    pub without_rules: Option<String>,
}

/// About how many bytes a file will have.
///
/// # Errors
/// When a covariance cannot be factorised, or there are more bytes than a file can have.
pub fn graph_bytes(trained: &Trained, request: &GraphRequest) -> Result<u64> {
    values::check(trained, "--format onnx")?;
    let (own, common) = Values::new(trained)?.counts();
    let draws = match request.weights {
        Weights::Draws(count) => count,
        Weights::Mean | Weights::Linearised => 1,
    };
    let width = if request.dtype == Dtype::F16 { 2 } else { 4 };
    let law = if request.weights == Weights::Linearised { 4 * linearised::numbers(trained)? } else { 0 };
    let bytes = own.saturating_mul(draws).saturating_add(common).saturating_mul(width).saturating_add(law);
    fidgp_onnx::check_bytes(bytes)?;
    Ok(bytes)
}

/// Writes the model of a folder as one graph.
///
/// # Errors
/// When the network has no graph or parts that a graph has not, or the disk fails.
pub fn export_graph(folder: &Path, trained: &Trained, request: &GraphRequest, out: &Path) -> Result<WrittenGraph> {
    let GraphRequest { weights, dtype, .. } = *request;
    check(trained, request)?;
    let signature = Signature::expected(&trained.config, Some(trained.classes.len()))?;
    let outputs = outputs(trained, &signature)?;
    let draws = draws(trained, weights)?;
    let drawn;
    let (source, import) = if let NetworkConfig::Onnx(graph) = &trained.config.network {
        let import = super::state_dict::import(trained, graph)?;
        check_layout(&signature, &import)?;
        (Source::File(graph.file()), import)
    } else {
        drawn = sketch::graph(trained, &draws[0], &signature)?;
        (Source::Bytes(&drawn), Import::new(Graph::of_bytes(&drawn)?, &Wanted::default())?)
    };
    let (rules, without_rules) = rules(folder, trained, request)?;
    let metadata = metadata(trained, request, &draws, rules.as_ref().map(|(_, found)| found))?;
    let exported = Exported {
        source,
        import: &import,
        draws,
        normalisation: if request.normalised { None } else { values::normalisation(trained)? },
        axes: if matches!(signature, Signature::Classification { .. }) { 4 } else { 2 },
        outputs,
        rules: rules.map(|(rules, _)| rules),
        metadata,
        half: dtype == Dtype::F16,
        linearised: (weights == Weights::Linearised).then(|| linearised::law(trained)).transpose()?,
    };
    let bytes = exported.bytes()?;
    if weights == Weights::Linearised {
        linearised::check(trained, &bytes, request)?;
    }
    write_atomically(out, &bytes)?;
    let outputs = Graph::of_bytes(&bytes)?.outputs.into_iter().map(|port| port.name).collect();
    Ok(WrittenGraph { bytes: bytes.len(), outputs, without_rules })
}

/// Refuses a graph whose pictures have their channels last: what is written has them first.
fn check_layout(signature: &Signature, import: &Import) -> Result<()> {
    match signature {
        Signature::Classification { image: [channels, ..], .. } if import.network.has_channels_last(*channels) => {
            let why = "has the channels of pictures last, which an exported graph has first: export the source with them first \
                       (tf2onnx --inputs-as-nchw), or use --format torch";
            Err(LabError::config("network.path", why))
        }
        _ => Ok(()),
    }
}

fn check(trained: &Trained, request: &GraphRequest) -> Result<()> {
    let weights = request.weights;
    if weights == Weights::Draws(0) {
        return Err(LabError::config("--draws", "0 must be at least 1, or `mean`"));
    }
    if matches!(request.dtype, Dtype::Bf16 | Dtype::Int8) {
        let why = "must be f32 or f16 in an ONNX file; bf16 and int8 are for --format folder";
        return Err(LabError::config("--dtype", why));
    }
    values::check(trained, "--format onnx")?;
    if weights == Weights::Linearised && trained.model.posterior.is_none() {
        let why =
            "= linearised needs a linearised posterior, which this folder has not; `fidgp fit-posterior` fits one";
        return Err(LabError::config("--draws", why));
    }
    Ok(())
}

/// The rules of a calibrated model, and why there are none.
type FoundRules = (Option<(Rules, Calibration)>, Option<String>);

/// The rules of a calibrated model, where they are for what the graph predicts; else why they are not.
fn rules(folder: &Path, trained: &Trained, request: &GraphRequest) -> Result<FoundRules> {
    let Some(found) = trained.rules(folder)? else { return Ok((None, None)) };
    let linearised = trained.model.posterior.is_some();
    let same = match request.weights {
        Weights::Linearised => linearised,
        _ if linearised => false,
        Weights::Draws(count) => count == found.draws || !trained.model.network.is_random(),
        Weights::Mean => !trained.model.network.is_random(),
    };
    let without = |why: String| Ok((None, Some(why)));
    if !same {
        let way = if linearised { "--draws linearised".to_owned() } else { format!("--draws {}", found.draws) };
        return without(format!("its rules are for another prediction; {way} keeps them"));
    }
    if request.dtype != Dtype::F32 {
        return without("its rules are for weights that are not rounded; --dtype f32 keeps them".to_owned());
    }
    Ok((Some((decisions::rules(&found, trained, request.normalised)?, found)), None))
}

fn outputs(trained: &Trained, signature: &Signature) -> Result<Outputs> {
    match (trained.model.likelihood.reading(), signature) {
        (Reading::Classes, Signature::Classification { classes, .. } | Signature::Rows { classes, .. }) => {
            let temperature = trained.model.temperature.unwrap_or(1.0);
            Ok(Outputs::Classes { classes: *classes, temperature, map: scaling(trained)? })
        }
        (Reading::Numbers(likelihood), Signature::Regression { .. }) => {
            let target =
                trained.table.as_ref().map_or([0.0, 1.0], |table| [table.scale.target_mean, table.scale.target_sd]);
            let noise = likelihood.constant_variance().map(|variance| variance.double_value(&[]));
            let logarithm = trained.table.as_ref().is_some_and(|table| table.scale.target_log);
            Ok(Outputs::Numbers { target, noise, logarithm })
        }
        _ => Err(LabError::config("--format onnx", "is for classes of images and for tables")),
    }
}

/// Factors and shifts of a map of probabilities that a graph can compute.
fn scaling(trained: &Trained) -> Result<Option<[Vec<f64>; 2]>> {
    match &trained.model.recalibration {
        None => Ok(None),
        Some(Recalibration::VectorScaling(scaling)) => Ok(Some([scaling.factors.clone(), scaling.shifts.clone()])),
        Some(other) => {
            let why = format!(
                "cannot hold probabilities that are recalibrated by {}; a graph can do vector scaling: run `fidgp \
                 calibrate` with --recalibrate vector-scaling, or with --recalibrate none",
                other.kind().name()
            );
            Err(LabError::config("--format onnx", why))
        }
    }
}

/// The network's variables, plain, for each draw.
fn draws(trained: &Trained, weights: Weights) -> Result<Vec<Variables>> {
    let values = Values::new(trained)?;
    match weights {
        Weights::Draws(count) if !trained.model.network.inducing().is_empty() => {
            (0..count).map(|k| values.draw(k, "--draws")).collect()
        }
        _ => Ok(vec![values.mean()?]),
    }
}

/// What it is; what the source says of itself, its licence too, is kept beside it.
fn metadata(
    trained: &Trained,
    request: &GraphRequest,
    draws: &[Variables],
    rules: Option<&Calibration>,
) -> Result<BTreeMap<String, String>> {
    let weights = match request.weights {
        Weights::Mean => "posterior mean".to_owned(),
        Weights::Draws(count) => format!("{count} posterior draws"),
        Weights::Linearised => "posterior mean, with the linearised posterior".to_owned(),
    };
    let named: Vec<(String, &Tensor)> = (0..)
        .zip(draws)
        .flat_map(|(k, draw): (u64, _)| draw.iter().map(move |(name, held)| (format!("{k}.{name}"), held)))
        .collect();
    let inputs = if request.normalised {
        "normalised"
    } else if trained.table.is_some() {
        "in the units of the data"
    } else if trained.model.normalisation.is_some() {
        "pixels, 0 to 255"
    } else {
        "as the network takes them"
    };
    let mut all = BTreeMap::from([
        ("fidgp.config".to_owned(), config(trained)?),
        ("fidgp.weights".to_owned(), weights),
        ("fidgp.weights_sha256".to_owned(), checkpoint::sha256(named.iter().map(|(name, held)| (name, *held)))?),
        ("fidgp.inputs".to_owned(), inputs.to_owned()),
        ("fidgp.commit".to_owned(), commit()),
        ("fidgp.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ]);
    if let NetworkConfig::Onnx(graph) = &trained.config.network {
        all.insert("fidgp.source_sha256".to_owned(), file_sha256(graph.file())?);
    }
    let json =
        |value: serde_json::Result<String>| value.map_err(|error| LabError::config("metadata", error.to_string()));
    if !trained.classes.is_empty() {
        all.insert("fidgp.classes".to_owned(), json(serde_json::to_string(&trained.classes))?);
    }
    if let Some(table) = &trained.table {
        all.insert("fidgp.features".to_owned(), json(serde_json::to_string(&table.features))?);
    }
    if let Some(temperature) = trained.model.temperature {
        all.insert("fidgp.temperature".to_owned(), temperature.to_string());
    }
    if let Some(map) = &trained.model.recalibration {
        all.insert("fidgp.recalibration".to_owned(), json(serde_json::to_string(map))?);
    }
    if let Some(rules) = rules {
        all.insert("fidgp.rules".to_owned(), json(serde_json::to_string(&rules.rules))?);
        all.insert("fidgp.rules_sha256".to_owned(), rules.digest()?);
    }
    Ok(all)
}

/// The run's config without folders of this machine.
fn config(trained: &Trained) -> Result<String> {
    let unwritten = |error: toml::ser::Error| LabError::config("run.toml", error.to_string());
    let mut config = Value::try_from(&trained.config).map_err(unwritten)?;
    for (part, key) in [("data", "path"), ("data", "test"), ("network", "path"), ("start", "weights")] {
        if let Some(Value::String(path)) = config.get_mut(part).and_then(|table| table.get_mut(key)) {
            let name = Path::new(path).file_name().map(|name| name.display().to_string()).unwrap_or_default();
            *path = if part == "network" { NETWORK_FILE.to_owned() } else { name };
        }
    }
    toml::to_string(&config).map_err(unwritten)
}
