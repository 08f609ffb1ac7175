//! Every flow against reference numbers, against automatic differentiation, and against itself.

mod exact;
mod golden;
mod gradients;
mod properties;
mod stacked;

use fidgp::Key;
use fidgp::flow::{
    AnyFlow, CouplingConfig, DiagonalConfig, FlowConfig, IafConfig, LipschitzConfig, MadeConfig, MadeStart, NormBy,
};
use fidgp::spectral::SpectralRule;
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

/// An empty f64 store.
pub(crate) fn store() -> VarStore {
    let mut store = VarStore::new(Device::Cpu);
    store.set_kind(Kind::Double);
    store
}

/// Standard normals in f64.
pub(crate) fn normal(key: Key, shape: &[i64]) -> Tensor {
    key.normal(shape, Kind::Double, Device::Cpu)
}

/// max|a − b|, infinite on a difference in shape.
pub(crate) fn gap(a: &Tensor, b: &Tensor) -> f64 {
    if a.size() == b.size() { (a - b).abs().max().double_value(&[]) } else { f64::INFINITY }
}

/// Every kind of flow, and the variants that take another path through the code.
pub(crate) fn configs() -> Vec<FlowConfig> {
    let small = |spectral, start| MadeConfig { hidden: Some(6), spectral, start, ..MadeConfig::default() };
    vec![
        FlowConfig::Made(MadeConfig::default()),
        FlowConfig::Made(small(SpectralRule::Off, MadeStart::FanIn)),
        FlowConfig::Made(MadeConfig { dropout: 0.1, ..small(SpectralRule::Compat, MadeStart::FanIn) }),
        FlowConfig::Iaf(IafConfig::default()),
        FlowConfig::Lipschitz(LipschitzConfig::default()),
        FlowConfig::Lipschitz(LipschitzConfig { layers: 3, norm: NormBy::Exact }),
        FlowConfig::Diagonal(DiagonalConfig::default()),
        FlowConfig::Coupling(CouplingConfig::default()),
        FlowConfig::Coupling(CouplingConfig { layers: 3, hidden: Some(3), spectral: SpectralRule::Off }),
    ]
}

/// A flow whose parameters are moved by noise of the given size, so that it is far from its start.
pub(crate) fn moved(config: &FlowConfig, dim: i64, noise: f64, key: Key) -> (VarStore, AnyFlow) {
    let store = store();
    let flow = config.init(&store.root(), dim, key).expect("the settings are sound");
    let mut variables: Vec<(String, Tensor)> =
        store.variables().into_iter().filter(|(_, v)| v.requires_grad()).collect();
    variables.sort_by(|a, b| a.0.cmp(&b.0));
    tch::no_grad(|| {
        for (name, variable) in &mut variables {
            *variable += normal(key.fold("move").fold(name), &variable.size()) * noise;
        }
    });
    (store, flow)
}

/// As [`configs`], without those that cannot act on `dim` columns.
pub(crate) fn configs_for(dim: i64) -> impl Iterator<Item = FlowConfig> {
    configs().into_iter().filter(move |config| dim > 1 || !matches!(config, FlowConfig::Coupling(_)))
}
