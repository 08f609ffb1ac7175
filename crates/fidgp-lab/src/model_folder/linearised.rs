//! The linearised posterior in a graph.

use std::collections::HashMap;

use fidgp::Key;
use fidgp::conditional::Conditional;
use fidgp::layer::Operation;
use fidgp::linearised::{
    Carried, Directions, Jacobian, LOGIT_DRAWS, LinearisedPosterior, LogitRule, OwnConditional, Precision, Tangent,
};
use fidgp::objective::NumberLikelihood;
use fidgp_onnx::{Graph, Linearised, LinearisedLayer, OwnNoise, Plain};
use tch::{Device, Kind, Tensor};

use super::{Dtype, GraphRequest};
use crate::error::{LabError, Result};
use crate::model::{Model, Signature};
use crate::predict::Trained;
use crate::source::TableView;

/// Most numbers in the inducing matrices of a law that is stored whole: its square is.
const MOST: i64 = 4096;
/// Rows on which a graph is compared with the prediction it stands for, and the difference that is allowed, relative.
const ROWS: i64 = 64;
const PICTURES: i64 = 8;
const MOST_APART: f64 = 1e-3;

fn posterior(model: &Model) -> Result<(&LinearisedPosterior, Tangent<'_>)> {
    let missing = || LabError::config("--draws", "= linearised needs a linearised posterior");
    let posterior = model.posterior.as_ref().ok_or_else(missing)?;
    Ok((posterior, model.tangent(posterior)?))
}

/// How many numbers the law has.
pub(super) fn numbers(trained: &Trained) -> Result<u64> {
    if trained.model.posterior.is_none() {
        return Ok(0); // refused when it is written
    }
    let size = posterior(&trained.model)?.1.size();
    if size > MOST { Ok(0) } else { Ok((size * size) as u64) }
}

/// Everything a graph needs of the law.
pub(super) fn law(trained: &Trained) -> Result<Linearised> {
    let model = &trained.model;
    let (posterior, tangent) = posterior(model)?;
    if tangent.size() > MOST {
        let why = format!(
            "= linearised stores the square of the {} numbers in its inducing matrices; the most are {MOST}: name fewer \
             layers in posterior.layers, or use smaller inducing sizes",
            tangent.size()
        );
        return Err(LabError::config("--draws", why));
    }
    let layers = tangent.layers().iter().map(|layer| own_layer(model, posterior, layer)).collect::<Result<_>>()?;
    let outputs = model.geometry.iter().find(|layer| layer.is_head).map_or(1, |head| head.operation.widths().0);
    let curvature = posterior.precision.curvature;
    let features = posterior.directions == Directions::Features;
    let normals = (model.likelihood.reading().numbers().is_none()).then(|| normals(trained, outputs));
    tch::no_grad(|| {
        let (root, centres) = match posterior.structure.centres() {
            Some(_) => distances(posterior).map(|(root, centres)| (root, Some(centres)))?,
            None => (root(posterior, tangent.layers())?, None),
        };
        Ok(Linearised { layers, root, curvature, outputs, features, centres, normals })
    })
}

fn own_layer(model: &Model, posterior: &LinearisedPosterior, layer: &Carried) -> Result<LinearisedLayer> {
    let inducing = model.network.inducing();
    let weight = inducing.iter().find(|weight| weight.name == layer.name);
    let weight = weight.ok_or_else(|| LabError::config(&*layer.name, "has no inducing weight"))?;
    let lambda = weight.conditional_scale.value().double_value(&[]);
    let exact = weight.config.conditional == Conditional::Matheron;
    let kept = posterior.conditional == OwnConditional::Kept;
    let found = model.network.layers().into_iter().find(|one| one.name() == layer.name);
    let operation = found.map(fidgp::layer::Layer::operation);
    let bias = operation.is_some_and(|one| one.widths().2 > 0);
    let kernel = match operation {
        Some(Operation::Conv(conv)) => conv.weight_shape()[1..].to_vec(),
        _ => Vec::new(),
    };
    Ok(LinearisedLayer {
        name: layer.name.clone(),
        row: layer.row.to_kind(Kind::Float),
        col: layer.col.to_kind(Kind::Float),
        bias,
        scale: layer.scale,
        kernel,
        conditional: kept.then_some(OwnNoise { lambda_squared: lambda * lambda, exact }),
    })
}

