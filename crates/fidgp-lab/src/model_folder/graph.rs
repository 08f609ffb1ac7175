//! A trained model as one ONNX graph, for any runtime.

use std::collections::BTreeMap;
use std::path::Path;

use fidgp::Key;
use fidgp::layer::{Factors, Mode, Pass};
use fidgp::linalg::Check;
use fidgp::objective::Reading;
use fidgp_data::file_sha256;
use fidgp_onnx::{Exported, Outputs};
use tch::{Kind, Tensor};

use super::state_dict::{matrix_parts, plain_variables};
use super::{Dtype, linearised};
use crate::config::NetworkConfig;
use crate::error::{LabError, Result};
use crate::model::{Model, Signature};
use crate::predict::Trained;
use crate::record::{commit, write_atomically};

/// Which weights a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// The posterior mean.
    Mean,
    /// So many draws, those of `fidgp predict`.
    Draws(u64),
    /// The posterior mean, and the closed form of the linearised posterior around it.
    Linearised,
}

/// Writes a model as one graph; its bytes.
///
/// # Errors
/// When the network did not come from a graph, has parts that a graph does not, or the disk fails.
pub fn export_graph(trained: &Trained, weights: Weights, dtype: Dtype, out: &Path) -> Result<usize> {
    let NetworkConfig::Onnx(graph) = &trained.config.network else {
        let why =
            "is not \"onnx\": only networks that came from a graph go out as one; --format torch takes every network";
        return Err(LabError::config("network.kind", why));
    };
    check(trained, weights)?;
    let signature = Signature::expected(&trained.config, Some(trained.classes.len()))?;
    let outputs = outputs(trained, &signature)?;
    let import = super::state_dict::import(trained, graph)?;
    if let Signature::Classification { image: [channels, ..], .. } = &signature
        && import.network.has_channels_last(*channels)
    {
        let why = "has the channels of pictures last, which an exported graph has first: export the source with them first \
                   (tf2onnx --inputs-as-nchw), or use --format torch";
        return Err(LabError::config("network.path", why));
    }
    let draws = draws(trained, weights)?;
    let metadata = metadata(trained, weights, graph.file())?;
    let normalisation = normalisation(trained)?;
    if matches!(dtype, Dtype::Bf16 | Dtype::Int8) {
        return Err(LabError::config(
            "--dtype",
            "must be f32 or f16 in an ONNX file; bf16 and int8 are for --format folder",
        ));
    }
    let half = dtype == Dtype::F16;
    let linearised = (weights == Weights::Linearised).then(|| linearised::law(trained)).transpose()?;
    let source = graph.file();
    let axes = if matches!(signature, Signature::Classification { .. }) { 4 } else { 2 };
    let exported =
        Exported { source, import: &import, draws, normalisation, axes, outputs, metadata, half, linearised };
    let bytes = exported.bytes()?;
    if weights == Weights::Linearised {
        linearised::check(trained, &bytes, dtype)?;
    }
    write_atomically(out, &bytes)?;
    Ok(bytes.len())
}

fn check(trained: &Trained, weights: Weights) -> Result<()> {
    let refuse = |why: &str| Err(LabError::config("--format onnx", why));
    if weights == Weights::Draws(0) {
        return Err(LabError::config("--draws", "0 must be at least 1, or `mean`"));
    }
    if !trained.model.network.custom().is_empty() || trained.model.network.members() != 1 {
        return refuse("is for plain networks and those with inducing weights");
    }
    if !trained.model.norms.is_empty() {
        return refuse("does not know BatchNorm statistics of each draw's own (predict.statistics_images)");
    }
    if weights == Weights::Linearised && trained.model.posterior.is_none() {
        let why = "= linearised needs a linearised posterior, which this folder has not; `fidgp fit-posterior` fits one to a table's network";
        return Err(LabError::config("--draws", why));
    }
    if trained.table.as_ref().is_some_and(|table| table.scale.target_log) {
        return refuse("gives the number that a network was trained for, not one whose logarithm it predicts");
    }
    let on_outputs = trained.model.network.inducing().iter().any(|weight| weight.draws_outputs());
    if on_outputs && matches!(weights, Weights::Draws(_)) {
        return refuse("has no weights to draw where the noise is on the outputs; use --draws mean");
    }
    Ok(())
}

