//! The network of a config, and what its layers are before it has numbers.

use fidgp::Key;
use fidgp::layer::{LayerGeometry, Network, trace, trace_to_output};
use fidgp_files::limits::PARAMETERS;
use fidgp_zoo::cost::{Counting, LayerCost};
use fidgp_zoo::{Takes, bayesianise};
use tch::nn::Path;

use super::Signature;
use crate::config::{GraphConfig, NetworkConfig, RunConfig};
use crate::error::{LabError, Result};

/// The layers of one network of a config, traced without numbers.
pub(super) fn geometry(config: &RunConfig, signature: &Signature, outputs: i64) -> Result<Vec<LayerGeometry>> {
    let mut network = sized(config, signature, outputs)?.network()?;
    bayesianise(&mut network, &config.layer_plan())?;
    let NetworkConfig::Onnx(graph) = &config.network else {
        return Ok(trace(&network, &signature.input())?);
    };
    let named = |error: fidgp::Error| {
        let why = match error {
            fidgp::Error::Setting { advice, .. } => advice,
            other => other.to_string(),
        };
        LabError::config("network.path", format!("= {}: {why}", graph.file().display()))
    };
    let (layers, output) = trace_to_output(&network, &signature.input()).map_err(named)?;
    check_output(graph, signature, outputs, &output)?;
    Ok(layers)
}

/// Refuses a graph whose outputs are not what the data need: numbers of a row, or of every pixel.
fn check_output(graph: &GraphConfig, signature: &Signature, wanted: i64, found: &[i64]) -> Result<()> {
    let pixels = matches!(signature, Signature::Segmentation { .. });
    if found.len() == if pixels { 4 } else { 2 } && found[1] == wanted {
        return Ok(());
    }
    let axes: Vec<_> = found.iter().skip(1).map(|size| format!(", {size}")).collect();
    let needed = if pixels { format!("[N, {wanted}, height, width]") } else { format!("[N, {wanted}]") };
    let why = format!(
        "= {}: its outputs have the shape [N{}], the data need {needed}. A graph takes other outputs where one linear layer or \
         convolution alone decides them; else export it with as many as the data have",
        graph.file().display(),
        axes.concat()
    );
    Err(LabError::config("network.path", why))
}

/// Refuses a network that no machine holds, before memory is asked for.
pub(super) fn check_numbers(config: &RunConfig, geometry: &[LayerGeometry]) -> Result<()> {
    let cost = fidgp_zoo::cost::cost(geometry, &config.layer_plan(), Counting::Ours)?;
    let numbers_of = |layer: &LayerCost| layer.parameters + layer.state;
    let heaviest = cost.layers.iter().max_by_key(|layer| numbers_of(layer));
    let numbers = (cost.parameters + cost.state).saturating_mul(config.copies());
    PARAMETERS.check(u64::try_from(numbers).unwrap_or(u64::MAX)).map_err(|exceeded| {
        let of = heaviest.map_or(String::new(), |layer| {
            format!(", {} of them of a layer called `{}`", numbers_of(layer), layer.name)
        });
        LabError::config("network", format!("has {numbers} numbers to store{of}: more than memory holds; {exceeded}"))
    })
}

/// Builds the network, or the members of one.
pub(super) fn network(
    config: &RunConfig,
    signature: &Signature,
    outputs: i64,
    root: &Path,
) -> Result<Box<dyn Network>> {
    let (plan, sized) = (config.layer_plan(), sized(config, signature, outputs)?);
    let one = |path: &Path, key: Key| sized.init(path, &plan, key);
    Ok(config.method.assemble(config.members(), (root, Key::new(config.seed).fold("init")), &one)?)
}

/// The network of a config with so many outputs for data of this kind.
fn sized(config: &RunConfig, signature: &Signature, outputs: i64) -> Result<NetworkConfig> {
    let misfit = |why: &str| Err(LabError::config("network.kind", why));
    match (config.network.takes(), signature) {
        (Takes::Any, _)
        | (Takes::Table, Signature::Regression { .. } | Signature::Rows { .. })
        | (Takes::Images, Signature::Classification { .. })
        | (Takes::Pixels, Signature::Segmentation { .. }) => {
            let mut network = config.network.clone();
            network.fit(&signature.input(), outputs)?;
            if let NetworkConfig::Onnx(graph) = &mut network {
                graph.logits = !matches!(signature, Signature::Regression { .. });
            }
            Ok(network)
        }
        (_, Signature::Segmentation { .. }) => {
            misfit("gives no class for every pixel; use \"fcn\", \"hrnet\" or \"onnx\" for masks")
        }
        (Takes::Pixels, _) => misfit("is for data.set = \"segmentation\""),
        (Takes::Table, _) => {
            misfit(&format!("= \"{}\" takes tables; use \"resnet\" for images", config.network.name()))
        }
        (Takes::Images, _) => misfit("takes images; use \"mlp\" for tables"),
    }
}