/// The normals from which `fidgp predict` draws logits. `[draws, K]`
fn normals(trained: &Trained, classes: i64) -> Tensor {
    let key = Key::new(trained.config.seed).fold("predict"); // as `Predictor`
    let row = |draw: u64| key.at(draw).normal(&[classes], Kind::Double, Device::Cpu);
    Tensor::stack(&(0..LOGIT_DRAWS).map(row).collect::<Vec<_>>(), 0)
}

/// R with `Σ = R Rᵀ`: the covariance of outputs whose Jacobian is the identity is Σ itself.
fn root(posterior: &LinearisedPosterior, layers: &[Carried]) -> Result<Tensor> {
    let rows = |layer: &Carried| match posterior.directions {
        Directions::Features => 1,
        Directions::Gradients => layer.row.size()[0],
    };
    let shapes: Vec<_> = layers.iter().map(|layer| [rows(layer), layer.col.size()[0]]).collect();
    let size: i64 = shapes.iter().map(|[rows, cols]| rows * cols).sum();
    let eye = Tensor::eye(size, (Kind::Double, layers[0].row.device()));
    let (mut start, mut parts) = (0, Vec::new());
    for [rows, cols] in shapes {
        parts.push(eye.f_narrow(1, start, rows * cols)?.f_reshape([1, size, rows, cols])?);
        start += rows * cols;
    }
    let covariance = posterior.structure.covariance(&Jacobian { layers: parts, shares: None })?.f_squeeze_dim(0)?;
    let (values, vectors) = covariance.f_linalg_eigh("L")?;
    Ok((vectors * values.f_clamp_min(0.0)?.f_sqrt()?).f_to_kind(Kind::Float)?)
}

/// What turns the features of all layers, side by side, into coordinates in which distances are lengths, and the centres there.
/// `[D, D]`, `[classes, D]`
fn distances(posterior: &LinearisedPosterior) -> Result<(Tensor, Tensor)> {
    let stored: HashMap<_, _> = posterior.structure.tensors().into_iter().collect();
    let Precision { prior, curvature } = posterior.precision;
    let (mut bases, mut centres) = (Vec::new(), Vec::new());
    for place in 0..posterior.layers.len() {
        let of = |name: &str| &stored[&format!("{place}.{name}")];
        let scale = (of("eigenvalues") * curvature + prior).f_rsqrt()?;
        bases.push(of("basis").f_mul(&scale)?);
        centres.push(of("centres").f_mul(&scale)?);
    }
    let root = Tensor::f_block_diag(&bases)?.f_to_kind(Kind::Float)?;
    Ok((root, Tensor::f_cat(&centres, 1)?.f_to_kind(Kind::Float)?))
}