fn outputs(trained: &Trained, signature: &Signature) -> Result<Outputs> {
    match (trained.model.likelihood.reading(), signature) {
        (Reading::Classes, Signature::Classification { classes, .. } | Signature::Rows { classes, .. }) => {
            Ok(Outputs::Classes { classes: *classes, temperature: trained.model.temperature.unwrap_or(1.0) })
        }
        (Reading::Numbers(likelihood), Signature::Regression { .. }) => {
            let target =
                trained.table.as_ref().map_or([0.0, 1.0], |table| [table.scale.target_mean, table.scale.target_sd]);
            let noise = likelihood.constant_variance().map(|variance| variance.double_value(&[]));
            Ok(Outputs::Numbers { target, noise })
        }
        _ => Err(LabError::config("--format onnx", "is for classes of images and for tables")),
    }
}

/// What inputs are normalised with; pictures are 0 to 255.
fn normalisation(trained: &Trained) -> Result<Option<[Vec<f64>; 2]>> {
    if let Some(normalisation) = &trained.model.normalisation {
        let (mean, sd) = normalisation.statistics();
        let scaled = |values: &Tensor| Vec::<f64>::try_from(values.to_kind(Kind::Double) * 255.0);
        return Ok(Some([scaled(mean)?, scaled(sd)?]));
    }
    Ok(trained.table.as_ref().map(|table| [table.scale.feature_mean.clone(), table.scale.feature_sd.clone()]))
}

/// The network's variables, plain, for each draw.
fn draws(trained: &Trained, weights: Weights) -> Result<Vec<BTreeMap<String, Tensor>>> {
    let model = &trained.model;
    let (inducing, plain) = (model.network.inducing(), plain_variables(model));
    let factors = Factors::of(&inducing, Check::Now)?;
    let key = Key::new(trained.config.seed).fold("predict"); // as `Trained::draws`
    let count = match weights {
        Weights::Draws(count) if !inducing.is_empty() => count,
        _ => 1,
    };
    let one = |k: u64| -> Result<BTreeMap<String, Tensor>> {
        let pass = match weights {
            Weights::Mean | Weights::Linearised => Pass::mean(&inducing, &factors, Mode::Eval)?,
            Weights::Draws(_) => draw(model, &factors, key.at(k))?,
        };
        let mut all: BTreeMap<_, _> =
            plain.iter().map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect();
        let mut names: Vec<_> = inducing.iter().map(|weight| weight.name.as_str()).collect();
        names.sort_unstable();
        for (name, matrix) in names.into_iter().zip(pass.weights()) {
            all.extend(matrix_parts(model, name, &matrix)?);
        }
        Ok(all)
    };
    tch::no_grad(|| (0..count).map(one).collect())
}

fn draw(model: &Model, factors: &Factors, key: Key) -> Result<Pass> {
    let mut passes = Pass::draw_many(&model.network.inducing(), factors, &[key], false)?;
    passes.pop().ok_or_else(|| LabError::config("--draws", "gave no weights"))
}

/// What it is; what the source says of itself, its licence too, is kept beside it.
fn metadata(trained: &Trained, weights: Weights, source: &Path) -> Result<BTreeMap<String, String>> {
    let config = toml::to_string(&trained.config).map_err(|error| LabError::config("run.toml", error.to_string()))?;
    let weights = match weights {
        Weights::Mean => "posterior mean".to_owned(),
        Weights::Draws(count) => format!("{count} posterior draws"),
        Weights::Linearised => "posterior mean, with the linearised posterior".to_owned(),
    };
    let mut all = BTreeMap::from([
        ("fidgp.config".to_owned(), config),
        ("fidgp.weights".to_owned(), weights),
        ("fidgp.source_sha256".to_owned(), file_sha256(source)?),
        ("fidgp.commit".to_owned(), commit()),
        ("fidgp.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ]);
    if !trained.classes.is_empty() {
        let names = serde_json::to_string(&trained.classes).unwrap_or_default();
        all.insert("fidgp.classes".to_owned(), names);
    }
    if let Some(temperature) = trained.model.temperature {
        all.insert("fidgp.temperature".to_owned(), temperature.to_string());
    }
    Ok(all)
}
