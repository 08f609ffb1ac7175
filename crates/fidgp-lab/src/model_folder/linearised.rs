//! The linearised posterior in a graph.

use fidgp::Key;
use fidgp::conditional::Conditional;
use fidgp::linearised::{Carried, Jacobian, LinearisedPosterior, OwnConditional, Tangent};
use fidgp_onnx::{Graph, Linearised, LinearisedLayer, OwnNoise, Plain};
use tch::{Device, Kind, Tensor};

use super::{Dtype, GraphRequest};
use crate::error::{LabError, Result};
use crate::model::Model;
use crate::predict::Trained;

/// Most numbers in the inducing matrices of a law that is stored whole: its square is.
const MOST: i64 = 4096;
/// Rows on which a graph is compared with the prediction it stands for, and the difference that is allowed, relative.
const ROWS: i64 = 64;
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
    tch::no_grad(|| Ok(Linearised { layers, root: root(posterior, tangent.layers())?, curvature, outputs }))
}

fn own_layer(model: &Model, posterior: &LinearisedPosterior, layer: &Carried) -> Result<LinearisedLayer> {
    let inducing = model.network.inducing();
    let weight = inducing.iter().find(|weight| weight.name == layer.name);
    let weight = weight.ok_or_else(|| LabError::config(&*layer.name, "has no inducing weight"))?;
    let lambda = weight.conditional_scale.value().double_value(&[]);
    let exact = weight.config.conditional == Conditional::Matheron;
    let kept = posterior.conditional == OwnConditional::Kept;
    let found = model.network.layers().into_iter().find(|one| one.name() == layer.name);
    let bias = found.is_some_and(|one| one.operation().widths().2 > 0);
    Ok(LinearisedLayer {
        name: layer.name.clone(),
        row: layer.row.to_kind(Kind::Float),
        col: layer.col.to_kind(Kind::Float),
        bias,
        scale: layer.scale,
        conditional: kept.then_some(OwnNoise { lambda_squared: lambda * lambda, exact }),
    })
}

/// R with `Σ = R Rᵀ`: the covariance of outputs whose Jacobian is the identity is Σ itself.
fn root(posterior: &LinearisedPosterior, layers: &[Carried]) -> Result<Tensor> {
    let size: i64 = layers.iter().map(Carried::size).sum();
    let eye = Tensor::eye(size, (Kind::Double, layers[0].row.device()));
    let (mut start, mut parts) = (0, Vec::new());
    for layer in layers {
        let (rows, cols) = (layer.row.size()[0], layer.col.size()[0]);
        parts.push(eye.f_narrow(1, start, layer.size())?.f_reshape([1, size, rows, cols])?);
        start += layer.size();
    }
    let covariance = posterior.structure.covariance(&Jacobian { layers: parts, shares: None })?.f_squeeze_dim(0)?;
    let (values, vectors) = covariance.f_linalg_eigh("L")?;
    Ok((vectors * values.f_clamp_min(0.0)?.f_sqrt()?).f_to_kind(Kind::Float)?)
}

/// Compares a graph with what the model predicts, near the data and far from them.
pub(super) fn check(trained: &Trained, bytes: &[u8], request: &GraphRequest) -> Result<()> {
    let model = &trained.model;
    let (Some(likelihood), Some(table)) = (model.likelihood.reading().numbers(), &trained.table) else {
        return Err(LabError::config(
            "--draws",
            "= linearised is for tables (data.set = \"table\") whose target is a number; for classes export draws with --draws K",
        ));
    };
    let (posterior, tangent) = posterior(model)?;
    let features = table.scale.feature_mean.len() as i64;
    let standard = Key::new(7).fold("export").normal(&[ROWS, features], Kind::Double, Device::Cpu);
    let standard = standard * if table.scale.target_log { 1.0 } else { 3.0 }; // exponentials of what is far are too large
    let [mean, sd] = [&table.scale.feature_mean, &table.scale.feature_sd].map(|list| Tensor::from_slice(list));
    let rows = (&standard * sd + mean).to_kind(Kind::Float);
    let ours = posterior.regress(&tangent, likelihood, &[standard.to_kind(Kind::Float)])?;
    let unit = table.scale.target_sd;
    let graph = Plain::new(&Graph::of_bytes(bytes)?, Kind::Float)?;
    let outputs = graph.run(&[if request.normalised { standard.to_kind(Kind::Float) } else { rows }])?;
    let most = if request.dtype == Dtype::F16 { 30.0 * MOST_APART } else { MOST_APART };
    let (mut mean, mut epistemic, mut noise) =
        (ours.mean * unit + table.scale.target_mean, ours.epistemic * unit.powi(2), ours.noise * unit.powi(2));
    if table.scale.target_log {
        let both = &epistemic + &noise;
        mean = (mean + &both / 2.0).exp();
        let all = mean.square() * both.expm1();
        epistemic = mean.square() * epistemic.expm1();
        noise = (all - &epistemic).clamp_min(0.0);
    }
    let wanted = [("mean", mean), ("epistemic", epistemic.sqrt()), ("aleatoric", noise.sqrt())];
    for (name, wanted) in wanted {
        let own = graph.outputs().iter().position(|port| port.name == name).map(|place| &outputs[place]);
        let apart = own.map(|own| (own.to_kind(Kind::Double) - &wanted).abs().max().double_value(&[]));
        let of_unit = name == "mean" && !table.scale.target_log;
        let scale = if of_unit { unit } else { wanted.abs().max().double_value(&[]) };
        if apart.is_none_or(|apart| apart.is_nan() || apart > most * scale) {
            let why = format!(
                "= linearised: `{name}` of the graph is {:.2e} from the prediction on {ROWS} random rows: this network has \
                 an operator whose derivative is not exact as a graph; export draws with --draws K",
                apart.unwrap_or(f64::NAN)
            );
            return Err(LabError::config("--draws", why));
        }
    }
    Ok(())
}