/// What a graph is compared with: inputs as the network and as the graph take them, and what the model says of them, with the scale on
/// which differences count.
struct Wanted {
    of_graph: Tensor,
    outputs: Vec<(&'static str, Tensor, f64)>,
}

/// Compares a graph with what the model predicts, near the data and far from them.
pub(super) fn check(trained: &Trained, bytes: &[u8], request: &GraphRequest) -> Result<()> {
    let Wanted { of_graph, outputs: wanted } = match trained.model.likelihood.reading().numbers() {
        Some(likelihood) => numbers_wanted(trained, likelihood, request)?,
        None => classes_wanted(trained, request)?,
    };
    let graph = Plain::new(&Graph::of_bytes(bytes)?, Kind::Float)?;
    let outputs = graph.run(&[of_graph])?;
    let most = if request.dtype == Dtype::F16 { 30.0 * MOST_APART } else { MOST_APART };
    for (name, wanted, scale) in wanted {
        let own = graph.outputs().iter().position(|port| port.name == name).map(|place| &outputs[place]);
        let apart = own.map(|own| (own.to_kind(Kind::Double) - &wanted).abs().max().double_value(&[]));
        if apart.is_none_or(|apart| apart.is_nan() || apart > most * scale) {
            let why = format!(
                "= linearised: `{name}` of the graph is {:.2e} from the prediction on random inputs: this network has an operator \
                 whose derivative is not exact as a graph; export draws with --draws K",
                apart.unwrap_or(f64::NAN)
            );
            return Err(LabError::config("--draws", why));
        }
    }
    Ok(())
}

/// Rows of a table, some of them far from the data: as the network takes them, and as the graph does.
fn rows(table: &TableView, request: &GraphRequest) -> [Tensor; 2] {
    let features = table.scale.feature_mean.len() as i64;
    let standard = Key::new(7).fold("export").normal(&[ROWS, features], Kind::Double, Device::Cpu);
    let standard = standard * if table.scale.target_log { 1.0 } else { 3.0 }; // exponentials of what is far are too large
    let [mean, sd] = [&table.scale.feature_mean, &table.scale.feature_sd].map(|list| Tensor::from_slice(list));
    let rows = (&standard * sd + mean).to_kind(Kind::Float);
    let standard = standard.to_kind(Kind::Float);
    [standard.shallow_clone(), if request.normalised { standard } else { rows }]
}

fn numbers_wanted(trained: &Trained, likelihood: &dyn NumberLikelihood, request: &GraphRequest) -> Result<Wanted> {
    let table =
        trained.table.as_ref().ok_or_else(|| LabError::config("--draws", "= linearised needs a table's scale"))?;
    let (posterior, tangent) = posterior(&trained.model)?;
    let [standard, of_graph] = rows(table, request);
    let ours = posterior.regress(&tangent, likelihood, &[standard])?;
    let unit = table.scale.target_sd;
    let (mut mean, mut epistemic, mut noise) =
        (ours.mean * unit + table.scale.target_mean, ours.epistemic * unit.powi(2), ours.noise * unit.powi(2));
    if table.scale.target_log {
        let both = &epistemic + &noise;
        mean = (mean + &both / 2.0).exp();
        let all = mean.square() * both.expm1();
        epistemic = mean.square() * epistemic.expm1();
        noise = (all - &epistemic).clamp_min(0.0);
    }
    let largest = |values: &Tensor| values.abs().max().double_value(&[]);
    let of_mean = if table.scale.target_log { largest(&mean) } else { unit };
    let (epistemic, noise) = (epistemic.sqrt(), noise.sqrt());
    let (of_epistemic, of_noise) = (largest(&epistemic), largest(&noise));
    let outputs = vec![("mean", mean, of_mean), ("epistemic", epistemic, of_epistemic), ("aleatoric", noise, of_noise)];
    Ok(Wanted { of_graph, outputs })
}

fn classes_wanted(trained: &Trained, request: &GraphRequest) -> Result<Wanted> {
    let (posterior, tangent) = posterior(&trained.model)?;
    let [standard, of_graph] =
        match (&trained.table, Signature::expected(&trained.config, Some(trained.classes.len()))?) {
            (Some(table), _) => rows(table, request),
            (None, Signature::Classification { image, .. }) => pictures(trained, &image, request)?,
            _ => return Err(LabError::config("--draws", "= linearised is for tables and for classes of images")),
        };
    let key = Key::new(trained.config.seed).fold("predict");
    let rule = LogitRule::Draws { count: LOGIT_DRAWS as i64, key };
    let ours = posterior.classify(&tangent, &[standard], rule)?;
    let outputs =
        vec![("probabilities", ours.probs, 1.0), ("total", ours.total, 1.0), ("epistemic", ours.epistemic, 1.0)];
    Ok(Wanted { of_graph, outputs })
}

/// Noise as pictures: as the network takes them, and as the graph does.
fn pictures(trained: &Trained, image: &[i64; 3], request: &GraphRequest) -> Result<[Tensor; 2]> {
    let shape = [&[PICTURES], &image[..]].concat();
    let pixels = Key::new(7).fold("export").uniform(&shape, Kind::Float, Device::Cpu).f_mul_scalar(255.0)?.f_floor()?;
    let [mean, sd] = super::values::normalisation(trained)?
        .ok_or_else(|| LabError::config("--draws", "= linearised needs what pictures are normalised with"))?
        .map(|list| Tensor::from_slice(&list).view([1, -1, 1, 1]));
    let standard = ((&pixels - mean) / sd).to_kind(Kind::Float);
    Ok([standard.shallow_clone(), if request.normalised { standard } else { pixels }])
}
