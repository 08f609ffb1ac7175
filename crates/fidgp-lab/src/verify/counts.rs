//! Parameters and multiply-accumulates of whole networks, exact integers. The key says which network and which plan:
//! `resnet18_cifar100_det`, `fidgp_resnet18_imagenet_all_lin100x128`, `made_128_16`.

use fidgp::flow::{FlowConfig, FlowSettings, MadeConfig};
use fidgp::posterior::PosteriorConfig;
use fidgp::weight::InducingConfig;
use fidgp_zoo::fcn::PAPER_FOUR_FCN;
use fidgp_zoo::plan::PAPER_FOUR;
use fidgp_zoo::{
    Architecture, Counting, Depth, FcnConfig, HrnetConfig, LayerKind, LayerPlan, ResnetConfig, cost, trace,
};
use tch::Tensor;

use super::case::Case;
use super::error::{Result, VerifyError};
use super::node::Node;
use super::setting::Setting;

/// The inducing size of convolutions, and of linear layers, where the key does not say otherwise.
const USUAL: i64 = 128;
const USUAL_LINEAR: [i64; 2] = [100, 128];

pub(super) fn check_parameters(case: &mut Case, node: &Node, _root: &Node, _setting: Setting) {
    for (key, entry) in node.entries().unwrap_or_default() {
        if !entry.is_object() {
            check_count(case, node, key, parameters(key, USUAL));
            continue;
        }
        case.uses(node, &[key]);
        for (size, _) in entry.entries().unwrap_or_default() {
            check_count(case, &entry, size, size.parse().ok().and_then(|m: u32| parameters(key, m.into())));
        }
    }
}

pub(super) fn check_macs(case: &mut Case, node: &Node, _root: &Node, _setting: Setting) {
    for (key, _) in node.entries().unwrap_or_default() {
        check_count(case, node, key, macs(key));
    }
}

fn check_count(case: &mut Case, node: &Node, key: &str, count: Option<Result<i64>>) {
    match count {
        Some(count) => case.check_within(node, key, 0.0, || Ok(Tensor::from_slice(&[count?]))),
        None => case.skip(node, key, "a network that is not built yet"),
    }
}

/// The released code's count for a key; none where the key is not understood.
fn parameters(key: &str, size: i64) -> Option<Result<i64>> {
    if let Some(sizes) = key.strip_prefix("made_") {
        let (dim, hidden) = pair(sizes, '_')?;
        return Some(Ok(MadeConfig { hidden: Some(hidden), ..MadeConfig::compat() }.parameter_count(dim)));
    }
    let (posterior, rest) = match key.split_once('_')? {
        ("ffgu", rest) => (PosteriorConfig::Diagonal, rest),
        ("fidgp", rest) => (PosteriorConfig::Flow { flow: FlowConfig::default() }, rest),
        (network @ ("fcn" | "hrnet"), "ffgu") => (PosteriorConfig::Diagonal, network),
        (network @ ("fcn" | "hrnet"), "fidgp" | "fidgp_4layers") => {
            (PosteriorConfig::Flow { flow: FlowConfig::default() }, network)
        }
        _ => {
            let network = segmenter(key).or_else(|| resnet(key.strip_suffix("_det")?))?;
            return Some(count(&*network, None, &LayerPlan::dense()));
        }
    };
    let config =
        InducingConfig { inducing_rows: size.into(), inducing_cols: size.into(), posterior, ..Default::default() };
    if let Some(network) = segmenter(rest) {
        let four = key.ends_with("_4layers");
        let plan = if four { LayerPlan::only(&PAPER_FOUR_FCN, &config) } else { LayerPlan::all(config) };
        return Some(count(&*network, None, &plan));
    }
    let (name, which) = split_network(rest)?;
    let plan = match which {
        "4layers" => LayerPlan::only(&PAPER_FOUR, &config),
        "" | "all" => all(config, USUAL_LINEAR),
        other => all(config, pair(other.strip_prefix("all_lin")?, 'x')?.into()),
    };
    Some(count(&*resnet(name)?, None, &plan))
}

fn macs(key: &str) -> Option<Result<i64>> {
    let (name, size) = if segmenter(key).is_some() { key.rsplit_once('_')? } else { split_network(key)? };
    let input = match size.split_once('x') {
        Some(_) => pair(size, 'x')?.into(),
        None => [i64::from(size.parse::<u16>().ok()?); 2],
    };
    Some(count(&*segmenter(name).or_else(|| resnet(name))?, Some(input), &LayerPlan::dense()))
}

fn all(config: InducingConfig, [rows, cols]: [i64; 2]) -> LayerPlan {
    LayerPlan::all(config).kind_size(LayerKind::Linear, rows, cols)
}

/// Multiply-accumulates for a size of input, parameters without one.
fn count(network: &dyn Architecture, input: Option<[i64; 2]>, plan: &LayerPlan) -> Result<i64, VerifyError> {
    let [height, width] = input.unwrap_or([32, 32]);
    let cost = cost(&trace(&network.network()?, &[3, height, width])?, plan, Counting::Compat)?;
    Ok(if input.is_some() { cost.macs } else { cost.parameters })
}

/// `resnet18_cifar100_rest` → `resnet18_cifar100`, `rest`.
fn split_network(key: &str) -> Option<(&str, &str)> {
    let (depth, rest) = key.split_once('_')?;
    let data = rest.split('_').next()?;
    let name = &key[..depth.len() + 1 + data.len()];
    Some((name, key[name.len()..].trim_start_matches('_')))
}

/// `fcn…`, with torchvision's 21 outputs or, as the paper, 12 of the head; `hrnet…`.
fn segmenter(name: &str) -> Option<Box<dyn Architecture>> {
    if name.starts_with("hrnet") {
        return Some(Box::new(HrnetConfig::default()));
    }
    let outputs = Some(if name.ends_with("_21") { 21 } else { 12 });
    name.starts_with("fcn").then(|| {
        Box::new(FcnConfig { outputs, aux_outputs: Some(21), ..FcnConfig::default() }) as Box<dyn Architecture>
    })
}

/// `resnet18_cifar100`, `resnet50_imagenet`.
fn resnet(name: &str) -> Option<Box<dyn Architecture>> {
    let (depth, data) = name.strip_prefix("resnet")?.split_once('_')?;
    let depth = Depth::try_from(depth.parse::<i64>().ok()?).ok()?;
    let network = match data.strip_prefix("cifar") {
        Some(classes) => ResnetConfig::cifar(classes.parse::<u16>().ok()?.into()),
        None if data == "imagenet" => ResnetConfig::imagenet(),
        None => return None,
    };
    Some(Box::new(ResnetConfig { depth, ..network }))
}

fn pair(text: &str, separator: char) -> Option<(i64, i64)> {
    let (a, b) = text.split_once(separator)?;
    Some((a.parse::<u16>().ok()?.into(), b.parse::<u16>().ok()?.into()))
}
